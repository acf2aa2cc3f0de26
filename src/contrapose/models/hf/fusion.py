"""Base class of the fusion encoders of the transformers library: inputs, pairs, model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

import torch
from PIL.Image import Image, Resampling
from safetensors import safe_open
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.errors import InputError
from contrapose.models.capabilities import ModelCard
from contrapose.models.encoded_images import deduplicate
from contrapose.models.hf.inputs import ImageInputs, TextInputs
from contrapose.models.masking.embeddings import find_word_embedding, zero_embeddings

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike, PreparedImage
    from contrapose.models.hf.checkpoint import Checkpoint

NARROW_NOTE = (
    "An image that is too narrow for the library's resizing (about 20 times as long as wide) is "
    "stretched first; the library itself fails on it."
)


def max_aspect_ratio(processor: Any) -> float:
    """Largest aspect ratio that the processors of ViLT and BridgeTower can resize.

    They bring the shorter side to its size, the longer one to no more than 1333/800 of that, and
    both down to a multiple of a number, which may be 0.
    """
    shorter: int = dict(processor.size)["shortest_edge"]
    return int(1333 / 800 * shorter) / int(processor.size_divisor)


def widen(image: Image, processor: Any) -> Image:
    """Widen an image that is too narrow to be resized; others stay as they are."""
    least = ceil(max(image.size) / max_aspect_ratio(processor))
    if min(image.size) >= least:
        return image
    width, height = (max(side, least) for side in image.size)
    return image.resize((width, height), Resampling.BICUBIC)


LOG_ODDS_NOTE = (
    "Its itm is log P(match) − log P(no match): the sigmoid of it is the probability that the "
    "model's two-way head gives."
)


class FusionModel:
    """Base of fusion encoders, which read an image and a caption jointly.

    Attributes:
        name: the canonical model string.
        fingerprint: hash of all that its answers hang on.
        batch_size: pairs at once, when the user does not say.
        network: the library's own class.
        captions: its tokeniser with its limits.
        pictures: its image preprocessing.
        card: what a user should know of it.
        text_masks: how it can hide words.
        pixel_mean: the colour that is zero for the network.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        network: Any,
        family: str,
        *,
        context: int,
        notes: Sequence[str] = (),
        tokenizer_arguments: Mapping[str, Any] | None = None,
        processor_arguments: Mapping[str, Any] | None = None,
    ):
        options = checkpoint.options
        tokenizer, processor = checkpoint.tokenizer(), checkpoint.image_processor()
        tokenizer.padding_side = "right"  # positions are counted from the left
        self.name = checkpoint.name
        self.fingerprint = checkpoint.fingerprint
        self.batch_size = 32
        self.network = network
        self.captions = TextInputs(
            self.name,
            tokenizer,
            min(context, tokenizer.model_max_length),
            cut=options.cut,
            padding="longest",
            **(tokenizer_arguments or {}),
        )
        self.pictures = ImageInputs(processor, **(processor_arguments or {}))
        self.card = ModelCard(
            family=family,
            parameters=sum(weight.numel() for weight in network.parameters()),
            dtype=options.dtype,
            preprocessing=describe_preprocessing(self.pictures),
            context=self.context,
            notes=tuple(notes),
        )
        self.pixel_mean = self.pictures.mean
        self._device = torch.device(options.device)
        self._dtype = options.torch_dtype
        self._words = find_word_embedding(network)
        self.text_masks = self.captions.masks if self._words is not None else ()

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, special tokens included."""
        return self.captions.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self.captions.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation."""
        return self.captions.counts(texts)

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess an image by the library's image processor."""
        return self.pictures.prepare(image)

    def normalize_image(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image."""
        return self.pictures.normalise(prepared)

    def _prepared(self, images: Sequence[ImageLike]) -> list[PreparedImage]:
        return [self.prepare_image(each) if isinstance(each, Image) else each for each in images]

    def _pixels(self, images: Sequence[ImageLike]) -> Tensor:
        stacked = self.pictures.stack(self._prepared(images), self._device, self._dtype)
        return stacked["pixel_values"]

    def _tokens(self, texts: Sequence[str]) -> dict[str, Tensor]:
        return self.captions.tensors(texts, self._device)

    def _hiding(
        self, texts: Sequence[str], tokens: Mapping[str, Tensor]
    ) -> AbstractContextManager[None]:
        """Context manager that zeroes the embeddings of masked words."""
        return zero_embeddings(self._words, self.captions.zeros(texts, tokens))

    def _pairs(
        self, images: Sequence[ImageLike], texts: Sequence[str]
    ) -> tuple[list[ImageLike], Tensor, dict[str, Tensor]]:
        """Distinct images, the index of each pair's image, and the captions' tokens.

        Raises:
            InputError: there are not as many images as captions, or a caption is refused.
        """
        if len(images) != len(texts):
            raise InputError(
                f"{self.name} matches pairs: {len(images)} images were given with "
                f"{len(texts)} captions."
            )
        distinct, places = deduplicate(images)
        return distinct, torch.tensor(places, device=self._device), self._tokens(texts)


def log_odds(logits: Tensor) -> Tensor:
    """Match logit (n,) in float32 of a two-class head (n, 2): no match, match."""
    wide = logits.float()
    return wide[:, 1] - wide[:, 0]


def normalize_rows(vectors: Tensor) -> Tensor:
    """L2-normalize vectors along the last dimension, in float32."""
    return F.normalize(vectors.float(), dim=-1)


def refuse_architectures(checkpoint: Checkpoint, others: Mapping[str, str]) -> None:
    """Refuse a checkpoint saved as another, unsupported class of its family.

    Args:
        checkpoint: what is to be loaded.
        others: class name → what such a model is, in words.

    Raises:
        InputError: it is one of those.
    """
    for kind in checkpoint.config.architectures or ():
        if kind in others:
            raise InputError(
                f"{checkpoint.name} is {others[kind]} ({kind}): it has no image-text matching or "
                "contrastive head, nor another that a score is read from here."
            )


def has_weights(checkpoint: Checkpoint, prefix: str) -> bool:
    """Whether the weight files of a checkpoint have names with the given prefix.

    Raises:
        InputError: they cannot be read.
    """
    try:
        names = _list_weight_names(Path(checkpoint.source))
    except Exception as error:  # the libraries raise almost anything on damaged files
        first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
        raise InputError(
            f"the weights of {checkpoint.name} cannot be read ({first}); fetch or save them again."
        ) from None
    return any(name.startswith(prefix) for name in names)


def _list_weight_names(folder: Path) -> set[str]:
    """Names of all weights in a folder."""
    names: set[str] = set()
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="pt") as stream:
            names.update(stream.keys())
    if not names:
        for file in folder.glob("pytorch_model*.bin"):
            names.update(
                torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipfile(file))
            )
    return names


def describe_preprocessing(pictures: ImageInputs) -> str:
    """Describe the image preprocessing, also of processors with steps of their own."""
    if pictures.steps is not None:
        return pictures.in_words()
    processor = pictures.processor
    divisor = getattr(processor, "size_divisor", None)
    steps = [
        "RGB",
        f"resized ({Resampling(int(processor.resample)).name.lower()}) "
        f"{_describe_size(processor.size)}",
        f"both sides multiples of {divisor}" if divisor else "",
        f"{_describe_crop(processor.crop_size)} cropped"
        if getattr(processor, "do_center_crop", 0)
        else "",
        "normalised",
    ]
    return ", ".join(step for step in steps if step)


def _describe_size(size: Any) -> str:
    sides = dict(size)
    if sides.get("shortest_edge"):
        return f"shorter side to {sides['shortest_edge']}"
    return f"to {sides['width']}×{sides['height']}"


def _describe_crop(size: Any) -> str:
    sides = dict(size)
    side = sides.get("shortest_edge")
    return f"middle {side or sides['width']}×{side or sides['height']}"
