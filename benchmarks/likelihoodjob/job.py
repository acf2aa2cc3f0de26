"""Images and captions of random numbers, and what every architecture does with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

WORDS = 12
"""Tokens of a caption, without its end."""
PROMPT = 30
"""Tokens of a prompt, without the image's."""


@dataclass(frozen=True)
class Job:
    """Pairs to be scored.

    Attributes:
        pixels: (images, 3, side, side).
        captions: (images, captions, tokens), each with its end.
    """

    pixels: Tensor
    captions: Tensor

    @property
    def pairs(self) -> int:
        """How many there are."""
        return self.captions.shape[0] * self.captions.shape[1]


class Asked(Protocol):
    """An architecture; every method gives mean log P (images, captions) in float32."""

    side: int
    vocabulary: int
    end: int

    def one_by_one(self, job: Job) -> Tensor:
        """A plain loop over pairs, the library's forward pass for each."""

    def batched(self, job: Job, size: int) -> Tensor:
        """Plain batches of whole pairs."""

    def packed(self, job: Job) -> Tensor:
        """Contrapose."""

    def prior(self, job: Job) -> Tensor:
        """Contrapose, where every image has the same captions: looked at once."""

    def plain_flops(self, job: Job) -> float:
        """Operations of the plain ways."""

    def packed_flops(self, job: Job) -> float:
        """Operations of Contrapose."""


def make_job(asked: Asked, images: int, captions: int, device: str, dtype: torch.dtype) -> Job:
    """Pixels and captions, the same every time."""
    generator = torch.Generator(device).manual_seed(images * 1000 + captions)
    shape = (images, 3, asked.side, asked.side)
    pixels = torch.randn(shape, device=device, generator=generator).to(dtype)
    most = asked.vocabulary - 100  # special tokens stand at the end
    ids = torch.randint(10, most, (images, captions, WORDS + 1), device=device, generator=generator)
    ids[:, :, -1] = asked.end
    return Job(pixels, ids)


def mean_logprobs(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean log P (b,) of targets (b, l) under logits (b, l, v)."""
    chosen = logits.float().log_softmax(dim=-1).gather(2, targets[:, :, None])
    return chosen.squeeze(2).mean(dim=1)


def pairs_of(job: Job) -> tuple[Tensor, Tensor]:
    """Every pair: its image's number (n,), and its caption (n, l)."""
    images, captions = job.captions.shape[:2]
    number = torch.arange(images, device=job.captions.device).repeat_interleave(captions)
    return number, job.captions.flatten(0, 1)
