"""Built-in models: dual encoder `tiny-clip`; dual encoder, matcher and captioner `tiny`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from contrapose.arrays import Ragged
from contrapose.errors import InputError
from contrapose.models.capabilities import EncodedImage, ModelCard, check_caption, check_pairs
from contrapose.models.encoded_images import EncodedImages, deduplicate, gather_encoded
from contrapose.models.exact import exact_inference
from contrapose.models.masking.embeddings import (
    make_zero_flags,
    pack_zero_flags,
    zero_embeddings,
    zero_masked_logprobs,
)
from contrapose.models.masking.text import PAD as BY_PAD
from contrapose.models.masking.text import (
    TOKEN_0,
    ZERO,
    MaskedText,
    flag_by_prefix,
    full_caption,
    replace_tokens,
)
from contrapose.models.options import LoadOptions
from contrapose.models.packing import pack, ragged_logprobs
from contrapose.models.tiny.network import (
    END,
    MATCH,
    PAD,
    START,
    FusionDecoder,
    TinyNetwork,
    Tokenizer,
)

ImageOrPixels = Image | Tensor
"""A decoded image, or pixels (3, h, w) in −1 … 1."""

ADDED_TOKENS = 2
"""Special tokens of every caption: START or MATCH, and END."""
ROW_TOKENS = 64
"""Most tokens of a row of several captions. On one core five captions of an image take 0.7 of the
time of single captions; rows of 300 tokens are no faster."""
ON_CPU, ELSEWHERE = 32, 128
"""Batch sizes; on two cores a batch of 128 takes a third longer than four of 32."""


class TinyClip:
    """Built-in dual encoder: score `itc` is the cosine of image and caption vectors.

    Attributes:
        name: the canonical model string.
        fingerprint: hash of weights and load options.
        batch_size: default number of images, captions or pairs per call.
        network: in its device and dtype.
        tokenizer: its tokenizer.
        text_masks: supported kinds of masking; the padding token, which is 0, is not attended to.
    """

    text_masks = (ZERO, BY_PAD, TOKEN_0)

    def __init__(
        self,
        name: str,
        network: TinyNetwork,
        words: Sequence[str],
        fingerprint: str,
        options: LoadOptions | None = None,
    ):
        self.name = name
        self.fingerprint = fingerprint
        self.network = network
        self.batch_size = ON_CPU if self.device.type == "cpu" else ELSEWHERE
        self.tokenizer = Tokenizer(words)
        self._options = options or LoadOptions()

    @property
    def card(self) -> ModelCard:
        """The model card."""
        size = self.network.config.image_size
        alike = "CLIP" if self.network.fusion is None else "BLIP"
        return ModelCard(
            family=f"tiny ({alike}-like)",
            parameters=self.network.size,
            dtype=self._options.dtype,
            preprocessing=f"RGB, resized (bicubic) to {size}×{size}, whatever its shape, −1 … 1",
            context=self.context,
            notes=(
                "It has seen the built-in world alone, and not a photograph.",
                f"It knows {len(self.tokenizer.words)} words; others are spelled in bytes.",
            ),
        )

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.network.log_scale.device

    @exact_inference
    def embed_images(self, images: Sequence[ImageOrPixels]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        image = self.network.image
        return image.embed(image(self.pixels(images)))

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or longer than the context.
        """
        tokens = self.tokens(texts, START)
        with zero_embeddings(self.network.text.words, self.zero_flags(texts, tokens)):
            vectors: Tensor = self.network.text(tokens)
        return vectors

    def prepare_image(self, image: Image) -> Tensor:
        """Resize an image to a square of pixels (3, h, w) in −1 … 1."""
        size = self.network.config.image_size
        if image.size != (size, size):
            image = image.resize((size, size), Resampling.BICUBIC)
        array = np.array(image.convert("RGB"))
        return scale_pixels(torch.from_numpy(array)[None])[0]

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, start and end included."""
        return self.network.config.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self._options.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        return [len(self.tokenizer.encode(full_caption(text))) + ADDED_TOKENS for text in texts]

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text before truncation, without special tokens."""
        return [self.tokenizer.encode(text) for text in texts]

    def pixels(self, images: Sequence[ImageOrPixels]) -> Tensor:
        """Pixels (n, 3, h, w) in −1 … 1, in the network's device and dtype."""
        rows = [
            self.prepare_image(image) if isinstance(image, Image) else image for image in images
        ]
        return torch.stack(rows).to(self.device, self.network.log_scale.dtype)

    def tokens(self, texts: Sequence[str], first: int) -> Tensor:
        """Token ids (n, l), each caption between `first` and END, padded.

        Raises:
            InputError: a caption is empty, or longer than the context and not to be truncated.
        """
        rows = self.rows(texts, first)
        length = max(map(len, rows))
        padded = [row + [PAD] * (length - len(row)) for row in rows]
        return torch.tensor(padded, device=self.device)

    def rows(self, texts: Sequence[str], first: int) -> list[list[int]]:
        """Token ids of each caption between `first` and END, not padded."""
        rows = []
        for text in texts:
            caption = full_caption(text)
            tokens = self.tokenizer.encode(caption)
            most = None if self.cuts else self.context
            check_caption(self.name, caption, len(tokens) + ADDED_TOKENS, ADDED_TOKENS, most)
            if isinstance(text, MaskedText) and text.kind != ZERO:
                flags = flag_by_prefix(self.tokenizer.encode, caption, text.hidden)
                tokens = replace_tokens(tokens, flags, PAD)
            rows.append([first, *tokens[: self.context - ADDED_TOKENS], END])
        return rows

    def mask_flags(self, text: str) -> list[bool]:
        """Mask flag of each token of a caption, from the first token on."""
        if not isinstance(text, MaskedText):
            return []
        flags = flag_by_prefix(self.tokenizer.encode, text.caption, text.hidden)
        return [False, *flags[: self.context - ADDED_TOKENS]]

    def zero_flags(self, texts: Sequence[str], tokens: Tensor) -> Tensor | None:
        """Flags (n, l) of tokens whose embeddings are zeroed; None where there are none."""
        rows = [self.mask_flags(text) for text in texts]
        return make_zero_flags(rows, texts, tokens.shape[1], device=self.device)


