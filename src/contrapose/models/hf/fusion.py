"""What the matchers of the transformers library share: inputs, limits, pairs, the card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
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
from contrapose.models.hf.inputs import Captions, Pictures
from contrapose.models.hiding import word_embedding, zeroed
from contrapose.models.seen import unique

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture, Prepared
    from contrapose.models.hf.checkpoint import Checkpoint

LOG_ODDS = (
    "Its itm is log P(match) − log P(no match): the sigmoid of it is the probability that the "
    "model's two-way head gives."
)


class Fusion:
    """A network that looks at an image and a caption together; each family adds what it can do.

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
        self.captions = Captions(
            self.name,
            tokenizer,
            min(context, tokenizer.model_max_length),
            cut=options.cut,
            padding="longest",
            **(tokenizer_arguments or {}),
        )
        self.pictures = Pictures(processor, **(processor_arguments or {}))
        self.card = ModelCard(
            family=family,
            parameters=sum(weight.numel() for weight in network.parameters()),
            dtype=options.dtype,
            preprocessing=in_words(self.pictures),
            context=self.context,
            notes=tuple(notes),
        )
        self.pixel_mean = self.pictures.mean
        self._device = torch.device(options.device)
        self._dtype = options.torch_dtype
        self._words = word_embedding(network)
        self.text_masks = self.captions.masks if self._words is not None else ()

    @property
    def context(self) -> int:
        """Most tokens of a caption, with those that mark its ends."""
        return self.captions.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are cut."""
        return self.captions.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut."""
        return self.captions.counts(texts)

    def prepare_image(self, image: Image) -> Prepared:
        """An image as the network takes it, by the library's image processor."""
        return self.pictures.prepare(image)

    def normalise_image(self, prepared: Prepared) -> Prepared:
        """A prepared image, normalised."""
        return self.pictures.normalise(prepared)

    def _prepared(self, images: Sequence[Picture]) -> list[Prepared]:
        return [self.prepare_image(each) if isinstance(each, Image) else each for each in images]

    def _pixels(self, images: Sequence[Picture]) -> Tensor:
        stacked = self.pictures.stack(self._prepared(images), self._device, self._dtype)
        return stacked["pixel_values"]

    def _tokens(self, texts: Sequence[str]) -> dict[str, Tensor]:
        return self.captions.tensors(texts, self._device)

    def _hiding(
        self, texts: Sequence[str], tokens: Mapping[str, Tensor]
    ) -> AbstractContextManager[None]:
        """Within, the word vectors of hidden words are zeros."""
        return zeroed(self._words, self.captions.zeros(texts, tokens))

    def _pairs(
        self, images: Sequence[Picture], texts: Sequence[str]
    ) -> tuple[list[Picture], Tensor, dict[str, Tensor]]:
        """The distinct images, which of them each pair has, and the captions' tokens.

        Raises:
            InputError: there are not as many images as captions, or a caption is refused.
        """
        if len(images) != len(texts):
            raise InputError(
                f"{self.name} matches pairs: {len(images)} images were given with "
                f"{len(texts)} captions."
            )
        distinct, places = unique(images)
        return distinct, torch.tensor(places, device=self._device), self._tokens(texts)


def log_odds(logits: Tensor) -> Tensor:
    """One match logit (n,) of a head with two outputs (n, 2), no match and match, in float32."""
    wide = logits.float()
    return wide[:, 1] - wide[:, 0]


def unit(vectors: Tensor) -> Tensor:
    """Vectors of length one along the last dimension, in float32."""
    return F.normalize(vectors.float(), dim=-1)


def refuse_others(checkpoint: Checkpoint, others: Mapping[str, str]) -> None:
    """Refuse a checkpoint that was saved as another class of its family.

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


def holds(checkpoint: Checkpoint, prefix: str) -> bool:
    """Whether the files of a checkpoint have weights whose names begin so.

    Raises:
        InputError: they cannot be read.
    """
    try:
        names = _weight_names(Path(checkpoint.source))
    except Exception as error:  # the libraries raise almost anything on damaged files
        first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
        raise InputError(
            f"the weights of {checkpoint.name} cannot be read ({first}); fetch or save them again."
        ) from None
    return any(name.startswith(prefix) for name in names)


def _weight_names(folder: Path) -> set[str]:
    """The names of all weights of a folder."""
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


def in_words(pictures: Pictures) -> str:
    """What happens to an image, also where the processor has a way of its own."""
    if pictures.steps is not None:
        return pictures.in_words()
    processor = pictures.processor
    divisor = getattr(processor, "size_divisor", None)
    steps = [
        "RGB",
        f"resized ({Resampling(int(processor.resample)).name.lower()}) {_size(processor.size)}",
        f"both sides multiples of {divisor}" if divisor else "",
        f"{_crop(processor.crop_size)} cropped" if getattr(processor, "do_center_crop", 0) else "",
        "normalised",
    ]
    return ", ".join(step for step in steps if step)


def _size(size: Any) -> str:
    sides = dict(size)
    if sides.get("shortest_edge"):
        return f"shorter side to {sides['shortest_edge']}"
    return f"to {sides['width']}×{sides['height']}"


def _crop(size: Any) -> str:
    sides = dict(size)
    side = sides.get("shortest_edge")
    return f"middle {side or sides['width']}×{side or sides['height']}"
