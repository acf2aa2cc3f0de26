"""EqBen's released file of single pairs in shuffled order, put back into examples.

Each row is `{"image", "caption", "private_info": {"dataset", "sample_cnt", "name"}}`, where the
name is one of c0i0, c0i1, c1i0, c1i1: four rows make one example.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from contrapose.files import Malformed, Problems, Record, json_records, parse

PAIRS = ("c0i0", "c0i1", "c1i0", "c1i1")

Samples = dict[int, dict[str, Record]]
"""Number of an example → its rows by name."""


def shuffled_records(
    path: Path, subset_of: Mapping[str, str], problems: Problems
) -> Iterator[tuple[str, Record]]:
    """(subset, record) pairs with image0, image1, caption0, caption1, in the original order.

    Args:
        path: the released file.
        subset_of: name of a data set in the file → subset; also says in which order they come.
        problems: where rows that cannot be used are reported.
    """
    found: dict[str, Samples] = {subset: defaultdict(dict) for subset in subset_of.values()}

    def build(record: Record) -> None:
        subset, number, name = _place(record, subset_of)
        if name in ("c0i0", "c1i1"):  # the matching pairs name both images and both captions
            found[subset][number][name] = record

    for _ in parse(json_records(path, problems), build, problems):
        pass
    for subset, samples in found.items():
        for number in sorted(samples):
            yield subset, _joined(samples[number], f"{subset}/{number}")


def shuffled_pairs(
    path: Path, subset_of: Mapping[str, str], problems: Problems
) -> list[tuple[str, int, int]]:
    """(example id, image, caption) of every row, in the order of a submission's scores.

    Ids are those that the reader gives: the position of an example in its subset.
    """

    def build(record: Record) -> tuple[str, int, str]:
        return _place(record, subset_of)

    rows = list(parse(json_records(path, problems), build, problems))
    numbers: dict[str, set[int]] = defaultdict(set)
    for subset, number, _ in rows:
        numbers[subset].add(number)
    place = {
        (subset, number): f"{subset}/{position}"
        for subset, found in numbers.items()
        for position, number in enumerate(sorted(found))
    }
    return [(place[subset, number], int(name[3]), int(name[1])) for subset, number, name in rows]


def _place(record: Record, subset_of: Mapping[str, str]) -> tuple[str, int, str]:
    """The subset, number of the example, and name of the pair that a row is of."""
    info = replace(record, value=record.field("private_info"))
    dataset, name, number = info.text("dataset"), info.text("name"), info.integer("sample_cnt")
    if dataset not in subset_of or name not in PAIRS:
        raise Malformed(f"record {record.key}: {dataset!r}, {name!r} is not a pair of EqBen.")
    return subset_of[dataset], number, name


def _joined(pairs: Mapping[str, Record], key: str) -> Record:
    """One record of an example; what its rows do not say is missing from it."""
    value = {}
    for name, record in pairs.items():
        for field in ("image", "caption"):
            if field in record.value:
                value[f"{field}{name[-1]}"] = record.value[field]
    return replace(next(iter(pairs.values())), value=value, key=key)
