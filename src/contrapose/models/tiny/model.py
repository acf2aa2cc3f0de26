"""The built-in models as the scoring engine sees them: what they can do, asked in batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models.capabilities import Looked, ModelCard, Ragged
from contrapose.models.captions import check_caption
from contrapose.models.hiding import flags_of, packed_flags, without_hidden, zeroed
from contrapose.models.masks import PAD as BY_PAD
from contrapose.models.masks import TOKEN_0, ZERO, MaskedText, by_prefix, caption_of, replaced
from contrapose.models.options import LoadOptions
from contrapose.models.packing import pack, ragged
from contrapose.models.precise import precise
from contrapose.models.seen import Seen, gathered, unique
from contrapose.models.tiny.network import Fusion, Network
from contrapose.models.tiny.tokeniser import END, MATCH, PAD, START, Tokeniser

Picture = Image | Tensor
"""A decoded image, or pixels (3, h, w) in −1 … 1 already."""

ADDED = 2
"""Tokens that are added to every caption: the first, which says what is asked, and the end."""
ROW = 64
"""Tokens of captions that share a row. On one core 5 captions an image take 0.7 of the time that
they take one by one; rows of 300 tokens are no faster than that."""
ON_CPU, ELSEWHERE = 32, 128
"""Images, captions or pairs at once; on two cores 128 take a third longer than four times 32."""


class TinyClip:
    """A dual encoder: images and captions become vectors, compared by their cosine (ITC).

    Attributes:
        name: as the user would type it.
        fingerprint: of weights and of how they are loaded.
        batch_size: how many to give at once.
        network: on its device and in its dtype.
        tokeniser: from captions to token numbers.
        text_masks: how it can hide words; padding is not looked at, and its token is 0.
    """

    text_masks = (ZERO, BY_PAD, TOKEN_0)

    def __init__(
        self,
        name: str,
        network: Network,
        words: Sequence[str],
        fingerprint: str,
        options: LoadOptions | None = None,
    ):
        self.name = name
        self.fingerprint = fingerprint
        self.network = network
        self.batch_size = ON_CPU if self.device.type == "cpu" else ELSEWHERE
        self.tokeniser = Tokeniser(words)
        self._options = options or LoadOptions()

    @property
    def card(self) -> ModelCard:
        """What a user should know of it."""
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
                f"It knows {len(self.tokeniser.words)} words; others are spelled in bytes.",
            ),
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.network.log_scale.device

    @precise
    def embed_images(self, images: Sequence[Picture]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        image = self.network.image
        return image.embed(image(self.pixels(images)))

    @precise
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or longer than the network reads.
        """
        tokens = self.tokens(texts, START)
        with zeroed(self.network.text.words, self._flags(texts, tokens)):
            vectors: Tensor = self.network.text(tokens)
        return vectors

    def prepare_image(self, image: Image) -> Tensor:
        """Pixels (3, h, w) in −1 … 1, resized to a square."""
        size = self.network.config.image_size
        if image.size != (size, size):
            image = image.resize((size, size), Resampling.BICUBIC)
        array = np.array(image.convert("RGB"))
        return to_range(torch.from_numpy(array)[None])[0]

    @property
    def context(self) -> int:
        """Most tokens of a caption, with the first and the end."""
        return self.network.config.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are cut."""
        return self._options.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut, with the first and the end."""
        return [len(self.tokeniser.encode(caption_of(text))) + ADDED for text in texts]

    def pixels(self, images: Sequence[Picture]) -> Tensor:
        """Pixels (n, 3, h, w) in −1 … 1, where and as the network takes them."""
        rows = [
            self.prepare_image(image) if isinstance(image, Image) else image for image in images
        ]
        return torch.stack(rows).to(self.device, self.network.log_scale.dtype)

    def tokens(self, texts: Sequence[str], first: int) -> Tensor:
        """Token numbers (n, l), each caption between `first` and END, padded.

        Raises:
            InputError: a caption is empty, or longer than the network reads and not to be cut.
        """
        rows = self.rows(texts, first)
        length = max(map(len, rows))
        padded = [row + [PAD] * (length - len(row)) for row in rows]
        return torch.tensor(padded, device=self.device)

    def rows(self, texts: Sequence[str], first: int) -> list[list[int]]:
        """The same, not padded."""
        rows = []
        for text in texts:
            caption = caption_of(text)
            tokens = self.tokeniser.encode(caption)
            most = None if self.cuts else self.context
            check_caption(self.name, caption, len(tokens) + ADDED, ADDED, most)
            if isinstance(text, MaskedText) and text.kind != ZERO:
                flags = by_prefix(self.tokeniser.encode, caption, text.hidden)
                tokens = replaced(tokens, flags, PAD)
            rows.append([first, *tokens[: self.context - ADDED], END])
        return rows

    def hidden(self, text: str) -> list[bool]:
        """For each token of a caption, from the first on, whether it is of a hidden word."""
        if not isinstance(text, MaskedText):
            return []
        flags = by_prefix(self.tokeniser.encode, text.caption, text.hidden)
        return [False, *flags[: self.context - ADDED]]

    def _flags(self, texts: Sequence[str], tokens: Tensor) -> Tensor | None:
        """(n, l) the tokens whose vectors are to be zero; None where there are none."""
        rows = [self.hidden(text) for text in texts]
        return flags_of(rows, texts, tokens.shape[1], device=self.device)


