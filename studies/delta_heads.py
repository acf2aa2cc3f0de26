"""Heads of the study of delta vectors: two starts, several temperatures, and their hits.

`closed` is what `contrapose tune heads` does: a closed-form start and few steps. `random` is the
paper's recipe: linear maps from random weights on standardized features, with more steps on scenes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose.metrics.delta_scales import EditVectors
from contrapose.metrics.types import BoolArray
from contrapose.tune.heads.features import Features
from contrapose.tune.heads.training import (
    HeadInitialization,
    HeadTrainer,
    TrainedHeads,
    Whitening,
    feature_tensors,
)
from contrapose.tune.settings import HeadSettings

Start = Literal["random", "closed"]
STARTS: tuple[Start, ...] = ("random", "closed")
TAUS = (0.1, 0.01, 1.0, 0.3, 0.03)
"""Temperatures in the order of training: those of the claims first."""
LEAST_DEVIATION = 1e-6


class RandomHeadTrainer(HeadTrainer):
    """Head trainer that starts from random weights on standardized features."""

    def __init__(self, features: Features, settings: HeadSettings, device: torch.device):
        super().__init__(features, settings, device)
        images, texts = feature_tensors(self.learnt, settings, device)
        draw = torch.Generator().manual_seed(settings.seed)
        heads = [_draw_weights(rows, settings.width, draw) for rows in (images, texts)]
        self.start = HeadInitialization(_standardization(images), _standardization(texts), *heads)
        self.images, self.texts = self.start.image(images), self.start.text(texts)
        self.heads = {}
        for side, weight in (("image", self.start.image_head), ("text", self.start.text_head)):
            self.heads[f"{side}.weight"] = weight.clone().requires_grad_()
            bias = torch.zeros(settings.width, device=device)
            self.heads[f"{side}.bias"] = bias.requires_grad_()
        self.optimizer = torch.optim.AdamW(
            self.heads.values(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )


def _standardization(features: Tensor) -> Whitening:
    deviation = features.std(dim=0) + LEAST_DEVIATION
    return Whitening(features.mean(dim=0), torch.diag(1 / deviation))


def _draw_weights(features: Tensor, width: int, draw: torch.Generator) -> Tensor:
    """Weights of a linear map, as PyTorch draws them."""
    inputs = features.shape[1]
    weights: Tensor = (2 * torch.rand(width, inputs, generator=draw) - 1) / inputs**0.5
    return weights.to(features.device)


def train_start(
    features: Features, start: Start, settings: HeadSettings, device: str
) -> TrainedHeads:
    """Heads on features from one of the two starts; dropout goes with the closed form alone."""
    if start == "closed":
        trainer = HeadTrainer(features, settings, torch.device(device))
    else:
        plain = replace(settings, drop=0.0)
        trainer = RandomHeadTrainer(features, plain, torch.device(device))
    for _ in trainer.steps():
        pass
    return trainer.trained()


@torch.no_grad()
def edit_hits(
    vectors: EditVectors, fits: BoolArray, scales: Sequence[float], n: int, device: str
) -> NDArray[np.bool_]:
    """(λ, queries) whether an image that fits is among the first n; ties never win.

    The rule is that of `contrapose.metrics.count_edit_rivals`, for all λ at once on any device.

    Args:
        vectors: of the queries and the database.
        fits: (N, captions) whether a database entry fits a caption.
        scales: the λ to try.
        n: how many answers count.
        device: where to compute.
    """
    start, delta, gallery = (
        torch.from_numpy(np.asarray(it, np.float32)).to(device)
        for it in (vectors.start, vectors.delta, vectors.gallery)
    )
    still, moved = start @ gallery.T, delta @ gallery.T
    right = torch.from_numpy(np.ascontiguousarray(fits[:, vectors.targets].T)).to(device)
    rows = torch.arange(len(right), device=device)
    own = torch.from_numpy(np.asarray(vectors.excluded, np.int64)).to(device)
    right[rows, own] = False
    wrong = ~right
    wrong[rows, own] = False
    hits = []
    for scale in scales:
        scores = still + scale * moved
        best = scores.masked_fill(~right, -torch.inf).amax(dim=1, keepdim=True)
        hits.append((wrong & (scores >= best)).sum(dim=1) < n)
    return np.asarray(torch.stack(hits).cpu().numpy())
