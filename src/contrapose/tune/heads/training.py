"""Training of two heads on cached features: InfoNCE at a fixed temperature, frozen encoders.

Heads start from a regularized canonical correlation (Hotelling 1936; Vinod 1976): features are
centered and whitened on each side, C = A·cov(image, text)·B with A = (Σ_image + r·m·1)^−½ and B
alike, m the mean variance; the singular vectors of C, weighted by a power of their correlation, are
linear heads in closed form. On few images this is better than what gradient descent finds from
random weights, and as whitened features are shrunk most where the images vary least, it is also the
space in which to learn: those directions, which are noise, then move last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.losses import InfoNCE, LossBatch
from contrapose.models.joined import HIDDEN_KEYS, apply_head
from contrapose.tune.data.rows import split_indices
from contrapose.tune.heads.features import (
    Features,
    count_batches,
    count_epochs,
    draw_batches,
    ignore_progress,
)
from contrapose.tune.settings import HeadSettings, ProgressCallback, learning_rate_factor

HEAD_RMS = 0.1
"""Root mean square of a head's numbers at the start; a step of AdamW at 1e-3 turns them by 1 %."""

CORRELATION_POWER = 0.75
"""Of the correlations: 0 takes every direction alike, 1 trusts them by how well they correlate."""


@dataclass(frozen=True, slots=True)
class Whitening:
    """Centering and whitening of one side's features: `(x − mean) @ matrix`."""

    mean: Tensor
    matrix: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Whiten features (n, p)."""
        return (features - self.mean) @ self.matrix


@dataclass(frozen=True, slots=True)
class HeadInitialization:
    """Whitening of both sides, and initial heads on whitened features, (d, p) and (d, q).

    The first biases (d,) are zero where none are given.
    """

    image: Whitening
    text: Whitening
    image_head: Tensor
    text_head: Tensor
    image_bias: Tensor | None = None
    text_bias: Tensor | None = None


def canonical_initialization(
    images: Tensor,
    texts: Tensor,
    owners: Tensor,
    width: int,
    *,
    ridges: tuple[float, float] = (1.0, 0.3),
    power: float = CORRELATION_POWER,
    generator: torch.Generator | None = None,
) -> HeadInitialization:
    """Initial heads by regularized canonical correlation, in closed form and float64.

    Args:
        images: (n, p) features.
        texts: (m, q) features.
        owners: (m,) the image of each caption.
        width: the heads' common width; where it is above p or q, the other directions are small
            random ones.
        ridges: added to the variances of images and captions, in parts of their mean.
        power: see `CORRELATION_POWER`.
        generator: of the random directions, on the CPU.

    Raises:
        InputError: a side's features are all alike.
    """
    # On the CPU, whose sums are always in the same order: the same start on every device.
    device = images.device
    images, texts, owners = images.cpu(), texts.cpu(), owners.cpu()
    count = torch.bincount(owners, minlength=len(images)).double()
    left, image_mean = _center(images, count)
    right, text_mean = _center(texts, torch.ones(len(texts)).double())
    sums = torch.zeros(len(images), texts.shape[1]).double().index_add_(0, owners, right)
    image_root = _inverse_root((left.T * count) @ left / len(texts), ridges[0], "images")
    text_root = _inverse_root(right.T @ right / len(texts), ridges[1], "captions")
    both = image_root @ (left.T @ sums / len(texts)) @ text_root
    across, strength, down = torch.linalg.svd(both, full_matrices=False)
    kept = min(width, len(strength))
    weight = strength[:kept, None] ** power
    heads = [_scale_to_rms(across[:, :kept].T * weight), _scale_to_rms(down[:kept] * weight)]
    heads = [_pad_with_noise(head, width, generator) for head in heads]
    return HeadInitialization(
        Whitening(image_mean.float().to(device), image_root.float().to(device)),
        Whitening(text_mean.float().to(device), text_root.float().to(device)),
        *(head.float().contiguous().to(device) for head in heads),
    )


def identity_initialization(start: HeadInitialization) -> HeadInitialization:
    """Initial heads that undo the whitening, so that every vector keeps its direction.

    For encoders that share a space already, as those of a CLIP: training goes on from there.

    Raises:
        InputError: the two sides' vectors are not of one width.
    """
    wide = len(start.image.mean), len(start.text.mean)
    if wide[0] != wide[1]:
        raise InputError(
            f"images have {wide[0]} numbers and captions {wide[1]}: there is no common space to "
            "start in."
        )
    heads, biases = [], []
    for side in (start.image, start.text):
        head = torch.linalg.inv(side.matrix.double().cpu())
        size = HEAD_RMS / head.square().mean().sqrt()
        heads.append((head * size).float().contiguous().to(side.mean.device))
        biases.append(side.mean * size.float().to(side.mean.device))
    return HeadInitialization(start.image, start.text, *heads, *biases)


def _center(features: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    mean = (weights @ features.double()) / weights.sum()
    return features.double() - mean, mean


def _inverse_root(variances: Tensor, ridge: float, what: str) -> Tensor:
    mean = variances.diagonal().mean()
    if not float(mean) > 0:
        raise InputError(f"the features of all {what} are alike: there is nothing to learn from.")
    values, vectors = torch.linalg.eigh(variances)
    values = values.clamp(min=0) + ridge * mean
    root: Tensor = (vectors * values.rsqrt()) @ vectors.T
    return root


def _scale_to_rms(head: Tensor) -> Tensor:
    return head * (HEAD_RMS / head.square().mean().sqrt())


def _pad_with_noise(head: Tensor, width: int, generator: torch.Generator | None) -> Tensor:
    """Pad with random directions, a tenth as large as the others."""
    more = torch.randn(width - len(head), head.shape[1], generator=generator, dtype=head.dtype)
    return torch.cat([head, more * (HEAD_RMS / 10)])


SIDES = ("image", "text")
Heads = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class TrainedHeads:
    """Two trained heads.

    Attributes:
        heads: as `save_joined` takes them, on features as the encoders give them.
        settings: how they were trained.
        losses: the mean loss of each epoch.
        held_out: the mean recall on held-out images after each epoch; empty without any.
        epoch: the one that was kept, from 1.
    """

    heads: Heads
    settings: HeadSettings
    losses: tuple[float, ...]
    held_out: tuple[float, ...]
    epoch: int

    def embed_images(self, features: Tensor) -> Tensor:
        """Unit vectors (n, d) of image features (n, p)."""
        return self._embed("image", features)

    def embed_texts(self, features: Tensor) -> Tensor:
        """Unit vectors (n, d) of caption features (n, q)."""
        return self._embed("text", features)

    def _embed(self, side: str, features: Tensor) -> Tensor:
        device = self.heads["image.weight"].device
        given = to_float_rows(features.to(device), unit=self.settings.unit[SIDES.index(side)])
        return normalize(apply_head(given, self.heads, side), dim=1)


def train_heads(
    features: Features,
    settings: HeadSettings | None = None,
    *,
    device: str = "cpu",
    progress: ProgressCallback | None = None,
) -> TrainedHeads:
    """Train two heads that map images and captions of frozen encoders into one space.

    The same features, settings and device give the same heads.

    Args:
        features: of the encoders, before any head.
        settings: how to train; the defaults are for some thousand images.
        device: where to train.
        progress: told `(what, done, total)` after each step.

    Raises:
        InputError: there are too few images, or the loss is no longer a number.
    """
    training = HeadTrainer(features, settings or HeadSettings(), torch.device(device))
    report = partial(progress or ignore_progress, f"training heads at τ {training.settings.tau:g}")
    report(0, training.total)
    for _ in training.steps():
        report(training.done, training.total)
    return training.trained()


class HeadTrainer:
    """A head training in progress.

    Attributes:
        done: steps so far.
        total: steps in all.
        seen: captions so far.
    """

    def __init__(self, features: Features, settings: HeadSettings, device: torch.device):
        self.settings = settings
        self.learnt, self.held_out_features = _hold_out_images(features, settings)
        owners = self.learnt.image_of_text.astype(np.int64)
        draw = torch.Generator().manual_seed(settings.seed)
        images, texts = feature_tensors(self.learnt, settings, device)
        self.owners = torch.from_numpy(owners).to(device)
        start = canonical_initialization(images, texts, self.owners, settings.width, generator=draw)
        self.start = identity_initialization(start) if settings.start == "own" else start
        self.images, self.texts = self.start.image(images), self.start.text(texts)
        self.heads = _initial_heads(self.start, settings, draw)
        self.optimizer = torch.optim.AdamW(
            self.heads.values(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )
        self.noise = torch.Generator(device).manual_seed(settings.seed)
        size, epochs = settings.batch_size, settings.epochs
        if settings.steps is not None:
            epochs = count_epochs(len(owners), size, settings.steps)
        self.total = settings.steps or count_batches(len(owners), size, epochs)
        self.order = islice(draw_batches(owners, size, epochs, settings.seed), self.total)
        self.done, self.seen = 0, 0
        self.losses: list[list[Tensor]] = [[] for _ in range(epochs)]
        self.best: tuple[int, Heads] | None = None
        self.held_out: list[float] = []

    def steps(self) -> Iterator[Tensor]:
        """Run the training step by step; yields each loss."""
        for rows in self.order:
            epoch = self.seen // len(self.texts)
            loss = self._step(rows)
            self.losses[epoch].append(loss)
            self.seen += len(rows)
            self.done += 1
            if self.seen // len(self.texts) > epoch or self.done == self.total:
                self._keep_best_heads(epoch + 1)
            yield loss

    def trained(self) -> TrainedHeads:
        """The current heads, or the best so far where images were held out.

        Raises:
            InputError: the loss is no longer a number.
        """
        losses = tuple(float(torch.stack(epoch).mean()) for epoch in self.losses if epoch)
        if not all(map(math.isfinite, losses)):
            raise InputError(
                "the loss is no longer a number: take a smaller lr, or a larger temperature."
            )
        epoch, heads = self.best or (len(losses), fold_whitening(self.heads, self.start))
        return TrainedHeads(heads, self.settings, losses, tuple(self.held_out), epoch)

    def _step(self, rows: NDArray[np.int64]) -> Tensor:
        settings = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = settings.lr * learning_rate_factor(self.done, self.total)
        taken = torch.from_numpy(rows).to(self.owners.device)
        images = self.owners[taken]
        twice = len(np.unique(self.learnt.image_of_text[rows])) < len(rows)
        image, text = (
            normalize(apply_head(self._drop_features(given), self.heads, side), dim=1)
            for side, given in zip(SIDES, (self.images[images], self.texts[taken]), strict=True)
        )
        same = images if twice else None
        loss = InfoNCE()(LossBatch(image, text, scale=1 / settings.tau, same=same))
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def _drop_features(self, rows: Tensor) -> Tensor:
        share = self.settings.drop
        if not share:
            return rows
        kept = torch.empty_like(rows).bernoulli_(1 - share, generator=self.noise)
        return kept.mul_(rows).div_(1 - share)

    def _keep_best_heads(self, epoch: int) -> None:
        """Keep the heads after an epoch if they are the best so far."""
        if self.held_out_features is None:
            return
        from contrapose.tune.heads.vectors import measure_mean_recall

        heads = fold_whitening(self.heads, self.start)
        now = TrainedHeads(heads, self.settings, (), (), epoch)
        self.held_out.append(measure_mean_recall(now, self.held_out_features))
        if self.held_out[-1] >= max(self.held_out):
            self.best = epoch, heads


def feature_tensors(
    features: Features, settings: HeadSettings, device: torch.device
) -> list[Tensor]:
    """Image and caption features in float32, at unit length if the settings say so."""
    given = zip((features.images, features.texts), settings.unit, strict=True)
    return [
        to_float_rows(torch.from_numpy(np.array(rows)).to(device), unit=unit)
        for rows, unit in given
    ]


def to_float_rows(rows: Tensor, *, unit: bool) -> Tensor:
    """Rows in float32, at unit length if `unit`."""
    return normalize(rows.float(), dim=1) if unit else rows.float()


def fold_whitening(heads: Mapping[str, Tensor], start: HeadInitialization) -> Heads:
    """Fold the whitening into the heads, so that they apply to raw features."""
    heads_on_features: Heads = {}
    sides: dict[str, Whitening] = {"image": start.image, "text": start.text}
    for side, whitening in sides.items():
        for name in ("", "hidden."):
            weight = heads.get(f"{side}.{name}weight")
            if weight is None:
                continue
            folded = weight.detach().double() @ whitening.matrix.double().T
            bias = heads[f"{side}.{name}bias"].detach().double() - folded @ whitening.mean.double()
            heads_on_features |= {
                f"{side}.{name}weight": folded.float(),
                f"{side}.{name}bias": bias.float(),
            }
        if f"{side}.{HIDDEN_KEYS[2]}" in heads:
            heads_on_features[f"{side}.{HIDDEN_KEYS[2]}"] = (
                heads[f"{side}.{HIDDEN_KEYS[2]}"].detach().clone()
            )
    return heads_on_features


def _initial_heads(
    start: HeadInitialization, settings: HeadSettings, draw: torch.Generator
) -> Heads:
    """Initial heads on whitened features."""
    heads: Heads = {}
    for side, first, bias in (
        ("image", start.image_head, start.image_bias),
        ("text", start.text_head, start.text_bias),
    ):
        device, (width, given) = first.device, first.shape
        moved = torch.zeros(width, device=device) if bias is None else bias.clone()
        heads |= {f"{side}.weight": first.clone(), f"{side}.bias": moved}
        if settings.kind == "mlp":
            weight = torch.randn(settings.hidden, given, generator=draw) / given**0.5
            layer = (
                weight.to(device),
                torch.zeros(settings.hidden, device=device),
                torch.zeros(width, settings.hidden, device=device),
            )
            heads |= {f"{side}.{name}": it for name, it in zip(HIDDEN_KEYS, layer, strict=True)}
    return {name: head.requires_grad_() for name, head in heads.items()}


def _hold_out_images(
    features: Features, settings: HeadSettings
) -> tuple[Features, Features | None]:
    """Split the features into a training part and a held-out part."""
    count, out = len(features.images), round(settings.hold_out * len(features.images))
    if count - out < 2:
        raise InputError(f"{count} images with {out} held out are too few: at least 2 must stay.")
    if not out:
        return features, None
    train, test = split_indices(count, out, settings.seed)
    return features.of_images(train), features.of_images(test)
