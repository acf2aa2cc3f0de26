"""Word groups from a file of the user's own.

    {"id": "7", "caption": 0, "spans": {"O": [[4, 7], [21, 26]], "R": [[11, 20]]}}

A line a caption; a span is the offset of its first character and of the one after its last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from contrapose.data import Example
from contrapose.diagnose.players import Groups, Missing, require_few
from contrapose.errors import InputError
from contrapose.files import Malformed, Record, Strict, jsonl_records, parse
from contrapose.models.masks import Span, merged


@dataclass(frozen=True, slots=True)
class UserWords:
    """Word groups as the user's file gives them.

    Attributes:
        file: it.
        groups: by example and caption, with the line.
    """

    file: Path
    groups: Mapping[tuple[str, int], tuple[Groups, int]] = field(repr=False)
    joint: bool = True

    @property
    def name(self) -> str:
        """Which file."""
        return f"the spans of {self.file.name}"

    @classmethod
    def read(cls, file: Path) -> UserWords:
        """Read a file.

        Raises:
            InputError: a record is malformed, or has no group, an empty one, or too many.
        """
        found: dict[tuple[str, int], tuple[Groups, int]] = {}
        records = jsonl_records(file, Strict())
        built = parse(records, lambda each: (_record(each), each.line), Strict())
        for (key, groups), line in built:
            if key in found:
                raise InputError(
                    f"example {key[0]} has caption {key[1]} twice.", file=file, line=line
                )
            found[key] = groups, line
        if not found:
            raise InputError("holds no word groups.", file=file)
        return cls(file, found)

    def find(self, examples: Sequence[Example]) -> list[Sequence[Groups] | Missing]:
        """The groups of each caption.

        Raises:
            InputError: a span lies outside its caption, or two groups overlap.
        """
        return [self._one(example) for example in examples]

    def _one(self, example: Example) -> Sequence[Groups] | Missing:
        found = []
        for place, text in enumerate(example.texts):
            known = self.groups.get((example.id, place))
            if known is None:
                return Missing(f"{self.file.name} has no word groups of one of its captions")
            groups, line = known
            try:
                _check(groups, text)
            except InputError as error:
                raise InputError(error.message, file=self.file, line=line) from None
            found.append(groups)
        return found


def _record(record: Record) -> tuple[tuple[str, int], Groups]:
    spans = record.field("spans")
    if not isinstance(spans, dict) or not spans:
        raise Malformed(f"record {record.key}: 'spans' must name at least one group of words.")
    try:
        require_few(len(spans), "groups of words")
    except InputError as error:
        raise Malformed(f"record {record.key}: {error.message}") from None
    groups = {str(name): _spans(record, str(name), value) for name, value in spans.items()}
    return (record.name("id"), record.integer("caption")), groups


def _spans(record: Record, name: str, value: Any) -> tuple[Span, ...]:
    if not isinstance(value, list) or not value:
        raise Malformed(f"record {record.key}: the group {name!r} is empty; leave it out.")
    for span in value:
        whole = isinstance(span, list) and len(span) == 2 and all(type(n) is int for n in span)
        if not whole:
            raise Malformed(f"record {record.key}: a span of {name!r} must be [start, end].")
    return tuple((start, end) for start, end in value)


def _check(groups: Groups, text: str) -> None:
    taken: list[tuple[Span, str]] = []
    for name, spans in groups.items():
        taken += [(span, name) for span in merged(spans, text)]
    taken.sort()
    for (one, name), (other, second) in pairwise(taken):
        if other[0] < one[1]:
            raise InputError(f"the groups {name!r} and {second!r} share words of {text[:40]!r}.")
