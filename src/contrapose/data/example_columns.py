"""Examples as columns: a benchmark of a million examples without a million Python objects.

Ids, images, captions, matches and tags are few lists and arrays, from which plans, frames and cards
are computed at once. An `Example` is built only when somebody reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from contrapose.arrays import find_distinct
from contrapose.data.examples import Example, Match, TagValue
from contrapose.data.images import ImageRef
from contrapose.data.ref_columns import keys_of, take_refs
from contrapose.data.text_columns import TextColumn, TextRows

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

Positions = NDArray[np.int64]

MANY_EXAMPLES = 100_000
"""Examples from which on plans and frames take less time from columns."""


@dataclass(frozen=True, slots=True, eq=False)
class ExampleColumns(Sequence[Example]):
    """Sequence of valid examples, stored by column.

    Attributes:
        ids: k ids.
        refs: distinct images, in order of first appearance.
        images: positions in `refs` of the images of all examples, end to end.
        image_starts: (k + 1,) where the images of each example begin, and the end of the last.
        texts: the captions of all examples, end to end.
        text_starts: (k + 1,) where the captions of each example begin, and the end of the last.
        matches: distinct match matrices, in order of first appearance.
        match_index: (k,) which of them an example has.
        tags: for each tag its value for each example; None where an example has none.
    """

    ids: TextColumn
    refs: Sequence[ImageRef]
    images: Positions
    image_starts: Positions
    texts: TextColumn
    text_starts: Positions
    matches: Sequence[Match]
    match_index: Positions
    tags: Mapping[str, Sequence[TagValue | None]]

    @classmethod
    def of(cls, examples: Sequence[Example]) -> ExampleColumns:
        """Store examples by column.

        Raises:
            UnicodeEncodeError: an id is not valid Unicode.
        """
        images, image_starts = join_rows([example.images for example in examples])
        texts, text_starts = join_rows([example.texts for example in examples])
        refs, image_index = find_distinct(images)
        matches, match_index = find_distinct([example.match for example in examples])
        return cls(
            ids=TextColumn.of([example.id for example in examples]),
            refs=refs,
            images=image_index.astype(np.int64, copy=False),
            image_starts=image_starts,
            texts=TextColumn.of(texts),
            text_starts=text_starts,
            matches=matches,
            match_index=match_index.astype(np.int64, copy=False),
            tags=_tag_columns([example.tags for example in examples]),
        )

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        name = self.ids[index]  # raises IndexError
        k = index % len(self)
        images = self.images[self.image_starts[k] : self.image_starts[k + 1]].tolist()
        return Example(
            name,
            tuple([self.refs[i] for i in images]),
            tuple(self.texts[int(self.text_starts[k]) : int(self.text_starts[k + 1])]),
            self.matches[self.match_index[k]],
            {tag: value for tag, of in self.tags.items() if (value := of[k]) is not None},
        )

    def __iter__(self) -> Iterator[Example]:
        return (self[k] for k in range(len(self)))

    def shapes(self) -> Positions:
        """(k, 2) number of images and of captions of each example."""
        return np.stack([np.diff(self.image_starts), np.diff(self.text_starts)], axis=1)

    def captions(self) -> TextRows:
        """Captions of each example."""
        return TextRows(self.texts, self.text_starts)

    def tag(self, name: str) -> tuple[TagValue, ...]:
        """Value of a tag for each example; empty text where it has none."""
        values = self.tags.get(name)
        if values is None:
            return ("",) * len(self)
        return tuple(["" if value is None else value for value in values])

    def image_key_sets(self) -> tuple[list[tuple[str, ...]], Positions]:
        """Distinct tuples of keys of images in order of first appearance; which an example has."""
        sizes = np.diff(self.image_starts)
        width = int(sizes.max(initial=0))
        codes = np.zeros(len(self), dtype=np.int64)
        for column in range(width):
            there = sizes > column
            number = np.full(len(self), len(self.refs), dtype=np.int64)
            number[there] = self.images[self.image_starts[:-1][there] + column]
            codes = number if width == 1 else codes * (len(self.refs) + 1) + number
            codes = number_by_appearance(codes)
        first = first_appearances(codes)
        keys = keys_of(self.refs)
        if width == 1:
            return [(keys[i],) for i in self.images[first].tolist()], codes
        starts, ends = self.image_starts[first].tolist(), self.image_starts[first + 1].tolist()
        images = self.images.tolist()
        sets = [
            tuple([keys[i] for i in images[start:end]])
            for start, end in zip(starts, ends, strict=True)
        ]
        return sets, codes

    def take(self, positions: Positions) -> ExampleColumns:
        """Select examples in this order."""
        chosen = positions.tolist()
        images, image_starts = take_rows(self.image_starts, positions)
        texts, text_starts = take_rows(self.text_starts, positions)
        image_index = number_by_appearance(self.images[images])
        used = self.images[images][first_appearances(image_index)]
        matches, match_index = keep_used(self.matches, self.match_index[positions])
        tags = {name: [values[k] for k in chosen] for name, values in self.tags.items()}
        return ExampleColumns(
            ids=self.ids.take(positions),
            refs=take_refs(self.refs, used),
            images=image_index,
            image_starts=image_starts,
            texts=self.texts.take(texts),
            text_starts=text_starts,
            matches=matches,
            match_index=match_index,
            tags=order_tags(tags),
        )


def store_many(examples: list[Example]) -> list[Example] | ExampleColumns:
    """Store very many examples by column; fewer, or ids that are not valid Unicode, as they are."""
    if len(examples) >= MANY_EXAMPLES:
        with suppress(UnicodeEncodeError):  # an id may be the name of a file
            return ExampleColumns.of(examples)
    return examples


class ExampleMap(Mapping[str, Example]):
    """Examples by id, of which each is built when it is looked up.

    Attributes:
        columns: the examples.
    """

    def __init__(self, columns: ExampleColumns):
        self.columns = columns

    @cached_property
    def positions(self) -> dict[str, int]:
        """Position of each id; made when it is first needed."""
        return dict(zip(self.columns.ids.values, range(len(self.columns)), strict=True))

    def __getitem__(self, name: str) -> Example:
        return self.columns[self.positions[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.positions)

    def __len__(self) -> int:
        return len(self.columns)

    def shapes(self, names: Sequence[str]) -> Positions:
        """(n, 2) number of images and of captions of these examples."""
        if self.lists_exactly(names):
            return self.columns.shapes()
        at = np.fromiter(map(self.positions.__getitem__, names), np.int64, len(names))
        return self.columns.shapes()[at]

    def lists_exactly(self, ids: Sequence[str]) -> bool:
        """Whether these are all ids, in the order of the examples."""
        known = self.columns.ids.values
        return ids is known or (len(ids) == len(known) and all(map(str.__eq__, ids, known)))


def distinct_refs(examples: Iterable[Example]) -> Iterable[ImageRef]:
    """Images of examples, each at least once; those of columns once."""
    if isinstance(examples, ExampleColumns):
        return examples.refs
    return (ref for example in examples for ref in example.images)


def count_matches(examples: Sequence[Example]) -> Counter[Match]:
    """Number of examples with each match matrix."""
    if not isinstance(examples, ExampleColumns):
        return Counter([example.match for example in examples])
    counts = np.bincount(examples.match_index, minlength=len(examples.matches)).tolist()
    return Counter(dict(zip(examples.matches, counts, strict=True)))


def tag_names(examples: Sequence[Example]) -> list[str]:
    """Names of the tags of examples, in order of first appearance."""
    if isinstance(examples, ExampleColumns):
        return list(examples.tags)
    return list(dict.fromkeys(tag for example in examples for tag in example.tags))


def order_tags(
    tags: Mapping[str, Sequence[TagValue | None]],
) -> dict[str, Sequence[TagValue | None]]:
    """Tags in order of first appearance, without those that no example has."""
    first: dict[str, int] = {}
    for name, values in tags.items():
        position = next((k for k, value in enumerate(values) if value is not None), None)
        if position is not None:
            first[name] = position
    return {name: tags[name] for name in sorted(first, key=first.__getitem__)}


def _tag_columns(tags: Sequence[Mapping[str, TagValue]]) -> dict[str, list[TagValue | None]]:
    """Values of each tag, in order of first appearance; tags that examples share are read once."""
    keys = list(map(id, tags))
    by_object = dict(zip(keys, tags, strict=True))
    columns: dict[str, list[TagValue | None]] = {}
    for name in dict.fromkeys(name for some in by_object.values() for name in some):
        value_of = {key: some.get(name) for key, some in by_object.items()}
        columns[name] = list(map(value_of.__getitem__, keys))
    return columns


def has_tag(examples: Sequence[Example], name: str) -> bool:
    """Whether all examples have a tag."""
    if isinstance(examples, ExampleColumns):
        return all(examples.tags.get(name, (None,)))
    return all(example.tags.get(name) for example in examples)


def join_rows(rows: Sequence[Sequence[Any]]) -> tuple[list[Any], Positions]:
    """Lay lists end to end: all values, and (k + 1,) where each list begins."""
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    return list(chain.from_iterable(rows)), row_starts(sizes)


def row_starts(sizes: Positions) -> Positions:
    """(k + 1,) where rows of these sizes begin, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def number_by_appearance(codes: Positions) -> Positions:
    """Renumber codes 0, 1, … in order of first appearance."""
    highest = np.maximum.accumulate(codes)
    if not len(codes) or (codes[0] == 0 and (np.diff(highest) <= 1).all() and codes.min() == 0):
        return codes
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def first_appearances(codes: Positions) -> Positions:
    """Position at which each of the codes 0, 1, … appears first."""
    first = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def keep_used(values: Sequence[T], index: Positions) -> tuple[list[T], Positions]:
    """Values that an index names, in order of first appearance, and the index into them."""
    numbers = number_by_appearance(index)
    return [values[i] for i in index[first_appearances(numbers)].tolist()], numbers


def take_rows(starts: Positions, rows: Positions) -> tuple[Positions, Positions]:
    """Positions of the values of some rows, and where these rows begin."""
    sizes = starts[rows + 1] - starts[rows]
    new = row_starts(sizes)
    within = np.arange(new[-1]) - np.repeat(new[:-1], sizes)
    return np.repeat(starts[rows], sizes) + within, new
