"""Example table of several runs: outcomes, margins, scores, captions and images, row by row.

Runs are aligned by benchmark and example id. A page that holds its rows and the local server read
the same table, and `ExampleTable.row` is the format of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from threading import Lock
from typing import Any, overload

import numpy as np

from contrapose.data import Example, ImageRef
from contrapose.data.example_columns import ExampleMap
from contrapose.data.video_frames import FrameImage
from contrapose.metrics import IntArray
from contrapose.report.explorer.columns import ABSENT, RunColumns, build_columns, short_key
from contrapose.report.run_examples import ALL, example_parts, find_cases, list_parts
from contrapose.results import RunRecord
from contrapose.results.measures import group_positions, tag_values

MAX_TAG_VALUES = 300
"""Values of a tag up to which examples can be chosen by it."""
MAX_IMAGES = 12
"""Images of an example that are shown."""


class ImageNumbers:
    """Numbers of images, given in the order in which images are asked for; safe in threads.

    Attributes:
        refs: the images that have a number.
    """

    def __init__(self) -> None:
        self.refs: list[ImageRef] = []
        self._numbers: dict[ImageRef, int] = {}
        self._lock = Lock()

    def number(self, ref: ImageRef) -> int:
        """Number of an image."""
        with self._lock:
            number = self._numbers.setdefault(ref, len(self.refs))
            if number == len(self.refs):
                self.refs.append(ref)
        return number


class ExampleTable:
    """Table of N examples and the runs that scored them.

    Attributes:
        keys: benchmark and id of each row.
        runs: columns of each run.
        captions: captions of each row; empty where they are not known.
        parts: rows of each part, in order of first appearance.
        tags: rows of each value of each tag; tags of too many values are left out.
        orders: rows in the orders that were asked for, kept by the queries.
        images: numbers of the images of the rows that were asked for.
    """

    def __init__(self, records: Sequence[RunRecord], folders: Sequence[str] = ()):
        """Align runs.

        Args:
            records: the runs.
            folders: the run folder of each; empty for none.
        """
        self._records = records
        self._last_case: tuple[int, Example | None] = -1, None
        self.orders: dict[tuple[str, int, int], IntArray] = {}
        self.images = ImageNumbers()
        self._case_maps = find_cases(records)
        self._columns = _find_columns(records, self._case_maps)
        if self._columns is not None:
            self._take_columns(records[0], self._columns, *folders[:1])
            return
        index: dict[tuple[str, str], int] = {}
        positions: list[IntArray] = []
        for record in records:
            name = record.results.benchmark
            units = (*record.measured.ids, *record.spec.get("skipped", {}))
            if not index:
                names = dict.fromkeys(units)
                index = dict(zip(zip(repeat(name), names), range(len(names)), strict=False))
            if len(index) == len(units) and not positions:
                positions.append(np.arange(len(units)))
                continue
            at = [index.setdefault((name, unit), len(index)) for unit in units]
            positions.append(np.array(at, dtype=np.int64))
        self.keys: Sequence[tuple[str, str]] = list(index)
        self.benchmarks = list(dict.fromkeys(record.results.benchmark for record in records))
        self._case_of = np.full(len(index), -1, dtype=np.int64)
        captions: list[tuple[str, ...]] = [()] * len(index)
        self.captions: Sequence[tuple[str, ...]] = captions
        self._part_of: list[tuple[str, ...]] = [(ALL,)] * len(index)
        self._tag_of = np.full((len(index), 2), -1, dtype=np.int64)
        for number, (record, cases, rows) in enumerate(
            zip(records, self._case_maps, positions, strict=True)
        ):
            if not number and isinstance(cases, ExampleMap) and not record.captions:
                self._fill_columns(record, cases, captions)
            else:
                self._fill_rows(number, record, cases, rows.tolist(), captions)
        places = [*folders, *[""] * (len(records) - len(folders))]
        self.runs = tuple(
            build_columns(record, rows, len(index), folder)
            for record, rows, folder in zip(records, positions, places, strict=True)
        )
        self._drop_changed()
        self.parts = self._group(self._part_of)
        self.tags = self._group_tags()

    def __len__(self) -> int:
        return len(self.keys)

    def _take_columns(self, record: RunRecord, cases: ExampleMap, folder: str = "") -> None:
        """Take the one run, whose examples are columns in the same order."""
        size, name = len(record.measured), record.results.benchmark
        self.keys, self.benchmarks = RowKeys(name, record.measured.ids), [name]
        self.captions = cases.columns.captions()
        self._case_of = np.zeros(size, dtype=np.int64)
        self._part_of = list_parts(record)
        self._tag_of = np.stack([np.zeros(size, dtype=np.int64), np.arange(size)], axis=1)
        self.runs = (build_columns(record, np.arange(size), size, folder),)
        self._drop_changed()
        self.parts = self._group(self._part_of)
        self.tags = self._group_tags()

    def _fill_columns(
        self, record: RunRecord, cases: ExampleMap, known: list[tuple[str, ...]]
    ) -> None:
        """Take captions, images, parts and tags of the first run, all rows at once."""
        units = [unit for _, unit in self.keys]
        self._case_of[:] = 0
        if cases.lists_exactly(units):
            known[:] = cases.columns.captions()
        else:
            known[:] = [cases[unit].texts if unit in cases else () for unit in units]
            self._case_of[[k for k, unit in enumerate(units) if unit not in cases]] = -1
        size = len(record.measured)
        self._tag_of[:size, 0], self._tag_of[:size, 1] = 0, np.arange(size)
        self._part_of[:size] = list_parts(record)

    def case(self, row: int) -> Example | None:
        """Example of a row with its images; None where it is not known."""
        number = self._case_of[row]
        if self._columns is not None and number >= 0:
            known, example = self._last_case
            if known != row:
                example = self._columns.columns[row]
                self._last_case = row, example
            return example
        return None if number < 0 else self._case_maps[number][self.keys[row][1]]

    def _fill_rows(
        self,
        number: int,
        record: RunRecord,
        cases: Mapping[str, Example],
        rows: Sequence[int],
        known: list[tuple[str, ...]],
    ) -> None:
        """Take captions, images, parts and tags of rows that no earlier run filled."""
        parts = example_parts(record)
        for position, row in enumerate(rows):
            unit = self.keys[row][1]
            case, captions = cases.get(unit), record.captions.get(unit, ())
            if case is not None and captions in ((), case.texts):  # else it was changed since
                self._case_of[row] = number
                captions = case.texts
            if captions:
                known[row] = captions
            if position < len(record.measured) and self._tag_of[row, 0] < 0:
                self._tag_of[row] = (number, position)
                self._part_of[row] = parts.get(unit, (ALL,))

    def _drop_changed(self) -> None:
        """Forget examples that are not of the shape that was scored: they were changed since."""
        for run in self.runs:
            if run.scored is None:
                continue
            shapes = run.scored.shapes()
            for number, cases in enumerate(self._case_maps):
                rows = np.flatnonzero((run.at >= 0) & (self._case_of == number))
                if self._columns is not None:
                    known = self._columns.columns.shapes()[rows]
                    self._case_of[rows[(known != shapes[run.at[rows]]).any(axis=1)]] = -1
                    continue
                units = [self.keys[row][1] for row in rows.tolist()]
                if isinstance(cases, ExampleMap):
                    known = cases.shapes(units)
                else:
                    known = np.array([cases[unit].shape for unit in units], dtype=np.int64)
                changed = (known.reshape(-1, 2) != shapes[run.at[rows]]).any(axis=1)
                self._case_of[rows[changed]] = -1

    def _group(self, values: Iterable[tuple[str, ...]]) -> dict[str, IntArray]:
        listed = list(values)
        if listed and listed.count(listed[0]) == len(listed):
            return dict.fromkeys(listed[0], np.arange(len(listed)))
        return group_positions(listed)

    def _group_tags(self) -> dict[str, dict[str, IntArray]]:
        names = dict.fromkeys(tag for record in self._records for tag in record.measured.tags)
        tags = {}
        for tag in names:
            if tag == "part":
                continue
            if self._columns is not None:
                groups = group_positions(self._records[0].measured.tags[tag])
            else:
                groups = self._group(self._tag_values(row, tag) for row in range(len(self)))
            if groups and 1 < len(groups) <= MAX_TAG_VALUES:
                tags[tag] = groups
        return tags

    def _tag_values(self, row: int, tag: str) -> tuple[str, ...]:
        number, position = self._tag_of[row].tolist()
        if number < 0:
            case = self.case(row)
            return () if case is None else tag_values(case.tags.get(tag, ()))
        values = self._records[number].measured.tags.get(tag)
        return () if values is None else tag_values(values[position])

    @cached_property
    def metrics(self) -> list[str]:
        """Names of the columns of outcomes, the main metric first."""
        return list(dict.fromkeys(name for run in self.runs for name in run.outcomes))

    @cached_property
    def words(self) -> list[str]:
        """Id and captions of each row in lower case, for the search of texts."""
        return [
            "\n".join((unit, *captions)).lower()
            for (_, unit), captions in zip(self.keys, self.captions, strict=True)
        ]

    def image_positions(self, row: int) -> list[int]:
        """Positions of the images of a row that are shown; by the first run with a rule."""
        for run in self.runs:
            if run.rule is not None and run.scored is not None and run.at[row] >= 0:
                positions: list[int] = run.rule(*run.scored.matrix(int(run.at[row])))[1].tolist()
                return positions[:MAX_IMAGES]
        case = self.case(row)
        return list(range(min(len(case.images), MAX_IMAGES))) if case is not None else []

    def row_images(self, row: int) -> list[ImageRef]:
        """Images of a row that are shown; none where they are not known."""
        case = self.case(row)
        if case is None:
            return []
        return [case.images[i] for i in self.image_positions(row) if i < len(case.images)]

    def row(self, row: int) -> dict[str, Any]:
        """Row as JSON values."""
        benchmark, unit = self.keys[row]
        refs = self.row_images(row)
        number = int(self._tag_of[row, 0])
        tags = self._records[number].measured.tags if number >= 0 else {}
        match: list[str] = []
        runs: list[dict[str, Any]] = []
        for run in self.runs:
            values: dict[str, Any] = {"outcomes": self._codes(run, row)}
            if not np.isnan(run.margins[row]):
                values["margin"] = float(run.margins[row])
            if run.scored is not None and run.at[row] >= 0:
                scores, fits = run.scored.matrix(int(run.at[row]))
                if run.rule is not None:
                    shown = [i for i in self.image_positions(row) if i < len(scores)]
                    scores, fits = scores[shown], fits[shown]
                values["scores"] = [[round_digits(value) for value in line] for line in scores]
                match = ["".join("01"[bool(fit)] for fit in line) for line in fits]
            elif not match and (case := self.case(row)) is not None:
                shown = self.image_positions(row)
                match = ["".join("01"[fit] for fit in case.match[i]) for i in shown]
            if row in run.reasons:
                values["why"] = run.reasons[row]
            if row in run.replies:
                values["replies"] = run.replies[row]
            runs.append(values)
        return {
            "id": unit,
            "benchmark": self.benchmarks.index(benchmark),
            "parts": [name for name in self._part_of[row] if name != ALL],
            "tags": {
                tag: list(some)
                for tag in tags
                if tag != "part" and (some := self._tag_values(row, tag))
            },
            "captions": list(self.captions[row]),
            "images": [self.images.number(ref) for ref in refs],
            "files": [_image_file(ref) for ref in refs],
            "labels": [_image_label(ref) for ref in refs],
            "match": match,
            "key": short_key(benchmark, unit),
            "runs": runs,
        }

    def _codes(self, run: RunColumns, row: int) -> str:
        return "".join(
            chr(run.outcomes[name][row] if name in run.outcomes else ABSENT)
            for name in self.metrics
        )

    def describe(self) -> dict[str, Any]:
        """Runs, parts and tags as JSON values, with true counts of all N rows."""
        parts = {name: len(rows) for name, rows in self.parts.items() if name != ALL}
        return {
            "total": len(self),
            "metrics": self.metrics,
            "benchmarks": self.benchmarks,
            "runs": [
                {
                    "label": run.label,
                    "model": run.model,
                    "score": run.score,
                    "benchmark": run.benchmark,
                    "folder": run.folder,
                    "spread": round_digits(run.spread),
                    "counts": run.counts(),
                    "note": run.note,
                    "key": run.key,
                }
                for run in self.runs
            ],
            "parts": list(parts.items()),
            "tags": {
                tag: [[value, len(rows)] for value, rows in groups.items()]
                for tag, groups in self.tags.items()
            },
        }

    def worst_first(self, most: int) -> IntArray:
        """First rows in the order of their worst margin in any run; those without one last."""
        margins = np.full(len(self), np.inf)
        for run in self.runs:
            np.fmin(margins, run.margins, out=margins)
        if most < len(margins):
            last = np.partition(margins, most)[most]
            candidates = np.flatnonzero(margins <= last)
        else:
            candidates = np.arange(len(margins))
        return candidates[np.argsort(margins[candidates], kind="stable")][:most]


class RowKeys(Sequence[tuple[str, str]]):
    """Benchmark and id of each row, where all are of one benchmark."""

    def __init__(self, benchmark: str, ids: Sequence[str]):
        self.benchmark, self.ids = benchmark, ids

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> tuple[str, str]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[str, str]]: ...

    def __getitem__(self, index: int | slice) -> tuple[str, str] | list[tuple[str, str]]:
        if isinstance(index, slice):
            return [(self.benchmark, name) for name in self.ids[index]]
        return self.benchmark, self.ids[index]


def _find_columns(
    records: Sequence[RunRecord], case_maps: Sequence[Mapping[str, Example]]
) -> ExampleMap | None:
    """Examples of a run as columns in the order of its rows; None where rows must be aligned."""
    if len(records) != 1 or records[0].captions or records[0].spec.get("skipped"):
        return None
    (cases,) = case_maps
    known = isinstance(cases, ExampleMap) and cases.lists_exactly(records[0].measured.ids)
    return cases if known and isinstance(cases, ExampleMap) else None


def round_digits(value: float) -> float | None:
    """Number with six digits; None where there is none."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _image_label(ref: ImageRef) -> str:
    """Time of a frame of a video; empty for other images."""
    return f"{ref.source.time:g} s" if isinstance(ref.source, FrameImage) else ""


def _image_file(ref: ImageRef) -> str | None:
    """File that shows exactly this image; None for crops, cells, arrays and generated images."""
    plain = ref.path is not None and ref.crop is None and ref.cell is None and not ref.square
    return str(ref.path) if plain and ref.path.suffix != ".npy" else None  # type: ignore[union-attr]
