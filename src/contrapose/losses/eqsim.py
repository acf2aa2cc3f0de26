"""EqSim, the equivariance regularizer (Wang et al. 2023), as the paper writes it.

Two matched pairs (I_1, T_1) and (I_2, T_2) have four similarities: s_11, s_12 = s(I_1, T_2), s_21
and s_22. `eqsim` is the plain form on a matrix of them. `EqSim` computes the same numbers without
large autograd graphs: tile by tile (`eqsim_tiled`) or, on a GPU, by Triton kernels (`fused`). The
tests hold both to this page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch
from contrapose.losses.eqsim_tiled import TiledEqSim
from contrapose.losses.gather import all_gather
from contrapose.losses.registry import register_loss
from contrapose.losses.tiled import CosineTiles, pairwise

if TYPE_CHECKING:
    from contrapose.losses.eqsim_match import EqSimMatch

Counted = tuple[Tensor, Tensor | int]
"""How often each pair counts, and the number that their sum is divided by."""


def eqsim_v1(s12: Tensor, s21: Tensor) -> Tensor:
    """Equation 6, first line, squared: s_12 = s_21."""
    return (s12 - s21).square()


def eqsim_v2(s11: Tensor, s12: Tensor, s21: Tensor, s22: Tensor) -> tuple[Tensor, Tensor]:
    """Equation 6, second line, squared: s_11 − s_12 = s_22 − s_21 and s_11 − s_21 = s_22 − s_12."""
    return ((s11 - s12) - (s22 - s21)).square(), ((s11 - s21) - (s22 - s12)).square()


def hinged_mean(
    squares: Tensor,
    counted: Counted,
    margin: float,
    hinge: Literal["mean", "pair"],
    total: Callable[[Tensor], Tensor] = torch.sum,
) -> Tensor:
    """Mean of [· − α]_+ over pairs (section 3, margin α), or [· − α]_+ of their mean."""
    counts, number = counted
    if hinge == "pair":
        return total((squares - margin).clamp(min=0) * counts) / number
    return (total(squares * counts) / number - margin).clamp(min=0)


def close_pairs(s: Tensor, count: int) -> Tensor:
    """(B, B) how often the pair (i, j), i ≠ j, is close: T_j to I_i, and I_j to T_i.

    Close are the top-k (section 3); of equal similarities, the lowest index comes first.
    """
    away = s.detach().clone().fill_diagonal_(-torch.inf)
    close = torch.zeros_like(away)
    for scores in (away, away.T):
        order = scores.sort(dim=1, descending=True, stable=True).indices
        close.scatter_add_(1, order[:, : min(count, len(s) - 1)], torch.ones_like(away))
    return close


def eqsim(s: Tensor, close: Tensor, settings: EqSim) -> Tensor:
    """L_EQ of a (B, B) matrix of similarities s_ij, given how often (B, B) each pair is close."""
    size, right = len(s), s.diagonal()
    apart: Counted = 1 - torch.eye(size, dtype=s.dtype, device=s.device), size * (size - 1)
    easy: Counted = apart[0] * (close + close.T == 0), size**2
    near: Counted = close.to(s.dtype), close.sum()
    four = right[:, None], s, s.T, right[None, :]
    return settings.loss(
        *four, easy if settings.v1 == "easy" else apart, near if settings.v2 == "close" else apart
    )


@register_loss
@dataclass(frozen=True, slots=True)
class EqSim:
    """Equivariance regularizer on any two matched pairs of a batch.

    Computes: for each two pairs i ≠ j, v1 = (s_ij − s_ji)² and the two terms of v2,
        ((s_ii − s_ij) − (s_jj − s_ji))² and ((s_ii − s_ji) − (s_jj − s_ij))², each reduced by a
        margin and clipped at zero (Wang et al. 2023, equation 6). The loss is the mean of v1 over
        all pairs plus those of v2 over close ones: for each i the k captions nearest to its image
        and the k images nearest to its caption. A pair that is close twice counts twice.
    Inputs: `image`, `text`; `scale` and `bias` where similarities are not plain cosines.
    Requirements: nothing beyond the contrastive loss; no annotation.
    When to use: beside a retrieval loss, where scores of different images must mean the same; the
        paper has weights β of 0.2, 0.5 and 1. On the built-in world the equivariance score tightens
        with β on cosines and widens under a softmax; the group score, which the paper reports to
        rise, did not (docs/studies/eqsim.md).

    Example:
        >>> nce, eq = pairwise(LossBatch(image, text, scale=14.3), [InfoNCE(), EqSim(close=4)])
        >>> loss = nce + 0.5 * eq
    """

    name: ClassVar[str] = "eqsim"
    weight: ClassVar[float] = 0.5
    needs: ClassVar[frozenset[str]] = frozenset()

    v1: Literal["all", "easy"] | None = "all"
    """Over all pairs; over those not close, as a share of all B² entries; or not at all."""
    v2: Literal["close", "all"] | None = "close"
    """Over close pairs, over all, or not at all."""
    similarity: Literal["cosine", "softmax", "sigmoid"] = "cosine"
    """Cosines; a softmax of the scaled ones over the captions of each image; a sigmoid of each."""
    margin: float = 0.0
    """Of v2, and of v1 unless `margin_v1` is given."""
    margin_v1: float | None = None
    hinge: Literal["mean", "pair"] = "mean"
    """Where the margin is subtracted: from the mean of the terms, or from each of them."""
    close: int = 8
    """k: how many captions and how many images are close."""
    chosen: Literal["top", "drawn"] = "top"
    """Close are the nearest, or draws without replacement by the softmax of the scaled cosines."""
    sampled: int = 15
    """Of a model that judges pairs: others that are judged with each pair (`EqSimMatch`); 0: none.
    """

    def __post_init__(self) -> None:
        if self.v1 is None and self.v2 is None:
            raise InputError("EqSim without v1 and v2 is no loss: choose one of them.")
        if self.v1 == "easy" and self.v2 != "close":
            raise InputError("easy pairs of v1 are those that v2 over close pairs leaves out.")
        if self.close < 1:
            raise InputError(f"EqSim needs at least one close pair a row, not {self.close}.")
        if self.sampled < 0:
            raise InputError(f"EqSim samples 0 or more other pairs, not {self.sampled}.")
        if self.margin < 0 or (self.margin_v1 or 0) < 0:
            raise InputError("a margin of EqSim is below zero: give 0 or more.")

    @classmethod
    def paper(cls, margin: float = 0.04) -> EqSim:
        """Settings of the paper: softmax, each term hinged, 8 nearest; margin 0, 0.04 or 0.1."""
        return cls(similarity="softmax", margin=margin, hinge="pair")

    @classmethod
    def released(cls) -> EqSim:
        """Settings of the authors' code: 4 captions and 4 images drawn, v1 over the other pairs.

        The margin of 0.1 is subtracted from the means of v2. The code draws for a process's pairs
        only; here pairs are drawn from the batch of all processes.
        """
        return cls(
            v1="easy", similarity="softmax", margin=0.1, margin_v1=0.0, close=4, chosen="drawn"
        )

    def __call__(self, batch: LossBatch) -> Tensor:
        """The loss of the whole batch, tile by tile or by kernels."""
        return pairwise(batch, [self])[0]

    def plain(self, batch: LossBatch, close: Tensor | None = None) -> Tensor:
        """The loss of the whole batch on B × B matrices, with autograd; for reading and tests."""
        image, text = (all_gather(it) for it in batch.pairs())
        cosines = image @ text.T
        if close is None:
            close = close_pairs(cosines, self.close)
        logits = batch.scale * cosines
        if self.similarity == "cosine":
            return eqsim(cosines, close, self)
        if self.similarity == "softmax":
            return eqsim(logits.softmax(dim=1), close, self)
        return eqsim((logits + batch.bias).sigmoid(), close, self)

    def on_match_scores(self) -> EqSimMatch | None:
        """The same regularizer on the match scores of a model that judges pairs."""
        from contrapose.losses.eqsim_match import EqSimMatch

        if not self.sampled:
            return None
        return EqSimMatch(
            self.sampled, self.close, self.v1, self.v2, self.margin, self.margin_v1, self.hinge,
            self.chosen,
        )  # fmt: skip

    def loss(
        self,
        s11: Tensor,
        s12: Tensor,
        s21: Tensor,
        s22: Tensor,
        in_v1: Counted,
        in_v2: Counted,
        total: Callable[[Tensor], Tensor] = torch.sum,
    ) -> Tensor:
        """L_EQ = v1 + v2 of pairs with these four similarities."""
        margin_v1 = self.margin if self.margin_v1 is None else self.margin_v1
        terms: list[Tensor] = []
        if self.v1:
            terms.append(hinged_mean(eqsim_v1(s12, s21), in_v1, margin_v1, self.hinge, total))
        if self.v2:
            for squares in eqsim_v2(s11, s12, s21, s22):
                terms.append(hinged_mean(squares, in_v2, self.margin, self.hinge, total))
        return torch.stack(terms).sum()

    def begin(self, tiles: CosineTiles) -> TiledEqSim:
        """The tiled form of a batch."""
        return TiledEqSim(self, tiles)


register_loss(EqSim.paper, "eqsim-paper")
register_loss(EqSim.released, "eqsim-released")
