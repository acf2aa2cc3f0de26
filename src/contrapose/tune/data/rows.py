"""What is learnt from: images, each with captions, each of those with false and true changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

Numbers = NDArray[np.int64]


class Images(Protocol):
    """Images that are opened when they are needed."""

    @property
    def pixels(self) -> Tensor | None:
        """(n, h, w, 3) bytes of all of them, where they lie in memory anyway."""

    def open(self, rows: Sequence[int]) -> list[Image]:
        """Some of them, decoded."""

    def mark(self, row: int) -> str:
        """What tells an image from another, and from itself when it was changed."""


@dataclass(frozen=True, slots=True)
class Saying:
    """A caption of an image, and what was made of it.

    Attributes:
        caption: what is true.
        negatives: small changes of it that are false, and of what kind each is.
        positives: rewordings of it that are as true, and of what kind each is.
    """

    caption: str
    negatives: tuple[tuple[str, str], ...] = ()
    positives: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, eq=False)
class Rows:
    """Images and their sayings, with every text once in a table.

    Attributes:
        images: in order.
        sayings: of each image, at least one.
        texts: every text once.
        kinds: every kind of change once.
        tokens: of all texts, by the fingerprint of the model whose they are.
    """

    images: Images
    sayings: Sequence[Sequence[Saying]]
    texts: list[str] = field(init=False)
    kinds: list[str] = field(init=False)
    captions: Ragged = field(init=False)
    negatives: Ragged = field(init=False)
    positives: Ragged = field(init=False)
    tokens: dict[str, dict[str, Tensor]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not self.sayings:
            raise InputError(
                "there is nothing to learn from: the data has no image with a caption."
            )
        table: dict[str, int] = {}

        def number(text: str) -> int:
            return table.setdefault(text, len(table))

        flat = [saying for row in self.sayings for saying in row]
        self.captions = Ragged.of([[number(s.caption) for s in row] for row in self.sayings])
        self.negatives = Ragged.of([[number(text) for text, _ in s.negatives] for s in flat])
        self.positives = Ragged.of([[number(text) for text, _ in s.positives] for s in flat])
        self.texts = list(table)
        every = (kind for s in flat for _, kind in (*s.negatives, *s.positives))
        self.kinds = list(dict.fromkeys(every))

    def __len__(self) -> int:
        return len(self.sayings)

    def take(self, rows: Sequence[int]) -> Rows:
        """Some of the images."""
        return Rows(Some(self.images, rows), [self.sayings[row] for row in rows])


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Lists of different length, one after the other.

    Attributes:
        values: all of them.
        starts: (n + 1,) where each begins, and the end.
    """

    values: Numbers
    starts: Numbers

    @classmethod
    def of(cls, lists: Iterable[Sequence[int]]) -> Ragged:
        """From lists."""
        kept = list(lists)
        starts = np.concatenate([[0], np.cumsum([len(each) for each in kept], dtype=np.int64)])
        values = np.array([value for each in kept for value in each], dtype=np.int64)
        return cls(values, starts.astype(np.int64))

    def draw(self, lists: Numbers, chance: NDArray[np.float64]) -> Numbers:
        """The place of one value of each list, by a number in [0, 1); −1 where a list is empty."""
        first, size = self.starts[lists], self.starts[lists + 1] - self.starts[lists]
        return np.where(size > 0, first + (chance * size).astype(np.int64), -1)


class Some:
    """Some of other images."""

    def __init__(self, whole: Images, rows: Sequence[int]):
        self.whole, self.rows = whole, rows
        found = whole.pixels
        self.pixels: Tensor | None = None if found is None else found[list(rows)]

    def open(self, rows: Sequence[int]) -> list[Image]:
        """Some of these, decoded."""
        return self.whole.open([self.rows[row] for row in rows])

    def mark(self, row: int) -> str:
        """What tells an image from another."""
        return self.whole.mark(self.rows[row])
