"""Training of two heads on cached features: InfoNCE at a fixed temperature, frozen encoders."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.losses import InfoNCE, LossBatch
from contrapose.models.joined import HIDDEN_KEYS, apply_head
from contrapose.results.statistics import build_statistics
from contrapose.tune.data.rows import split_indices
from contrapose.tune.heads.features import Features, ignore_progress
from contrapose.tune.heads.initialization import (
    HeadInitialization,
    Whitening,
    canonical_initialization,
    identity_initialization,
)
from contrapose.tune.heads.vectors import FeatureModel, feature_gallery
from contrapose.tune.panels import make_panel
from contrapose.tune.report import Evaluator
from contrapose.tune.settings import HeadSettings, ProgressCallback, learning_rate_factor

CaptionRows = NDArray[np.int64]


def draw_batches(owners: CaptionRows, size: int, epochs: int, seed: int) -> Iterator[CaptionRows]:
    """Batches of caption rows, each caption `epochs` times in all.

    An epoch goes round the images, in a new order each time, and takes another caption of each: no
    image stands twice in a batch where there are at least `size` of them with captions left. So all
    other captions are negatives. What does not fill the last batch is left out.

    Args:
        owners: (m,) the image of each caption.
        size: captions a batch; at most m.
        epochs: how often each caption is seen.
        seed: of the order.
    """
    draw = np.random.default_rng(seed)
    size = min(size, len(owners))
    held: CaptionRows = np.zeros(0, dtype=np.int64)
    for _ in range(epochs):
        for turn in _draw_rounds(owners, draw):
            held = np.concatenate([held, _separate_images(turn, owners, held, size, draw)])
            while len(held) >= size:
                yield held[:size]
                held = held[size:]


def count_batches(captions: int, size: int, epochs: int) -> int:
    """Number of batches."""
    return captions * epochs // min(size, captions)


def count_epochs(captions: int, size: int, count: int) -> int:
    """Smallest number of epochs that has so many batches."""
    return -(-count * min(size, captions) // captions)


def _draw_rounds(owners: CaptionRows, draw: np.random.Generator) -> Iterator[CaptionRows]:
    """Each image's captions in random order: all first ones, all second ones …, shuffled."""
    shuffled = draw.permutation(len(owners))
    by_image = shuffled[np.argsort(owners[shuffled], kind="stable")]
    counts = np.bincount(owners)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    places = np.arange(len(owners)) - starts
    for turn in range(int(counts.max())):
        yield draw.permutation(by_image[places == turn])


def _separate_images(
    turn: CaptionRows, owners: CaptionRows, held: CaptionRows, size: int, draw: np.random.Generator
) -> CaptionRows:
    """A round with the images already in the pending batch moved to the end."""
    if not len(held):
        return turn
    twice = np.isin(owners[turn], owners[held])
    fresh, again = turn[~twice], turn[twice]
    room = size - len(held)
    # The rest is mixed again, so that the images that had to wait do not stay together.
    rest = draw.permutation(np.concatenate([fresh[room:], again]))
    return np.concatenate([fresh[:room], rest])


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


class HeadEmbedder(Protocol):
    """Heads that map features into the common space."""

    def embed_images(self, features: Tensor) -> Tensor:
        """Unit vectors of image features."""

    def embed_texts(self, features: Tensor) -> Tensor:
        """Unit vectors of caption features."""


def embed_features(heads: HeadEmbedder, features: Features) -> tuple[Tensor, Tensor]:
    """Unit vectors of images and of captions."""
    with torch.no_grad():
        return (
            heads.embed_images(torch.from_numpy(np.array(features.images))),
            heads.embed_texts(torch.from_numpy(np.array(features.texts))),
        )


def measure_mean_recall(heads: HeadEmbedder, features: Features) -> float:
    """The mean of the six recalls, without an interval."""
    evaluator = Evaluator(make_panel("features", {"retrieval": feature_gallery(features)}))
    measured = evaluator.measure(FeatureModel(*embed_features(heads, features)))
    return build_statistics(measured["retrieval"])["mean_recall"].value()


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
    count = len(features.images)
    out = round(settings.hold_out * count)
    if count - out < 2:
        raise InputError(f"{count} images with {out} held out are too few: at least 2 must stay.")
    if not out:
        return features, None
    train, test = split_indices(count, out, settings.seed)
    return features.of_images(train), features.of_images(test)
