"""A run folder as exports need it: every run's results, outcomes and scores, and when it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from contrapose.errors import InputError
from contrapose.files import read_json
from contrapose.results.measured import Measured
from contrapose.results.runs import KEYS, RESULTS, SCORES, SPEC, is_run, read_run
from contrapose.results.schema import Evaluation, Results


@dataclass(frozen=True, slots=True)
class Pair:
    """One score of an example: which of its images and captions; None where it has none."""

    image: int | None
    text: int | None
    value: float
    match: bool | None


@dataclass(frozen=True, slots=True, eq=False)
class Exported:
    """One run: a model, a benchmark, a score.

    Attributes:
        results: what was reported.
        measured: the outcome of every example.
        pairs: the scores of every example; empty where units are queries of a gallery.
        fingerprint: of the model; empty when the scores came from a file.
    """

    results: Results
    measured: Measured
    pairs: Mapping[str, tuple[Pair, ...]]
    fingerprint: str = ""

    @property
    def model(self) -> str:
        """The model's name, or that of the score file in its place."""
        return self.results.model or Path(self.results.scores or "scores").stem

    @property
    def score(self) -> str:
        """What the model was asked for; empty when the scores came from a file."""
        return self.results.score or ""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A whole run folder.

    Attributes:
        request: what was asked, as the folder says.
        time: when it was written, unless told otherwise.
        runs: in the folder's order.
    """

    request: Mapping[str, Any]
    time: datetime
    runs: tuple[Exported, ...]


def read_source(folder: Path, time: datetime | None = None) -> Source:
    """Read a run folder.

    Args:
        folder: of `contrapose eval --out` or `contrapose metrics --out`.
        time: when the run was; left out, as the folder's spec says, or when that was written.

    Raises:
        InputError: there is none, it is damaged, or it is of another version.
    """
    if not folder.exists():
        raise InputError("does not exist.", file=folder)
    if not is_run(folder):
        raise InputError("is not a run folder; --out of contrapose eval writes one.", file=folder)
    spec = read_json(folder / SPEC)
    results = _results(folder)
    try:
        entries = spec["runs"]
        names = [tuple(filter(None, (entry[key] for key in KEYS))) for entry in entries]
        request = dict(spec["request"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"is a damaged run folder ({error}).", file=folder) from None
    if len(results) != len(names):
        raise InputError("is a damaged run folder (results are missing).", file=folder)
    runs = []
    for entry, name, found in zip(entries, names, results, strict=True):
        _, measured = read_run(folder, name)
        pairs = _pairs(folder / SCORES, entry, measured)
        runs.append(Exported(found, measured, pairs, str(entry.get("fingerprint", ""))))
    return Source(request, time or _time(spec, folder), tuple(runs))


def parse_time(text: str) -> datetime:
    """A moment such as `2026-01-31T12:00:00`; UTC unless it says otherwise.

    Raises:
        InputError: it is none.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"--time must be a moment such as 2026-01-31T12:00:00, found {text!r}."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _time(spec: Mapping[str, Any], folder: Path) -> datetime:
    said = spec.get("time")
    if isinstance(said, str):
        return parse_time(said)
    return datetime.fromtimestamp(int((folder / SPEC).stat().st_mtime), UTC)


def _results(folder: Path) -> tuple[Results, ...]:
    """The results of every run; a folder of `contrapose metrics` holds one alone."""
    try:
        content = (folder / RESULTS).read_text(encoding="utf-8")
        if "runs" in json.loads(content):
            return Evaluation.model_validate_json(content).runs
        return (Results.model_validate_json(content),)
    except (OSError, ValueError, TypeError, ValidationError) as error:
        first = str(error).split("\n", maxsplit=1)[0]
        raise InputError(f"is a damaged run folder ({RESULTS}: {first}).", file=folder) from None


def _pairs(file: Path, entry: Mapping[str, Any], measured: Measured) -> dict[str, tuple[Pair, ...]]:
    """The scores of one run's examples, in the order they were written."""
    if not file.is_file():
        return {}
    try:
        wanted = pc.is_in(pc.field("example"), pa.array(measured.ids, pa.string()))
        for key in KEYS:
            field = pc.field(key)
            wanted &= field.is_null() if entry[key] is None else field == entry[key]
        columns = ["example", "image", "text", "value", "match"]
        rows = pq.read_table(file, columns=columns, filters=wanted).to_pydict()
    except (pa.ArrowException, OSError, KeyError) as error:
        raise InputError(f"cannot be read ({error}).", file=file) from None
    found: dict[str, list[Pair]] = {}
    for example, *pair in zip(*(rows[name] for name in columns), strict=True):
        found.setdefault(example, []).append(Pair(*pair))
    return {example: tuple(pairs) for example, pairs in found.items()}
