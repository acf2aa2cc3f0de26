"""Tables of a run folder: measurements, captions and scores as columns, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from contrapose.arrays import Ragged
from contrapose.data import TagValue
from contrapose.data.text_columns import TextColumn
from contrapose.results.measures import DerivedMetric, Measure, Measurements
from contrapose.results.run_files import (
    array_column,
    caption_column,
    check_entry,
    id_column,
    read_column,
)
from contrapose.results.tables import RANKING_COLUMNS, RunRecord

KEYS = ("model", "benchmark", "score")
"""Names that identify a run of a folder."""

KINDS = ("better", "shown", "share")
"""Properties of a measure, beside its columns."""

SPEC_FIELDS = (*KEYS, "rows", "tags", "derived", "measures")
"""Fields of the spec that are needed to read a run; the rest is its provenance."""

OPTIONAL_COLUMNS = ("prior", "logprobs", *RANKING_COLUMNS)
"""Columns of a score table that not every run has."""


def read_measurements(examples: Any, run: dict[str, Any]) -> Measurements:
    """Measurements of one run from its rows of the table of examples."""
    check_entry(run)
    start, stop = run["rows"]
    table = examples.slice(start, stop - start)
    if table.num_rows != stop - start:
        raise KeyError("rows are missing")
    columns: dict[str, Any] = table.to_pydict()
    measures = {name: _read_measure(columns, name, kind) for name, kind in run["measures"].items()}
    derived = {
        name: DerivedMetric(kind["kind"], tuple(kind["sources"]), kind["chance"])
        for name, kind in run["derived"].items()
    }
    clusters = columns["cluster"]
    tags = {
        name: tuple(
            tuple(value) if len(value) != 1 else value[0] for value in columns[f"tag:{name}"]
        )
        for name in run["tags"]
    }
    return Measurements(
        tuple(columns["example"]),
        tags,
        None if None in clusters else np.array(clusters, dtype=np.int64),
        measures,
        derived,
    )


def read_captions(examples: Any, run: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Captions by example; empty where they are not known."""
    if "captions" not in examples.column_names:
        return {}
    start, stop = run["rows"]
    rows = examples.select(["example", "captions"]).slice(start, stop - start).to_pydict()
    return {
        name: tuple(texts)
        for name, texts in zip(rows["example"], rows["captions"], strict=True)
        if texts is not None
    }


def read_rows(table: Any, run: dict[str, Any]) -> dict[str, Any] | None:
    """Columns of one run's rows of a stacked table; None if it has none.

    Columns that only other runs have are left out.
    """
    import pyarrow.compute as pc

    if table is None:
        return None
    for name in KEYS:
        key = run[name]
        here = pc.is_null(table[name]) if key is None else pc.equal(table[name], key)
        table = table.filter(here)
    if not table.num_rows:
        return None
    columns = {name: table[name] for name in table.column_names if name not in KEYS}
    return {
        name: read_column(column)
        for name, column in columns.items()
        if name not in OPTIONAL_COLUMNS or column.null_count < len(column)
    }


def build_spec(run: RunRecord, start: int) -> dict[str, Any]:
    """Spec of a run: the metadata needed to read its measures back, and its provenance."""
    measured = run.measured
    return {
        **{name: getattr(run.results, name) for name in KEYS},
        **run.spec,
        "rows": [start, start + len(measured)],
        "tags": list(measured.tags),
        "derived": {name: asdict(derived) for name, derived in measured.derived.items()},
        "measures": {
            name: {kind: getattr(measure, kind) for kind in KINDS}
            for name, measure in measured.measures.items()
        },
    }


def with_run_names(run: RunRecord, table: dict[str, Any]) -> dict[str, Any]:
    """Add the run's model, benchmark and score as columns to a table."""
    size = len(table["example"])
    names = {name: _constant_column(getattr(run.results, name), size) for name in KEYS}
    arrays = {
        name: values.to_arrow() if isinstance(values, Ragged) else array_column(values)
        for name, values in table.items()
    }
    return {**names, **arrays}


def examples_table(run: RunRecord) -> dict[str, Any]:
    """Columns of the table of examples: id, cluster, captions, tags, and each measure's values."""
    import pyarrow as pa

    measured = run.measured
    size = len(measured)
    clusters = measured.clusters
    table: dict[str, Any] = {
        "example": id_column(measured.ids, run.cases),
        "cluster": pa.nulls(size, pa.int64()) if clusters is None else array_column(clusters),
    }
    if (captions := caption_column(measured.ids, run.cases, run.captions)) is not None:
        table["captions"] = captions
    for name, values in measured.tags.items():
        table[f"tag:{name}"] = _tag_column(values)
    for name, measure in measured.measures.items():
        table[f"value:{name}"] = np.where(measure.where, measure.values, np.nan)
        for part, column in (
            ("tie", measure.ties), ("chance", measure.chance), ("weight", measure.weights)
        ):  # fmt: skip
            if column is not None:
                table[f"{part}:{name}"] = column
    return table


def _constant_column(text: str | None, size: int) -> Any:
    """Arrow column of one text; null where it is None."""
    import pyarrow as pa

    letters = (text or "").encode()
    if text is None:
        return pa.nulls(size, pa.string())
    if len(letters) * size >= 1 << 31:  # more than one array of strings can hold
        return pa.repeat(pa.scalar(text, pa.string()), size)
    texts = TextColumn(letters * size, len(letters) * np.arange(size + 1))
    return texts.to_arrow().cast(pa.string())


def _tag_column(values: Sequence[TagValue]) -> Any:
    """Arrow column of the values of a tag, a list for each unit."""
    import pyarrow as pa

    texts = [value for value in values if isinstance(value, str)]
    if len(texts) != len(values):
        return [list(value) if isinstance(value, tuple) else [value] for value in values]
    starts = array_column(np.arange(len(values) + 1, dtype=np.int32))
    return pa.ListArray.from_arrays(starts, TextColumn.of(texts).to_arrow().cast(pa.string()))


def _read_measure(columns: dict[str, Any], name: str, kind: dict[str, Any]) -> Measure:
    values = np.array(columns[f"value:{name}"], dtype=np.float64)
    where = ~np.isnan(values)
    ties, chance, weights = (
        None if None in (column := columns.get(f"{part}:{name}", [None])) else column
        for part in ("tie", "chance", "weight")
    )
    return Measure(
        values=np.where(where, values, 0.0),
        where=where,
        ties=None if ties is None else np.array(ties, dtype=np.bool_),
        chance=None if chance is None else np.array(chance, dtype=np.float64),
        weights=None if weights is None else np.array(weights, dtype=np.float64),
        **{name: kind[name] for name in KINDS if name in kind},
    )