class Tiny(TinyClip):
    """Built-in BLIP-like model: dual encoder, matcher (`itm`) and captioner (`lm`).

    Attributes:
        noise_mean: mean of noise images, in pixels of −1 … 1; that of the training pictures.
        noise_std: standard deviation of noise images, in pixels of −1 … 1; that of the training
            pictures.
    """

    noise_mean, noise_std = 0.29, 0.28  # 0.284 and 0.280 of 1,200 pictures of its world

    @exact_inference
    def match(self, images: Sequence[ImageOrPixels], texts: Sequence[str]) -> Tensor:
        """Match logits (n,) of pairs."""
        check_pairs(self.name, images, texts)
        fusion, tokens = self._fusion(), self.tokens(texts, MATCH)
        with zero_embeddings(fusion.words, self.zero_flags(texts, tokens)):
            return fusion.match(tokens, self._image_tokens(images)).float()

    @exact_inference
    def token_logprobs(
        self, images: Sequence[ImageOrPixels | EncodedImage], texts: Sequence[str]
    ) -> Ragged:
        """Log P of every caption token and of the end, given the image and the tokens before."""
        check_pairs(self.name, images, texts)
        fusion, rows = self._fusion(), self.rows(texts, START)
        distinct, indices = deduplicate(images)
        packed = pack(rows, indices, longest=ROW_TOKENS, device=self.device)
        encoded = gather_encoded(distinct, self._encode, lambda images: images)
        tensors = encoded.select(packed.row_images).tensors
        masked = [self.mask_flags(text) for text in texts]
        with zero_embeddings(fusion.words, pack_zero_flags(masked, texts, packed)):
            states = packed.select(fusion.packed_states(packed, tensors))
        return zero_masked_logprobs(ragged_logprobs(fusion.token_logits(states), packed), masked)

    @exact_inference
    def encode_images(self, images: Sequence[ImageOrPixels]) -> list[EncodedImage]:
        """Encode images to the keys and values that captions attend to."""
        return self._encode(images).split() if images else []

    @property
    def lm_tokens(self) -> str:
        """Counted tokens: the caption and its end, as in training, without the start."""
        return "caption+end"

    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        """Gaussian noise images with the mean and spread of the training pictures."""
        size = self.network.config.image_size
        shape = (count, 3, size, size)
        noise = np.random.default_rng(seed).normal(self.noise_mean, self.noise_std, shape)
        return list(torch.from_numpy(noise).float())

    def _encode(self, images: Sequence[ImageOrPixels]) -> EncodedImages:
        """Keys and values of images for the fusion decoder."""
        return EncodedImages(self._fusion().keys_values(self.network.image(self.pixels(images))))

    def _image_tokens(self, images: Sequence[ImageOrPixels]) -> Tensor:
        """Image tokens of each pair; each distinct image is encoded once."""
        distinct, indices = deduplicate(images)
        tokens: Tensor = self.network.image(self.pixels(distinct))
        return tokens[torch.tensor(indices, device=self.device)]

    def _fusion(self) -> FusionDecoder:
        if self.network.fusion is None:
            raise InputError(f"{self.name} is a dual encoder: it gives itc alone.")
        return self.network.fusion


def scale_pixels(images: Tensor) -> Tensor:
    """Scale bytes (n, h, w, 3) to pixels (n, 3, h, w) in −1 … 1."""
    return images.permute(0, 3, 1, 2).float() / 127.5 - 1
