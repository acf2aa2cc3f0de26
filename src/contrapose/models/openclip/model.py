"""Dual encoder of open_clip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from PIL.Image import Image, Resampling
from torch import Tensor, tensor
from torch import bool as bool_
from torch.nn.functional import normalize

from contrapose.models.capabilities import ModelCard, check_caption
from contrapose.models.exact import exact_inference
from contrapose.models.image_transform import ImageTransform, batch_images
from contrapose.models.masking.embeddings import (
    find_word_embedding,
    make_zero_flags,
    zero_embeddings,
)
from contrapose.models.masking.text import (
    PAD,
    TOKEN_0,
    ZERO,
    MaskedText,
    flag_by_prefix,
    full_caption,
    full_captions,
)
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike

FILTERS = {"bicubic": Resampling.BICUBIC, "bilinear": Resampling.BILINEAR}


class OpenClip:
    """Dual encoder of open_clip: score `itc` is the cosine of image and caption vectors.

    Captions are padded to the full length, as the library does.

    Attributes:
        name: as the user would type it.
        fingerprint: of weights, configuration and preprocessing.
        batch_size: how many to give at once.
        network: the library's own.
        card: what a user should know.
        text_masks: how it can hide words; CLIP's own tokeniser pads with token 0.
        pixel_mean: the colour that is zero for the network.
    """

    def __init__(
        self,
        name: str,
        fingerprint: str,
        network: Any,
        tokenizer: Any,
        options: LoadOptions,
        *,
        quick: bool,
    ):
        self.name = name
        self.fingerprint = fingerprint
        self.batch_size = 64
        self.network = network
        self._tokenizer = tokenizer
        self._options = options
        self._steps = build_open_clip_transform(network.visual.preprocess_cfg)
        self._transform = (
            self._steps.resize_to_bytes if self._steps else _build_library_transform(network)
        )
        self._added = self.token_counts([""])[0]
        self._words = find_word_embedding(getattr(network, "text", network))
        plain = getattr(tokenizer, "tokenizer", None) is None
        kinds = (ZERO, PAD, TOKEN_0) if plain else (ZERO,)
        self.text_masks = kinds if self._words is not None else ()
        self.pixel_mean = tuple(map(float, network.visual.preprocess_cfg["mean"]))
        scale = network.logit_scale.detach().float().exp().item()
        self.card = ModelCard(
            family="open_clip",
            parameters=sum(weight.numel() for weight in network.parameters()),
            dtype=options.dtype,
            preprocessing=self._steps.in_words() if self._steps else "as open_clip does it",
            context=self.context,
            notes=(
                f"itc is the bare cosine; in training it was multiplied by {scale:.4g}",
                f"its activation is {'QuickGELU' if quick else 'that of its configuration'}",
            ),
        )

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        rows: list[Any] = [
            self.prepare_image(image) if isinstance(image, Image) else image for image in images
        ]
        pixels = batch_images(rows, self._steps, self._options.device, self._options.torch_dtype)
        return normalize(self.network.encode_image(pixels).float(), dim=-1)

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or too long.
        """
        most = None if self.cuts else self.context
        captions = full_captions(texts)
        for caption, count in zip(captions, self.token_counts(captions), strict=True):
            check_caption(self.name, caption, count, self._added, most)
        tokens = self._tokenizer(captions)
        hidden = [self._hidden(row, text) for row, text in zip(tokens, texts, strict=True)]
        for row, flags, text in zip(tokens, hidden, texts, strict=True):
            if isinstance(text, MaskedText) and text.kind != ZERO:
                row[: len(flags)][tensor(flags, dtype=bool_)] = 0
        device = self._options.device
        with zero_embeddings(
            self._words, make_zero_flags(hidden, texts, tokens.shape[1], device=device)
        ):
            return normalize(self.network.encode_text(tokens.to(device)).float(), dim=-1)

    def prepare_image(self, image: Image) -> Tensor:
        """Preprocess an image; normalization may be left to the device."""
        return self._transform(image.convert("RGB"))

    def normalize_image(self, prepared: Tensor) -> Tensor:
        """Normalize a prepared image."""
        if self._steps is None or prepared.is_floating_point():
            return prepared
        return self._steps.normalize_bytes(prepared)

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, start and end included."""
        return int(self._tokenizer.context_length)

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self._options.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        inner = getattr(self._tokenizer, "tokenizer", None)
        if inner is None:
            return [len(self._tokenizer.encode(full_caption(text))) + 2 for text in texts]
        clean = self._clean()
        cleaned = [clean(full_caption(text)) for text in texts]
        if getattr(self._tokenizer, "tokenizer_mode", "") == "clips":  # start, end and class
            return [len(row) + 3 for row in inner(cleaned, add_special_tokens=False)["input_ids"]]
        return [len(row) for row in inner(cleaned, verbose=False)["input_ids"]]

    def _hidden(self, row: Tensor, text: str) -> list[bool]:
        """Mask flag of each token of a row, up to the end of the caption."""
        if not isinstance(text, MaskedText):
            return []
        flags, ids = flag_by_prefix(self._bare, text.caption, text.hidden), self._bare(text.caption)
        before = 0 if row[: len(ids)].tolist() == ids else 1
        return ([False] * before + flags)[: len(row) - 1]

    def _bare(self, text: str) -> list[int]:
        """Token ids of a text without special tokens."""
        inner = getattr(self._tokenizer, "tokenizer", None)
        if inner is None:
            return list(self._tokenizer.encode(text))
        found = inner(self._clean()(text), add_special_tokens=False, verbose=False)
        return list(found["input_ids"])

    def _clean(self) -> Callable[[str], str]:
        from open_clip.tokenizer import basic_clean, canonicalize_text

        own: Callable[[str], str] | None = getattr(self._tokenizer, "clean_fn", None)
        return own or (lambda text: str(canonicalize_text(basic_clean(text))))


def build_open_clip_transform(config: Any) -> ImageTransform | None:
    """Image transform equal to open_clip's preprocessing; None where that is unusual."""
    size = config["size"]
    height, width = (size, size) if isinstance(size, int) else (size[0], size[1])
    resample = FILTERS.get(config["interpolation"])
    mode = config["resize_mode"]
    square = mode == "shortest" and height == width
    if resample is None or not (square or mode == "squash"):
        return None
    return ImageTransform(
        resize=height if square else (height, width),
        crop=(height, width) if square else None,
        resample=resample,
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        even=True,
    )


def _build_library_transform(network: Any) -> Callable[[Image], Tensor]:
    from open_clip.transform import PreprocessCfg, image_transform_v2

    config = PreprocessCfg(**network.visual.preprocess_cfg)
    transform: Callable[[Image], Tensor] = image_transform_v2(config, is_train=False)
    return transform