class Tiny(TinyClip):
    """With a second network that looks at the image: judges captions (ITM), continues them (LM).

    Attributes:
        noise_mean: of noise images, in the network's own pixel range −1 … 1.
        noise_std: likewise.
    """

    noise_mean, noise_std = 0.25, 0.4  # about the mean and spread of scenes

    @precise
    def match(self, images: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Match logits (n,) of pairs."""
        _require_pairs(images, texts)
        fusion, tokens = self._fusion(), self.tokens(texts, MATCH)
        with zeroed(fusion.words, self._flags(texts, tokens)):
            return fusion.match(tokens, self._looked(images)).float()

    @precise
    def token_logprobs(self, images: Sequence[Picture | Looked], texts: Sequence[str]) -> Ragged:
        """Log P of every caption token and of the end, given the image and the tokens before."""
        _require_pairs(images, texts)
        fusion, rows = self._fusion(), self.rows(texts, START)
        distinct, places = unique(images)
        packed = pack(rows, places, longest=ROW, device=self.device)
        seen = gathered(distinct, self._see, lambda kept: kept).rows(packed.rows)
        hidden = [self.hidden(text) for text in texts]
        with zeroed(fusion.words, packed_flags(hidden, texts, packed)):
            states = packed.chosen(fusion.packed(packed, seen.tensors))
        return without_hidden(ragged(fusion.after(states), packed), hidden)

    @precise
    def look(self, images: Sequence[Picture]) -> list[Looked]:
        """Keys and values of images, which captions will attend to."""
        return self._see(images).looked() if images else []

    @property
    def lm_tokens(self) -> str:
        """The caption's tokens and its end count, as in training; the start does not."""
        return "caption+end"

    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        """Pixels without content, for the language prior: Gaussian noise about scenes' mean."""
        size = self.network.config.image_size
        shape = (count, 3, size, size)
        noise = np.random.default_rng(seed).normal(self.noise_mean, self.noise_std, shape)
        return list(torch.from_numpy(noise).float())

    def _see(self, images: Sequence[Picture]) -> Seen:
        """Keys and values of images for the network that continues captions."""
        return Seen(self._fusion().keep(self.network.image(self.pixels(images))))

    def _looked(self, images: Sequence[Picture]) -> Tensor:
        """Image tokens; the same picture twice in a batch is looked at once."""
        distinct, places = unique(images)
        tokens: Tensor = self.network.image(self.pixels(distinct))
        return tokens[torch.tensor(places, device=self.device)]

    def _fusion(self) -> Fusion:
        if self.network.fusion is None:
            raise InputError(f"{self.name} is a dual encoder: it gives itc alone.")
        return self.network.fusion


def _require_pairs(images: Sequence[Picture | Looked], texts: Sequence[str]) -> None:
    """Refuse lists of unequal length, of which the network would pair one with all."""
    if len(images) != len(texts):
        raise InputError(f"{len(images)} images were given with {len(texts)} captions.")


def to_range(images: Tensor) -> Tensor:
    """Bytes (n, h, w, 3) as pixels (n, 3, h, w) in −1 … 1."""
    return images.permute(0, 3, 1, 2).float() / 127.5 - 1
