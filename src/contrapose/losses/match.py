"""Image-text matching loss with in-batch hard negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch, at_least_float32
from contrapose.losses.gather import global_mean, processes
from contrapose.losses.registry import register_loss


@register_loss
@dataclass(frozen=True, slots=True)
class Match:
    """Image-text matching loss of ALBEF and BLIP.

    Computes: the cross-entropy of σ(match logit) over B right pairs and 2B wrong ones: for each
        image a caption, and for each caption an image, drawn by the softmax of the contrastive
        logits with the matched pair left out (Li et al. 2021, equation 4 and section 3.2).
    Inputs: `image`, `text`, `scale` and `same` for the draws; `match`.
    Requirements: a model that judges pairs; three judgements a pair.
    When to use: models with a fusion encoder, beside a contrastive loss.

    Example:
        >>> loss = Match()(LossBatch(image, text, match=match))
    """

    name: ClassVar[str] = "itm"
    weight: ClassVar[float] = 0.5
    needs: ClassVar[frozenset[str]] = frozenset({"match"})
    implied: ClassVar[bool] = True

    draw: Literal["drawn", "hardest"] = "drawn"
    """Negatives are drawn, or the most similar is taken."""
    positive_weight: float = 2.0
    """Of right pairs, so that they balance the wrong ones; 1 is BLIP's."""

    def __call__(self, batch: LossBatch) -> Tensor:
        """The loss of the whole batch."""
        if batch.match is None:
            raise InputError("this loss needs `match`, and the batch has none.")
        images, texts = self.pairs(batch)
        logits = batch.match(images, texts)
        if logits.shape != images.shape:
            raise InputError(f"`match` gave {tuple(logits.shape)} for {len(images)} pairs.")
        return global_mean(self.of_logits(logits, len(batch.image)))

    @torch.no_grad()
    def pairs(self, batch: LossBatch) -> tuple[Tensor, Tensor]:
        """(3b,) image and (3b,) caption indices to judge, in the whole batch.

        First the right pairs, then images with wrong captions, then wrong images with captions.
        """
        job = processes()
        image, text = batch.pairs()
        first = job.rank * len(image)
        same = None if batch.same is None else batch.same[:, None] == job.gather(batch.same)
        right = torch.arange(len(image), device=image.device) + first
        captions, images = (
            self._negatives(batch.scale * rows @ job.gather(others).T, same, first)
            for rows, others in ((image, text), (text, image))
        )
        return torch.cat([right, right, images]), torch.cat([right, captions, right])

    def of_logits(self, logits: Tensor, rights: int) -> Tensor:
        """Loss of each match logit; the first `rights` are matched pairs."""
        logits = logits.to(at_least_float32(logits.dtype))
        return binary_matching_loss(logits, rights, self.positive_weight)

    def _negatives(self, logits: Tensor, same: Tensor | None, first: int) -> Tensor:
        if same is not None:
            logits.masked_fill_(same, -1e4)
        logits.diagonal(first).fill_(-torch.inf)
        return sample_hard_negatives(logits) if self.draw == "drawn" else logits.argmax(dim=1)


def sample_hard_negatives(logits: Tensor) -> Tensor:
    """Sample one column of each row by its softmax, with exponential clocks.

    `torch.multinomial` does the same but waits for the device, which a captured step cannot.
    """
    return (logits - torch.empty_like(logits).exponential_().log()).argmax(dim=1)


def binary_matching_loss(logits: Tensor, rights: int, weight: float = 2.0) -> Tensor:
    """Binary cross-entropy of each match logit; the first `rights` are positives and weigh more."""
    right = torch.zeros_like(logits)
    right[:rights] = 1
    weights = torch.where(right > 0, weight, 1.0)
    return F.binary_cross_entropy_with_logits(logits, right, weight=weights, reduction="none")
