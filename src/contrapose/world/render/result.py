"""What a rendering tells: pictures, and exactly which thing is where in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom; the last two are one past the last pixel."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Pictures of N scenes of at most K things, H by W pixels.

    Attributes:
        images: (N, H, W, 3) uint8.
        index: (N, H, W) int8 position of the thing seen through the middle of each pixel; −1 for
            ground and sky.
        depth: (N, H, W) float32 distance from the eye along the ray; infinite for the sky.
        silhouettes: (N, K) int64 pixels that each thing would cover alone.
    """

    images: Tensor
    index: Tensor
    depth: Tensor
    silhouettes: Tensor

    def masks(self) -> Tensor:
        """(N, K, H, W) where each thing is seen; no two masks share a pixel."""
        places = torch.arange(self.silhouettes.shape[1], dtype=torch.int8, device=self.index.device)
        return self.index[:, None] == places[:, None, None]

    def areas(self) -> Tensor:
        """(N, K) pixels in which each thing is seen."""
        return self.masks().flatten(2).sum(2)

    def visible(self) -> Tensor:
        """(N, K) seen fraction of each thing's own silhouette in the picture; 0 if it has none."""
        return self.areas() / self.silhouettes.clamp(min=1)

    def boxes(self) -> list[list[Box | None]]:
        """The smallest box around what is seen of each thing; None where nothing is."""
        masks = self.masks().cpu()
        return [[_box(mask) for mask in each] for each in masks]

    def nearest_first(self) -> list[list[int]]:
        """The seen things of each scene, by the distance of their nearest seen point."""
        masked = torch.where(self.masks(), self.depth[:, None], torch.inf)
        distances = masked.flatten(2).amin(2).tolist()
        return [
            [k for k in sorted(range(len(row)), key=row.__getitem__) if row[k] < float("inf")]
            for row in distances
        ]


def _box(mask: Tensor) -> Box | None:
    rows, columns = mask.any(1).nonzero(), mask.any(0).nonzero()
    if not len(rows):
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
