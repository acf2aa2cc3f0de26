"""Sums over all B² pairs from d × d Gram matrices, without forming any pair.

For cosines S = I Tᵀ, with s its diagonal and over all ordered pairs:

- Σ (S_ij − S_ji)² = 2⟨IᵀI, TᵀT⟩ − 2 tr(M²), M = TᵀI
- Σ (s_i − s_j)² = 2B Σ s² − 2 (Σ s)²
- Σ (s_i − s_j)(S_ij − S_ji) = 2 Σ_i s_i (I_i·ΣT − T_i·ΣI)

The first is a small difference of large numbers where S is nearly symmetric, which is what EqSim
trains towards: Grams are therefore float64, and so are the derivatives, as 4(S − Sᵀ)T =
4(I TᵀT − T Mᵀ) by the images. Across processes only d × d and smaller sums travel.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from contrapose.losses.gather import Processes

CHUNK_ROWS = 4096
"""Rows that are widened to float64 at a time."""


class GramSums:
    """Pair sums of a batch from Gram matrices, with gradients by this process's rows."""

    def __init__(self, image: Tensor, text: Tensor, job: Processes | None = None):
        job = job or Processes()
        self.image, self.text = image, text
        self.size = len(image) * job.count
        d = image.shape[1]
        grams = image.new_zeros(3, d, d, dtype=torch.float64)
        sums = image.new_zeros(4, d, dtype=torch.float64)
        right = []
        for i, t in self._chunks():
            grams[0].addmm_(i.T, i)
            grams[1].addmm_(t.T, t)
            grams[2].addmm_(t.T, i)
            right.append((i * t).sum(1))
            sums += torch.stack([i.sum(0), t.sum(0), right[-1] @ i, right[-1] @ t])
        self.right = torch.cat(right)
        self.images, self.texts, self.mixed = job.sum(grams)
        self.sums = job.sum(sums)
        self.total, self.squares = job.sum(
            torch.stack([self.right.sum(), self.right.square().sum()])
        )

    def skew(self) -> Tensor:
        """Σ (S_ij − S_ji)²."""
        straight = torch.dot(self.images.flatten(), self.texts.flatten())
        return 2 * (straight - torch.dot(self.mixed.flatten(), self.mixed.T.flatten()))

    def spread(self) -> Tensor:
        """Σ (s_i − s_j)²."""
        found: Tensor = 2 * (self.size * self.squares - self.total.square())
        return found

    def cross(self) -> Tensor:
        """Σ (s_i − s_j)(S_ij − S_ji)."""
        images, texts, by_right_images, by_right_texts = self.sums
        found: Tensor = 2 * (by_right_images @ texts - by_right_texts @ images)
        return found

    def slopes(
        self, skew: Tensor, spread: Tensor | None = None, cross: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Weighted gradients of the sums by this process's images and captions."""
        images, texts, by_right_images, by_right_texts = self.sums
        found = torch.empty_like(self.image), torch.empty_like(self.text)
        start = 0
        for i, t in self._chunks():
            here = slice(start, start + len(i))
            start += len(i)
            image = (i @ self.texts).addmm_(t, self.mixed.T, alpha=-1).mul_(4 * skew)
            text = (t @ self.images).addmm_(i, self.mixed, alpha=-1).mul_(4 * skew)
            s = self.right[here, None]
            if spread is not None:
                by_s = 4 * spread * (self.size * s - self.total)
                image += by_s * t
                text += by_s * i
            if cross is not None:
                by_s = 2 * cross * (i @ texts - t @ images)[:, None]
                image += by_s * t + 2 * cross * (s * texts - by_right_texts)
                text += by_s * i + 2 * cross * (by_right_images - s * images)
            found[0][here], found[1][here] = image, text
        return found

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, len(self.image), CHUNK_ROWS):
            here = slice(start, start + CHUNK_ROWS)
            yield self.image[here].double(), self.text[here].double()
