"""The inputs of losses: features of a batch, and what a loss asks for in its `needs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses.gather import processes

MatchFunction = Callable[[Tensor, Tensor], Tensor]
"""Match logits (n,) of images with captions, both given as indices (n,) in the whole batch."""

NEEDS: Mapping[str, tuple[str, ...]] = {
    "negative": ("negative",),
    "positive": ("positive",),
    "masked": ("masked", "masked_negative"),
    "match": ("match",),
    "coarse": ("coarse",),
    "tokens": ("token_logits", "tokens"),
    "teacher": ("choices", "targets"),
}
"""What a loss may need beyond images and captions, and the fields of `LossBatch` that hold it."""


@dataclass(frozen=True, slots=True)
class LossBatch:
    """Features of a batch in this process; row i of every field belongs to image i.

    Attributes:
        image: (b, d) unit vectors of images.
        text: (b, d) unit vectors of their captions.
        scale: inverse temperature 1/τ that cosines are multiplied with.
        bias: added to scaled cosines by losses with a sigmoid.
        same: (b,) numbers; off the diagonal, pairs of equal numbers are no negatives (captions that
            stand twice, images with several captions).
        negative: (b, d) or (b, n, d) unit vectors of hard negatives.
        has_negative: (b,) or (b, n) which of them exist; all without it.
        same_negative: (b,) or (b, n) numbers of the negatives, by the numbering of `same`: a
            negative is none to the rows whose caption has its number.
        positive: (b, d) unit vectors of hard positives.
        has_positive: (b,) which of them exist; all without it.
        masked: (b, 2**n, d) unit vectors of captions with words hidden, by coalition.
        masked_negative: (b, 2**n, d) the same of their negatives.
        has_masked: (b,) which rows have both; all without it.
        match: judges images with captions of the whole batch.
        coarse: (b, B) similarities of these images with the captions of the whole batch, by which
            pairs to judge are chosen; cosines without it.
        seed: of what losses draw by it, equal in all processes.
        token_logits: (b, l, v) a decoder's logits at each position.
        tokens: (b, l) the captions' tokens, −100 where ignored.
        choices: (b, k, d) unit vectors of the captions that a teacher chose from; zeros for none.
        targets: (b, k) the teacher's probabilities of these captions, zero for none.
    """

    image: Tensor
    text: Tensor
    _: KW_ONLY
    scale: Tensor | float = 1 / 0.07
    bias: Tensor | float = 0.0
    same: Tensor | None = None
    negative: Tensor | None = None
    has_negative: Tensor | None = None
    same_negative: Tensor | None = None
    positive: Tensor | None = None
    has_positive: Tensor | None = None
    masked: Tensor | None = None
    masked_negative: Tensor | None = None
    has_masked: Tensor | None = None
    match: MatchFunction | None = field(default=None, repr=False)
    coarse: Tensor | None = None
    seed: int | None = None
    token_logits: Tensor | None = None
    tokens: Tensor | None = None
    choices: Tensor | None = None
    targets: Tensor | None = None

    def require(self, name: str) -> Tensor:
        """The tensor of an optional field.

        Raises:
            InputError: the batch does not have it.
        """
        value = getattr(self, name)
        if value is None:
            raise InputError(f"this loss needs `{name}`, and the batch has none.")
        return value  # type: ignore[no-any-return]

    def features(self) -> tuple[Tensor, Tensor]:
        """Image and caption vectors in one dtype, at least float32.

        Raises:
            InputError: they are not two floating-point matrices of one shape.
        """
        image, text = self.image, self.text
        if image.ndim != 2 or image.shape != text.shape:
            raise InputError(
                f"images have features of shape {tuple(image.shape)} and captions "
                f"{tuple(text.shape)}: both must be (batch, width)."
            )
        if not (image.is_floating_point() and text.is_floating_point()):
            raise InputError(
                f"features must be floating point, not {image.dtype} and {text.dtype}."
            )
        if self.same is not None and self.same.shape != image.shape[:1]:
            raise InputError(
                f"`same` has shape {tuple(self.same.shape)}; it needs one number a row."
            )
        dtype = at_least_float32(torch.promote_types(image.dtype, text.dtype))
        return image.to(dtype), text.to(dtype)

    def pairs(self) -> tuple[Tensor, Tensor]:
        """`features` of a batch with at least two pairs to compare.

        Raises:
            InputError: the features have bad shapes, or there is one pair only.
        """
        image, text = self.features()
        if len(image) * processes().count < 2:
            raise InputError("a batch of one pair has nothing to compare with: give at least two.")
        return image, text


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """The dtype, widened to float32 where it is a half precision."""
    return torch.promote_types(dtype, torch.float32)


def accumulator_dtype(device: torch.device) -> torch.dtype:
    """The dtype of long sums: float64, or float32 on devices without float64."""
    return torch.float32 if device.type == "mps" else torch.float64
