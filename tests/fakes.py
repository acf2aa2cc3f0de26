"""Fake models and benchmarks for tests: every score is a plain function of one pair."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch
from PIL import Image

from contrapose.data import (
    Benchmark,
    Card,
    EditQuery,
    EditSet,
    Example,
    Family,
    Gallery,
    ImageRef,
    Micro,
    Suite,
)
from contrapose.data.examples import diagonal_match, single_match
from contrapose.files import Problems
from contrapose.models import Ragged

WIDTH = 6


@dataclass(frozen=True)
class Entry:
    """A minimal entry point."""

    name: str
    value: str
    loaded: object

    def load(self) -> object:
        return self.loaded


def number(*parts: object) -> float:
    """A number in [0, 1) that depends on the arguments alone."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


def seen(image: Image.Image | torch.Tensor) -> str:
    """Color of an image, which is all that the models see."""
    if isinstance(image, torch.Tensor):
        return f"noise {float(image.sum()):.5f}"
    return str(image.resize((1, 1)).getpixel((0, 0)))


def vector(what: str) -> list[float]:
    raw = np.array([number(what, i) - 0.4 for i in range(WIDTH)])
    return list(raw / np.linalg.norm(raw))


@dataclass
class Tower:
    """Dual encoder; with `after` it raises KeyboardInterrupt after so many calls."""

    name: str = "tower"
    fingerprint: str = "tower-1"
    batch_size: int = 4
    after: int | None = None
    images: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def _tick(self) -> None:
        if self.after is not None:
            if self.after == 0:
                raise KeyboardInterrupt
            self.after -= 1

    def embed_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        self._tick()
        self.images += map(seen, images)
        return torch.tensor([vector(seen(image)) for image in images], dtype=torch.float32)

    def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        self._tick()
        self.texts += texts
        return torch.tensor([vector(text) for text in texts], dtype=torch.float32)


@dataclass
class Fake(Tower):
    """Vectors, match logits and likelihoods."""

    name: str = "fake"
    fingerprint: str = "fake-1"
    lm_tokens: str = "caption+end"
    pairs: list[tuple[str, str]] = field(default_factory=list)
    broken: float | None = None

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        self._tick()
        asked = [(seen(image), text) for image, text in zip(images, texts, strict=True)]
        self.pairs += asked
        values = [4 * number(*pair) - 2 for pair in asked]
        if self.broken is not None:
            values[-1] = self.broken
        return torch.tensor(values, dtype=torch.float32)

    def token_logprobs(
        self, images: Sequence[Image.Image | torch.Tensor], texts: Sequence[str]
    ) -> Ragged:
        self._tick()
        values: list[float] = []
        offsets = [0]
        for image, text in zip(images, texts, strict=True):
            self.pairs.append((seen(image), text))
            values += [-number(seen(image), word, i) for i, word in enumerate([*text.split(), "."])]
            offsets.append(len(values))
        if self.broken is not None:
            values[-1] = self.broken
        return Ragged(torch.tensor(values, dtype=torch.float32), offsets)

    def noise_images(self, count: int, seed: int) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return [torch.randn(3, 4, 4, generator=generator) for _ in range(count)]


@dataclass(frozen=True)
class Patch:
    """Generated image of one color."""

    colour: tuple[int, int, int]

    @property
    def content(self) -> str:
        return str(self.colour)

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> list[Image.Image]:
        MADE.append(len(sources))
        return [Image.new("RGB", (4, 4), source.colour) for source in sources]


MADE: list[int] = []
"""Number of patches of each call that generated some."""


def patch(i: int) -> ImageRef:
    colour = ((37 * i) % 256, (91 * i) % 256, (13 * i + 5) % 256)
    return ImageRef(f"patch {i}", source=Patch(colour))


def card(name: str, family: Family, shape: str) -> Card:
    return Card(
        name=name, title=f"Patches: {name}", paper="none", license="none", source="made here",
        layout="none", shape=shape, family=family, counts={name: 12}, aggregation=Micro(),
        chance={}, tags={"subset": "the part"},
    )  # fmt: skip


def pairs(count: int = 12) -> list[Example]:
    return [
        Example(
            f"p{i}", (patch(2 * i), patch(2 * i + 1)),
            (f"a patch {2 * i}", f"some patch {2 * i + 1} here"),
            diagonal_match(2), {"subset": "pairs"},
        )
        for i in range(count)
    ]  # fmt: skip


def choices(count: int = 12) -> list[Example]:
    return [
        Example(
            f"c{i}", (patch(i),), (f"a patch {i}", f"not {i}", "the same for all"),
            single_match(3, 0), {"subset": "choices"},
        )
        for i in range(count)
    ]  # fmt: skip


def gallery(count: int = 12) -> Gallery:
    return Gallery(
        "gallery", tuple(patch(i) for i in range(count)),
        tuple(f"a patch {i}" for i in range(count)), tuple((i, i) for i in range(count)),
    )  # fmt: skip


def edits(count: int = 12) -> EditSet:
    queries = tuple(
        EditQuery(f"q{i}", i, f"word {i}", f"word {i + 1}", i, i + 1, 1.0) for i in range(count - 1)
    )
    images = tuple(patch(i) for i in range(count))
    return EditSet(
        images, tuple(f"caption {i}" for i in range(count)), tuple(range(count)), queries
    )


def made(name: str, family: Family, shape: str, data: object) -> Benchmark:
    def read(root: Path, problems: Problems) -> object:
        return data

    return Benchmark(card(name, family, shape), read, generated=True)  # type: ignore[arg-type]


def patches() -> Suite:
    return Suite(
        "patches",
        "Patches: a suite of every shape",
        {
            "pairs": made("pairs", "pairs", "2 × 2", pairs()),
            "choices": made("choices", "choice", "1 × 3", choices()),
            "gallery": made("gallery", "retrieval", "N × M", gallery()),
            "edits": made("edits", "edits", "queries", edits()),
        },
    )
