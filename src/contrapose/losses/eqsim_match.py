"""EqSim on the match scores of a fusion encoder, for a few sampled pairs (Wang et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch, at_least_float32
from contrapose.losses.eqsim import EqSim
from contrapose.losses.eqsim_tiled import top_columns
from contrapose.losses.gather import all_gather, all_reduce_sum, processes
from contrapose.losses.registry import register_loss


def eqsim_of_scores(
    right: Tensor,
    captions: Tensor,
    images: Tensor,
    others: Tensor,
    *,
    close: Tensor | None = None,
    settings: EqSim | None = None,
) -> Tensor:
    """EqSim of sampled pairs that a fusion encoder judges, over all processes.

    Args:
        right: (b,) scores s(I_i, T_i) of the matched pairs.
        captions: (b, n) scores s(I_i, T_j) with sampled captions.
        images: (b, n) scores s(I_j, T_i) of these captions' images.
        others: (b, n) scores s(I_j, T_j) of the sampled pairs themselves.
        close: (b, n) which of them are close; all without it.
        settings: `similarity` says whether scores are logits for a sigmoid (the default here) or
            similarities as they are (`cosine`); versions, margins and hinge as in `EqSim`.

    Raises:
        InputError: shapes do not fit, or the similarity is a softmax.
    """
    settings = settings or EqSim(similarity="sigmoid")
    if settings.similarity == "softmax":
        raise InputError("a few sampled scores have no softmax over the batch: use a sigmoid.")
    close = torch.ones_like(captions) if close is None else close
    if captions.ndim != 2 or not (
        captions.shape == images.shape == others.shape == close.shape
        and right.shape == captions.shape[:1]
    ):
        shapes = ", ".join(str(tuple(it.shape)) for it in (right, captions, images, others, close))
        raise InputError(f"scores have shapes {shapes}: they must be (b,) and three of (b, n).")
    dtype = at_least_float32(right.dtype)
    four = [it.to(dtype) for it in (right[:, None], captions, images, others)]
    if settings.similarity == "sigmoid":
        four = [it.sigmoid() for it in four]
    close = close.to(dtype)
    v1 = 1 - close if settings.v1 == "easy" else torch.ones_like(close)
    v2 = close if settings.v2 == "close" else torch.ones_like(close)
    in_v1, in_v2 = ((it, all_reduce_sum(it.sum()).clamp(min=1)) for it in (v1, v2))
    s11, s12, s21, s22 = four
    return settings.loss(s11, s12, s21, s22, in_v1, in_v2, lambda it: all_reduce_sum(it.sum()))


class PairPlan(NamedTuple):
    """The pairs of a batch that are to be judged; the same in every process.

    Attributes:
        others: (B, n) other pairs sampled for each pair, the close ones first.
        close: how many of them are close.
        images: (p,) images of the distinct pairs to judge, as indices in the whole batch.
        texts: (p,) their captions.
        places: (B, 1 + 2n) where these list, for each pair i with others j: (I_i, T_i), all
            (I_i, T_j), then all (I_j, T_i).
    """

    others: Tensor
    close: int
    images: Tensor
    texts: Tensor
    places: Tensor


@register_loss
@dataclass(frozen=True, slots=True)
class EqSimMatch:
    """Equivariance regularizer on the match scores of a fusion encoder.

    Computes: `EqSim` on σ(match logit) of each pair with n sampled others, k of them the captions
        nearest to its image by a coarse similarity, the rest drawn evenly; v2 over the k near ones
        (Wang et al. 2023, section 3: 15 others an image, 8 of them close).
    Inputs: `match`; `coarse`, or `image` and `text`, for the choice of close pairs; `seed` for the
        draws; `same`: pairs with equal captions are sampled last.
    Requirements: a model that judges pairs; at most 1 + 2n judgements a pair.
    When to use: beside a matching loss; the paper has weights β of 0.2, 0.5 and 1. On the built-in
        world it changed neither the group score nor, for the better, the equivariance of `tiny`
        (docs/studies/eqsim.md).

    Example:
        >>> batch = LossBatch(image, text, match=match)
        >>> loss = EqSimMatch(sampled=5, close=2)(batch)
    """

    name: ClassVar[str] = "eqsim-match"
    weight: ClassVar[float] = 0.5
    needs: ClassVar[frozenset[str]] = frozenset({"match", "coarse"})

    sampled: int = 15
    """n: how many other pairs are judged with each pair."""
    close: int = 8
    """k: how many of them are close."""
    v1: Literal["all", "easy"] | None = "all"
    """Over all sampled pairs; over those not close; or not at all."""
    v2: Literal["close", "all"] | None = "close"
    """Over close pairs, over all sampled ones, or not at all."""
    margin: float = 0.0
    """Of v2, and of v1 unless `margin_v1` is given."""
    margin_v1: float | None = None
    hinge: Literal["mean", "pair"] = "mean"
    """Where the margin is subtracted: from the mean of the terms, or from each of them."""
    chosen: Literal["top", "drawn"] = "top"
    """Close are the nearest, or draws by the softmax of the scaled coarse similarities."""

    def __post_init__(self) -> None:
        if self.sampled < 1:
            raise InputError(f"EqSim on match scores samples 1 or more pairs, not {self.sampled}.")
        self.settings()

    def settings(self) -> EqSim:
        """Versions and margins, as `EqSim` has them."""
        return EqSim(
            v1=self.v1, v2=self.v2, similarity="sigmoid", margin=self.margin,
            margin_v1=self.margin_v1, hinge=self.hinge, close=self.close,
        )  # fmt: skip

    def __call__(self, batch: LossBatch) -> Tensor:
        """The loss of the whole batch; `match` judges the pairs of this process's rows."""
        if batch.match is None:
            raise InputError("this loss needs `match`, and the batch has none.")
        plan = self.plan(batch)
        judged, places = torch.unique(processes().local(plan.places), return_inverse=True)
        logits = batch.match(plan.images[judged], plan.texts[judged])
        return self.of_scores(logits[places], plan)

    @torch.no_grad()
    def plan(self, batch: LossBatch) -> PairPlan:
        """Sample other pairs for every pair of the whole batch."""
        others, close = self._sample(batch)
        size = len(others)
        rows = torch.arange(size, device=others.device)[:, None].expand_as(others)
        right = rows[:, :1] * (size + 1)
        keys = torch.cat([right, rows * size + others, others * size + rows], dim=1)
        pairs, places = torch.unique(keys, return_inverse=True)
        return PairPlan(others, close, pairs // size, pairs % size, places)

    def of_scores(self, scores: Tensor, plan: PairPlan) -> Tensor:
        """The loss of the whole batch, given the match logits of this process's rows.

        Args:
            scores: (b, 1 + 2n) logits of the pairs in this process's rows of `plan.places`.
            plan: from `plan`.
        """
        others = processes().local(plan.others)
        right, sampled = scores[:, 0], scores[:, 1:]
        captions, images = sampled.chunk(2, dim=1)
        close = torch.arange(others.shape[1], device=others.device).expand_as(others) < plan.close
        return eqsim_of_scores(
            right,
            captions,
            images,
            all_gather(right)[others],
            close=close,
            settings=self.settings(),
        )

    def _sample(self, batch: LossBatch) -> tuple[Tensor, int]:
        """(B, n) other pairs of each pair, the close ones first, and how many are close."""
        job = processes()
        image, text = batch.pairs()
        coarse = image @ job.gather(text).T if batch.coarse is None else batch.coarse
        if coarse.shape != (len(image), len(image) * job.count):
            raise InputError(
                f"`coarse` has shape {tuple(coarse.shape)}: it must be (rows here, pairs in all)."
            )
        coarse = job.gather(coarse.to(image.dtype))
        size = len(coarse)
        random = _shared_generator(batch.seed)
        rest = _gumbel_noise(size, random).to(coarse)
        if self.chosen == "drawn":
            coarse = coarse * batch.scale + _gumbel_noise(size, random).to(coarse)
        if batch.same is not None:
            same = job.gather(batch.same)
            equal = same[:, None] == same
            coarse, rest = (it.masked_fill(equal, -1e4) for it in (coarse, rest))
        count = min(self.sampled, size - 1)
        close = min(self.close, count)
        near = top_columns(coarse.clone().fill_diagonal_(-torch.inf), close)
        rest = rest.scatter(1, near, -torch.inf).fill_diagonal_(-torch.inf)
        return torch.cat([near, top_columns(rest, count - close)], dim=1), close


def _shared_generator(seed: int | None) -> torch.Generator:
    """A random generator on the CPU, in the same state in all processes."""
    if seed is None:
        seed = int(processes().gather(torch.randint(1 << 62, (1,)))[0])
    return torch.Generator().manual_seed(seed)


def _gumbel_noise(size: int, random: torch.Generator) -> Tensor:
    """(B, B) Gumbel noise: its largest entries in a row are draws without replacement."""
    return torch.empty(size, size).exponential_(generator=random).log_().neg_()
