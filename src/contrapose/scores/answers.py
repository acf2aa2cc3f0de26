"""Score tables as arrays: a benchmark's examples (`Frame`) and their scores (`Answers`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from contrapose.data import Card, Example, TagValue
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, IntArray, clusters_of
from contrapose.scores.skips import Skip

T = TypeVar("T", bound=Hashable)


def find_distinct(values: Sequence[T]) -> tuple[list[T], IntArray]:
    """Return the distinct values in order of first appearance, and the index of each value.

    The same object is looked at once: to compare objects is far cheaper than what they hold.
    """
    by_object = {id(value): value for value in values}
    position: dict[T, int] = {}
    of_object = {key: position.setdefault(value, len(position)) for key, value in by_object.items()}
    at = np.fromiter(map(of_object.__getitem__, map(id, values)), np.int64, len(values))
    return list(position), at


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Examples of a benchmark as arrays, without scores: ids, match matrix, tags, clusters.

    Examples of different shapes are padded to the largest; `present` tells which pairs exist.

    Attributes:
        ids: k example ids.
        match: k × m × n, true where image and caption belong together.
        present: k × m × n, true where the pair exists.
        tags: for each tag its value for each example; empty text where it has none.
        clusters: for each example the group of examples it shares an image with; None when the
            images are not known.
        image_keys: the names of the images, when known.
        texts: the captions, when known.
    """

    ids: tuple[str, ...]
    match: BoolArray
    present: BoolArray
    tags: Mapping[str, tuple[TagValue, ...]]
    clusters: IntArray | None = None
    image_keys: tuple[tuple[str, ...], ...] | None = None
    texts: tuple[tuple[str, ...], ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, positions: IntArray) -> Frame:
        """Select examples by position."""
        chosen = positions.tolist()
        return Frame(
            ids=tuple(self.ids[i] for i in chosen),
            match=self.match[positions],
            present=self.present[positions],
            tags={name: tuple(values[i] for i in chosen) for name, values in self.tags.items()},
            clusters=None if self.clusters is None else self.clusters[positions],
            image_keys=None
            if self.image_keys is None
            else tuple(self.image_keys[i] for i in chosen),
            texts=None if self.texts is None else tuple(self.texts[i] for i in chosen),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Score table: a frame and the scores that fill it.

    Attributes:
        frame: the examples.
        scores: k × m × n, float32 or wider; meaningless where a pair is not present.
        notes: what the reader of the results should know.
        skipped: examples of which a pair could not be asked, and why; their scores have holes.
    """

    frame: Frame
    scores: FloatArray
    notes: tuple[str, ...] = ()
    skipped: Mapping[str, Skip] = field(default_factory=dict)

    def take(self, positions: IntArray) -> Answers:
        """Select examples by position."""
        return replace(self, frame=self.frame.take(positions), scores=self.scores[positions])

    def answered(self) -> Answers:
        """Drop the examples of which a pair was skipped."""
        if not self.skipped:
            return self
        kept = [i for i, name in enumerate(self.frame.ids) if name not in self.skipped]
        return self.take(np.array(kept, dtype=np.int64))


def build_frame(examples: Iterable[Example]) -> Frame:
    """Build the frame of examples.

    Raises:
        InputError: there are none, or two share an id.
    """
    listed = list(examples)
    if not listed:
        raise InputError("the benchmark's files hold no valid example.")
    ids = tuple([example.id for example in listed])
    if len(set(ids)) != len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise InputError(f"two examples have the id {twice!r}; ids must be unique.")
    matches, kind = find_distinct([example.match for example in listed])
    most = max(map(len, matches)), max(len(match[0]) for match in matches)
    match = np.zeros((len(matches), *most), dtype=np.bool_)
    present = np.zeros_like(match)
    for i, one in enumerate(matches):
        match[i, : len(one), : len(one[0])] = one
        present[i, : len(one), : len(one[0])] = True
    names = dict.fromkeys(name for example in listed for name in example.tags)
    shown, at = find_distinct([example.images for example in listed])
    keys = [tuple([image.key for image in images]) for images in shown]
    return Frame(
        ids=ids,
        match=match[kind],
        present=present[kind],
        tags={name: tuple([example.tags.get(name, "") for example in listed]) for name in names},
        clusters=clusters_of(keys)[at],
        image_keys=tuple([keys[i] for i in at.tolist()]),
        texts=tuple([example.texts for example in listed]),
    )


def build_frame_from_card(
    card: Card, ids: Sequence[str], tags: Mapping[str, Sequence[TagValue]]
) -> Frame:
    """Build the frame of a benchmark whose examples all have one shape, from its card alone.

    Raises:
        InputError: the card does not promise one shape for all, so the files are needed.
    """
    if card.match is None:
        raise InputError(
            f"{card.name} can only be scored with its annotation files: pass --root DIR."
        )
    one = np.asarray(card.match, dtype=np.bool_)
    match = np.broadcast_to(one, (len(ids), *one.shape))
    present = np.ones(match.shape, dtype=np.bool_)
    kept = {name: tuple(values) for name, values in tags.items()}
    return Frame(tuple(ids), match, present, kept)
