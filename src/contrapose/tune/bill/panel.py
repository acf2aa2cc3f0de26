"""What a model is asked before and after: pictures, captions, and which go together how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from contrapose.errors import InputError
from contrapose.tune.data.rows import Numbers

if TYPE_CHECKING:
    from PIL.Image import Image

Kind = Literal["choice", "pairs", "triple", "gallery", "classes"]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Examples of one shape.

    Attributes:
        name: under which the bill has them.
        kind: `choice`: an image and captions, the first right; `pairs`: two images and two
            captions; `triple`: an image and a caption, a hard negative, a hard positive; `gallery`:
            images and a caption of each; `classes`: images, and the captions of all classes.
        images: (k, m) places of images.
        texts: (k, n) places of captions; (c,) of classes, or (c, t) where each has several prompts,
            whose vectors are averaged.
        right: (k,) the right class.
        ks: among the first how many the right class is to be.
    """

    name: str
    kind: Kind
    images: Numbers
    texts: Numbers
    right: Numbers | None = None
    ks: tuple[int, ...] = (1,)


class Shown(Protocol):
    """Pictures of a panel, opened when they are needed."""

    def __len__(self) -> int: ...

    def open(self, places: Sequence[int]) -> list[Image]:
        """Some of them."""


@dataclass(slots=True, eq=False)
class Panel:
    """Tests on common pictures and captions.

    Attributes:
        source: what it is made of, in words.
        images: every picture once.
        texts: every caption once.
        tests: what is asked.
    """

    source: str
    images: Shown
    texts: list[str]
    tests: list[Trial]


@dataclass(slots=True)
class Collector:
    """Puts a panel together, every picture and caption once."""

    pictures: dict[object, int] = field(default_factory=dict)
    captions: dict[str, int] = field(default_factory=dict)

    def image(self, key: object) -> int:
        """The place of a picture."""
        return self.pictures.setdefault(key, len(self.pictures))

    def text(self, text: str) -> int:
        """The place of a caption."""
        return self.captions.setdefault(text, len(self.captions))

    def test(
        self,
        name: str,
        kind: Kind,
        examples: Iterable[tuple[Sequence[object], Sequence[str]]],
    ) -> Trial:
        """A test of examples: pictures and captions of each."""
        rows = [
            ([self.image(key) for key in keys], [self.text(text) for text in texts])
            for keys, texts in examples
        ]
        return Trial(
            name,
            kind,
            np.array([images for images, _ in rows], dtype=np.int64),
            np.array([texts for _, texts in rows], dtype=np.int64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """Pictures by what opens some of their keys."""

    keys: Sequence[object]
    opener: Callable[[Sequence[object]], list[Image]]

    def __len__(self) -> int:
        return len(self.keys)

    def open(self, places: Sequence[int]) -> list[Image]:
        """Some of them."""
        return self.opener([self.keys[place] for place in places])


def require_tests(panel: Panel) -> Panel:
    """The panel, if it asks anything.

    Raises:
        InputError: it does not.
    """
    if not any(len(test.images) for test in panel.tests):
        raise InputError(f"{panel.source} holds nothing to measure the model by.")
    return panel


def counts(panel: Panel) -> Mapping[str, int]:
    """How many examples each test has."""
    return {test.name: len(test.images) for test in panel.tests}
