"""Training two heads on cached features: InfoNCE at a fixed temperature, encoders left alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.models.joined.maps import HIDDEN, through
from contrapose.tune.heads.contrast import contrast
from contrapose.tune.heads.features import Features
from contrapose.tune.heads.measuring import mean_recall_of
from contrapose.tune.heads.order import batches, epochs_of, steps
from contrapose.tune.heads.settings import HeadSettings
from contrapose.tune.heads.start import Start, Whitening, canonical, own

SIDES = ("image", "text")
Heads = dict[str, Tensor]
Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Trained:
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
        given = lengthened(features.to(device), unit=self.settings.unit[SIDES.index(side)])
        return normalize(through(given, self.heads, side), dim=1)


def train_heads(
    features: Features,
    settings: HeadSettings | None = None,
    *,
    device: str = "cpu",
    progress: Told | None = None,
) -> Trained:
    """Two heads that bring images and captions of frozen encoders into one space.

    The same features, settings and device give the same heads.

    Args:
        features: of the encoders, before any head.
        settings: how to train; the defaults are for some thousand images.
        device: where to train.
        progress: told `(what, done, total)` after each step.

    Raises:
        InputError: there are too few images, or the loss is no longer a number.
    """
    training = Training(features, settings or HeadSettings(), torch.device(device))
    told = partial(progress or _untold, f"training heads at τ {training.settings.tau:g}")
    told(0, training.total)
    for _ in training.steps():
        told(training.done, training.total)
    return training.trained()


def _untold(what: str, done: int, total: int) -> None:
    """Says nothing."""


class Training:
    """A training that is under way.

    Attributes:
        done: steps so far.
        total: steps in all.
        seen: captions so far.
    """

    def __init__(self, features: Features, settings: HeadSettings, device: torch.device):
        self.settings = settings
        self.learnt, self.kept_back = _split(features, settings)
        owners = self.learnt.image_of_text.astype(np.int64)
        draw = torch.Generator().manual_seed(settings.seed)
        images, texts = tensors(self.learnt, settings, device)
        self.owners = torch.from_numpy(owners).to(device)
        start = canonical(images, texts, self.owners, settings.width, generator=draw)
        self.start = own(start) if settings.start == "own" else start
        self.images, self.texts = self.start.image(images), self.start.text(texts)
        self.heads = _first(self.start, settings, draw)
        self.optimiser = torch.optim.AdamW(
            self.heads.values(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )
        self.noise = torch.Generator(device).manual_seed(settings.seed)
        size, epochs = settings.batch_size, settings.epochs
        if settings.steps is not None:
            epochs = epochs_of(len(owners), size, settings.steps)
        self.total = settings.steps or steps(len(owners), size, epochs)
        self.order = islice(batches(owners, size, epochs, settings.seed), self.total)
        self.done, self.seen = 0, 0
        self.losses: list[list[Tensor]] = [[] for _ in range(epochs)]
        self.best: tuple[int, Heads] | None = None
        self.held_out: list[float] = []

    def steps(self) -> Iterator[Tensor]:
        """Goes on step by step; gives each one's loss."""
        for rows in self.order:
            epoch = self.seen // len(self.texts)
            loss = self._step(rows)
            self.losses[epoch].append(loss)
            self.seen += len(rows)
            self.done += 1
            if self.seen // len(self.texts) > epoch or self.done == self.total:
                self._choose(epoch + 1)
            yield loss

    def trained(self) -> Trained:
        """The heads as they are now, or the best so far where images were held out.

        Raises:
            InputError: the loss is no longer a number.
        """
        losses = tuple(float(torch.stack(each).mean()) for each in self.losses if each)
        if not all(map(math.isfinite, losses)):
            raise InputError(
                "the loss is no longer a number: take a smaller lr, or a larger temperature."
            )
        epoch, heads = self.best or (len(losses), fold(self.heads, self.start))
        return Trained(heads, self.settings, losses, tuple(self.held_out), epoch)

    def _step(self, rows: NDArray[np.int64]) -> Tensor:
        settings = self.settings
        for group in self.optimiser.param_groups:
            group["lr"] = settings.lr * (1 + math.cos(math.pi * self.done / self.total)) / 2
        taken = torch.from_numpy(rows).to(self.owners.device)
        own = self.owners[taken]
        twice = len(np.unique(self.learnt.image_of_text[rows])) < len(rows)
        image, text = (
            normalize(through(self._dropped(given), self.heads, side), dim=1)
            for side, given in zip(SIDES, (self.images[own], self.texts[taken]), strict=True)
        )
        loss = contrast(image, text, settings.tau, own if twice else None)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()

    def _dropped(self, rows: Tensor) -> Tensor:
        share = self.settings.drop
        if not share:
            return rows
        kept = torch.empty_like(rows).bernoulli_(1 - share, generator=self.noise)
        return kept.mul_(rows).div_(1 - share)

    def _choose(self, epoch: int) -> None:
        """Keeps the heads after an epoch where they are the best so far."""
        if self.kept_back is None:
            return
        heads = fold(self.heads, self.start)
        now = Trained(heads, self.settings, (), (), epoch)
        self.held_out.append(mean_recall_of(now, self.kept_back))
        if self.held_out[-1] >= max(self.held_out):
            self.best = epoch, heads


