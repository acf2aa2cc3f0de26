"""The noun everything else speaks of: m images × n captions, and which belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contrapose.data.images import ImageRef
from contrapose.files import Malformed, is_whole

TagValue = str | tuple[str, ...]
"""A tag's value; several when an example carries several tags of one kind (Diwan's, say)."""

Match = tuple[tuple[bool, ...], ...]


@dataclass(frozen=True, slots=True)
class Example:
    """One question to a model: which of these images and captions belong together?

    Attributes:
        id: unique within its benchmark.
        images: m images.
        texts: n captions.
        match: m × n, true where image and caption belong together.
        tags: what results are broken down by: subset, phenomenon, relation, …
    """

    id: str
    images: tuple[ImageRef, ...]
    texts: tuple[str, ...]
    match: Match
    tags: Mapping[str, TagValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.images or not self.texts:
            raise Malformed(f"example {self.id}: needs at least one image and one caption.")
        for text in self.texts:
            if not isinstance(text, str) or not text.strip():
                raise Malformed(f"example {self.id}: a caption is empty.")
            if not text.isascii() and not is_whole(text):
                raise Malformed(f"example {self.id}: a caption holds half of a surrogate pair.")
        images, texts = len(self.images), len(self.texts)
        if len(self.match) != images or set(map(len, self.match)) != {texts}:
            raise Malformed(
                f"example {self.id}: match must be {images} rows (images) of {texts} (captions)."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of images and of captions."""
        return len(self.images), len(self.texts)


def one_right(texts: int, right: int) -> Match:
    """The match of one image with `texts` captions of which one is right."""
    return (tuple(index == right for index in range(texts)),)


def diagonal(size: int) -> Match:
    """The match of `size` images with as many captions, the i-th with the i-th."""
    return tuple(tuple(i == j for j in range(size)) for i in range(size))
