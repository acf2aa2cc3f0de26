"""Shapes that are not a handful of pairs: galleries, class lists and edit queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contrapose.data.example import TagValue
from contrapose.data.images import ImageRef


@dataclass(frozen=True, slots=True)
class Gallery:
    """N images × M texts to rank against each other: retrieval, or classes to tell apart.

    Attributes:
        id: the gallery's name.
        images: N images.
        texts: M captions, or M class names.
        pairs: the (image, text) positions that belong together; a full N × M matrix of a
            5,000-image gallery would hold 125 million cells.
        templates: prompt templates with one `{}` each, for class names; empty for captions.
    """

    id: str
    images: tuple[ImageRef, ...]
    texts: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    templates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EditQuery:
    """An image and a wish: the same with `source` turned into `target` (SIMAT).

    Attributes:
        id: the query's name.
        image: position in the edit set's images of the one to start from.
        source: the word that describes it now.
        target: the word that should.
        caption: position of the caption that describes the image now.
        target_caption: position of the caption that the retrieved image should fit.
        weight: μ before normalisation, `1/sqrt(norm2)`: frequent source words count less.
        tags: field (subj, rel, obj) and split (dev, test).
    """

    id: str
    image: int
    source: str
    target: str
    caption: int
    target_caption: int
    weight: float
    tags: Mapping[str, TagValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EditSet:
    """A database of images, the captions that may describe them, and edit queries on both.

    Attributes:
        images: the retrieval database.
        captions: every caption a query can ask for.
        caption_of: for each image the position of its caption.
        queries: what is asked.
    """

    images: tuple[ImageRef, ...]
    captions: tuple[str, ...]
    caption_of: tuple[int, ...]
    queries: tuple[EditQuery, ...]