def tensors(features: Features, settings: HeadSettings, device: torch.device) -> list[Tensor]:
    """Images and captions in float32, at unit length where the settings want that."""
    given = zip((features.images, features.texts), settings.unit, strict=True)
    return [
        lengthened(torch.from_numpy(np.array(rows)).to(device), unit=unit) for rows, unit in given
    ]


def lengthened(rows: Tensor, *, unit: bool) -> Tensor:
    """Rows in float32, at unit length where that is wanted."""
    return normalize(rows.float(), dim=1) if unit else rows.float()


def fold(heads: Mapping[str, Tensor], start: Start) -> Heads:
    """Heads on whitened features as heads on the encoders' own: the whitening is linear too."""
    found: Heads = {}
    sides: dict[str, Whitening] = {"image": start.image, "text": start.text}
    for side, whitening in sides.items():
        for name in ("", "hidden."):
            weight = heads.get(f"{side}.{name}weight")
            if weight is None:
                continue
            own = weight.detach().double() @ whitening.matrix.double().T
            bias = heads[f"{side}.{name}bias"].detach().double() - own @ whitening.mean.double()
            found |= {f"{side}.{name}weight": own.float(), f"{side}.{name}bias": bias.float()}
        if f"{side}.{HIDDEN[2]}" in heads:
            found[f"{side}.{HIDDEN[2]}"] = heads[f"{side}.{HIDDEN[2]}"].detach().clone()
    return found


def _first(start: Start, settings: HeadSettings, draw: torch.Generator) -> Heads:
    """The heads that training starts from, on whitened features."""
    heads: Heads = {}
    for side, first, bias in (
        ("image", start.image_head, start.image_bias),
        ("text", start.text_head, start.text_bias),
    ):
        place, (width, given) = first.device, first.shape
        moved = torch.zeros(width, device=place) if bias is None else bias.clone()
        heads |= {f"{side}.weight": first.clone(), f"{side}.bias": moved}
        if settings.kind == "mlp":
            weight = torch.randn(settings.hidden, given, generator=draw) / given**0.5
            layer = (
                weight.to(place),
                torch.zeros(settings.hidden, device=place),
                torch.zeros(width, settings.hidden, device=place),
            )
            heads |= {f"{side}.{name}": it for name, it in zip(HIDDEN, layer, strict=True)}
    return {name: head.requires_grad_() for name, head in heads.items()}


def _split(features: Features, settings: HeadSettings) -> tuple[Features, Features | None]:
    """What is learnt from, and what is held out."""
    count = len(features.images)
    out = round(settings.hold_out * count)
    if count - out < 2:
        raise InputError(f"{count} images with {out} held out are too few: at least 2 must stay.")
    if not out:
        return features, None
    order = np.random.default_rng(settings.seed).permutation(count)
    return features.of_images(np.sort(order[out:])), features.of_images(np.sort(order[:out]))
