"""Image-text matching loss with in-batch hard negatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.errors import InputError
from contrapose.losses.gather import global_mean, processes

Judge = Callable[[Tensor, Tensor], Tensor]
"""Match logits (n,) of images with captions, both given as places (n,) in the whole batch."""


@dataclass(frozen=True, slots=True)
class Match:
    """Image-text matching loss of ALBEF and BLIP.

    When to use: models with a fusion encoder, beside a contrastive loss whose similarities tell
    which wrong pairs are hard.

    Inputs: a judge, which asks the fusion encoder about some images with some captions of the whole
    batch; and the contrastive logits of this process's images with all captions (b, B), and of its
    captions with all images (b, B). Entries of −inf are never drawn.

    Equation: cross-entropy of σ(match logit) over B right pairs and 2B wrong ones: for each image a
    caption, and for each caption an image, drawn by the softmax of the logits, its own left out (Li
    et al. 2021, equation 4 and section 3.2).

    Example:
        seen, tokens = gathered(seen), processes().gather(tokens)
        judge = lambda images, texts: fusion.match(tokens[texts], seen[images])
        loss = Match()(judge, logits, logits.T)
    """

    draw: Literal["drawn", "hardest"] = "drawn"
    """Negatives are drawn, or the most similar is taken, which needs clean data."""
    weight: float = 2.0
    """Of right pairs, so that they balance the wrong ones; 1 is BLIP's."""

    def __call__(self, judge: Judge, captions: Tensor, images: Tensor) -> Tensor:
        """The loss of the whole batch.

        Args:
            judge: asks the fusion encoder.
            captions: (b, B) logits of this process's images with the captions of all.
            images: (b, B) logits of this process's captions with the images of all.
        """
        rows = len(captions)
        answers = judge(*self.pairs(captions, images))
        if answers.shape != (3 * rows,):
            raise InputError(f"the judge gave {tuple(answers.shape)} for {3 * rows} pairs.")
        return global_mean(self.each(answers, rows))

    def pairs(self, captions: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """(3b,) image and (3b,) caption indices to judge, in the whole batch.

        First the right pairs, then images with wrong captions, then wrong images with captions.
        """
        job = processes()
        rows = len(captions)
        if captions.ndim != 2 or captions.shape != images.shape:
            raise InputError(
                f"logits have shapes {tuple(captions.shape)} and {tuple(images.shape)}: both must "
                "be (rows of this process, rows of all)."
            )
        if captions.shape[1] != rows * job.count or captions.shape[1] < 2:
            raise InputError(
                f"logits of {rows} rows have {captions.shape[1]} columns: they need "
                f"{rows * job.count}, and at least two."
            )
        own = torch.arange(rows, device=captions.device) + job.rank * rows
        wrong_captions, wrong_images = (
            self._negatives(logits.detach(), job.rank * rows) for logits in (captions, images)
        )
        return torch.cat([own, own, wrong_images]), torch.cat([own, wrong_captions, own])

    def each(self, answers: Tensor, rights: int) -> Tensor:
        """Loss of each match logit; the first `rights` are matching pairs."""
        exact = torch.promote_types(answers.dtype, torch.float32)
        return binary_matching_loss(answers.to(exact), rights, self.weight)

    def _negatives(self, logits: Tensor, first: int) -> Tensor:
        away = logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
        away.diagonal(first).fill_(-torch.inf)
        return sample_hard_negatives(away) if self.draw == "drawn" else away.argmax(dim=1)


def sample_hard_negatives(logits: Tensor) -> Tensor:
    """Sample one column of each row by its softmax, with exponential clocks.

    `torch.multinomial` does the same but waits for the device, which a captured step cannot.
    """
    return (logits - torch.empty_like(logits).exponential_().log()).argmax(dim=1)


def binary_matching_loss(answers: Tensor, rights: int, weight: float = 2.0) -> Tensor:
    """Binary cross-entropy of each match logit; the first `rights` are positives and weigh more."""
    right = torch.zeros_like(answers)
    right[:rights] = 1
    weights = torch.where(right > 0, weight, 1.0)
    return F.binary_cross_entropy_with_logits(answers, right, weight=weights, reduction="none")
