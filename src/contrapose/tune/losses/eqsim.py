"""EqSim: similarities that change as much as the meaning does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from contrapose.errors import InputError
from contrapose.tune.losses.batch import Batch
from contrapose.tune.losses.equivariance import Equivariance
from contrapose.tune.losses.pairs import pairwise


@dataclass(frozen=True, slots=True)
class EqSim:
    """A regulariser on any two matched pairs of the batch; needs no annotation.

    When to use: beside a retrieval loss, with a weight β of 0.2, 0.5 or 1, where the model misses
    small changes. `pairwise` computes it together with `InfoNCE` on the same cosines.

    Inputs: unit vectors (b, d) of images and captions; a scale, and for sigmoids a bias, where
    similarities are not plain cosines.

    Equation (Wang et al. 2023, equation 6), for S_ij = s(I_i, T_j) and two pairs i ≠ j:
    v1 = (S_ij − S_ji)²; v2 = ((S_ii − S_ij) − (S_jj − S_ji))² + ((S_ii − S_ji) − (S_jj − S_ij))²,
    which is 2(S_ii − S_jj)² + 2(S_ij − S_ji)². Each squared term becomes max(term − margin, 0),
    pair by pair or once on its mean. The loss is the mean of v1 over all pairs plus that of v2 over
    close ones: for each i the k captions nearest to its image and the k images nearest to its
    caption. A pair that is close in several ways counts as often.

    Cost: for cosines with the margin on the mean, v1 comes from the cosines that are kept, or from
    Gram matrices (`grams`); the rest goes tile by tile.

    Example:
        nce, eq = pairwise(image, text, [InfoNCE(), EqSim()], scale=temperature())
        loss = nce + 0.5 * eq
    """

    v1: Literal["all", "easy"] | None = "all"
    """Over all pairs; over those not close, as a share of all B² entries; or not at all."""
    v2: Literal["close", "all"] | None = "close"
    """Over close pairs, over all, or not at all."""
    similarity: Literal["cosine", "softmax", "sigmoid"] = "cosine"
    """Cosines; a softmax of the scaled ones over the captions of each image; a sigmoid of each."""
    margin: float = 0.0
    """Of v2, and of v1 where it has none of its own."""
    margin_v1: float | None = None
    hinge: Literal["mean", "pair"] = "mean"
    """Where the margin is taken off: the mean of the terms, or each of them."""
    close: int = 8
    """How many captions and how many images are close."""
    chosen: Literal["top", "drawn"] = "top"
    """Close are the nearest, or draws without replacement by the softmax of the scaled cosines."""

    def __post_init__(self) -> None:
        if self.v1 is None and self.v2 is None:
            raise InputError("EqSim without v1 and v2 is no loss: choose one of them.")
        if self.v1 == "easy" and self.v2 != "close":
            raise InputError(
                "easy pairs of v1 are those that v2 leaves: choose v2 over close ones."
            )
        if self.close < 1:
            raise InputError(f"EqSim needs at least one close pair a row, not {self.close}.")
        if self.margin < 0 or (self.margin_v1 or 0) < 0:
            raise InputError("a margin of EqSim is below zero: give 0 or more.")

    @classmethod
    def paper(cls, margin: float = 0.04) -> EqSim:
        """As the paper writes it: softmaxed scores, each term hinged, the 8 nearest.

        It chose the margin among 0, 0.04 and 0.1, and does not say which.
        """
        return cls(similarity="softmax", margin=margin, hinge="pair")

    @classmethod
    def released(cls) -> EqSim:
        """As the authors' code computes it, with the settings of its README; β is 0.5 there.

        Row-softmaxed scores; 4 captions and 4 images drawn a pair; the margin of 0.1 taken off the
        mean of v2's terms; v1 without a margin and over the pairs that were not drawn. The code
        draws for a process's own pairs only; here for those of all processes.
        """
        return cls(
            v1="easy", similarity="softmax", margin=0.1, margin_v1=0.0, close=4, chosen="drawn"
        )

    def __call__(
        self,
        image: Tensor,
        text: Tensor,
        *,
        scale: Tensor | float = 1.0,
        bias: Tensor | float = 0.0,
        tile: int | None = None,
        keep: int | None = None,
    ) -> Tensor:
        """The loss of the whole batch; the arguments are those of `pairwise`."""
        if keep is None and self.v2 != "close":
            keep = 0  # alone it is quicker by Gram matrices
        (loss,) = pairwise(image, text, [self], scale=scale, bias=bias, tile=tile, keep=keep)
        return loss

    def begin(self, batch: Batch) -> Equivariance:
        """Starts on a batch."""
        return Equivariance(self, batch)


PRESETS: dict[str, Callable[[], EqSim]] = {
    "default": EqSim,
    "paper": EqSim.paper,
    "released": EqSim.released,
}
"""Settings by name."""
