"""A run on disk: what was asked, the table of scores, every outcome, the results.

spec.json         what was asked
scores.parquet    example, image, text, score, match (absent for galleries)
outcomes.parquet  a row an example: id, cluster, tags, and each metric's value, tie and chance
results.json      what `contrapose metrics --json` prints
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.errors import InputError
from contrapose.files import new_folder, read_json, require_free, write_text
from contrapose.results.measured import Derived, Measure, Measured
from contrapose.results.pipeline import Run
from contrapose.results.schema import SCHEMA_VERSION
from contrapose.scoring import Answers

KINDS = ("summary", "better", "grouped", "shown")
"""What a measure is, beside its columns."""

SPEC, SCORES, OUTCOMES, RESULTS = "spec.json", "scores.parquet", "outcomes.parquet", "results.json"


def write_run(run: Run, folder: Path, *, overwrite: bool = False) -> None:
    """Write the run folder, whole or not at all.

    Raises:
        InputError: the place is taken, and not by a run that may be overwritten.
    """
    require_run_place(folder, overwrite=overwrite)
    spec = {
        "schema_version": SCHEMA_VERSION,
        "request": asdict(run.request),
        "benchmark": run.request.benchmark,
        "derived": {name: asdict(derived) for name, derived in run.measured.derived.items()},
        "measures": {
            name: {each: getattr(measure, each) for each in KINDS}
            for name, measure in run.measured.measures.items()
        },
    }
    with new_folder(folder, overwrite=overwrite) as place:
        write_text(place / SPEC, json.dumps(spec, indent=2, default=str) + "\n")
        if run.answers is not None:
            _write_table(place / SCORES, _scores_table(run.answers))
        _write_table(place / OUTCOMES, _outcomes_table(run.measured))
        write_text(place / RESULTS, run.results.model_dump_json(indent=2) + "\n")


def require_run_place(folder: Path, *, overwrite: bool = False) -> None:
    """Say so when a run cannot be written here, before it is made.

    Raises:
        InputError: the place is taken, and not by a run that may be overwritten.
    """
    require_free(folder, overwrite=overwrite)
    if folder.is_dir() and any(folder.iterdir()) and not is_run(folder):
        raise InputError("is not a run folder; it will not be overwritten.", file=folder)


def is_run(folder: Path) -> bool:
    """Whether the folder holds a run."""
    return (folder / SPEC).is_file() and (folder / OUTCOMES).is_file()


def read_run(folder: Path) -> tuple[str, Measured]:
    """The benchmark and the outcomes of a run.

    Raises:
        InputError: the run was written by another version, or is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    spec = read_json(folder / SPEC)
    if spec.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"is a run of schema version {spec.get('schema_version')}; this program reads "
            f"{SCHEMA_VERSION}.",
            file=folder,
        )
    try:
        columns: dict[str, Any] = pq.read_table(folder / OUTCOMES).to_pydict()
        measures = {name: _measure(columns, name, kind) for name, kind in spec["measures"].items()}
        derived = {
            name: Derived(kind["kind"], tuple(kind["sources"]), kind["chance"])
            for name, kind in spec["derived"].items()
        }
        clusters = columns["cluster"]
        tags = {
            name.removeprefix("tag:"): tuple(
                tuple(value) if len(value) != 1 else value[0] for value in values
            )
            for name, values in columns.items()
            if name.startswith("tag:")
        }
        measured = Measured(
            tuple(columns["example"]),
            tags,
            None if None in clusters else np.array(clusters, dtype=np.int64),
            measures,
            derived,
        )
    except (KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise InputError(f"is a damaged run folder ({error}).", file=folder) from None
    return str(spec["benchmark"]), measured


def _scores_table(answers: Answers) -> dict[str, Any]:
    example, image, text = np.nonzero(answers.frame.present)
    ids = np.array(answers.frame.ids, dtype=object)
    return {
        "example": ids[example],
        "image": image,
        "text": text,
        "score": answers.scores[example, image, text],
        "match": answers.frame.match[example, image, text],
    }


def _outcomes_table(measured: Measured) -> dict[str, Any]:
    size = len(measured)
    clusters = measured.clusters
    table: dict[str, Any] = {
        "example": list(measured.ids),
        "cluster": [None] * size if clusters is None else clusters,
    }
    for name, values in measured.tags.items():
        table[f"tag:{name}"] = [
            list(value) if isinstance(value, tuple) else [value] for value in values
        ]
    for name, measure in measured.measures.items():
        table[f"value:{name}"] = np.where(measure.where, measure.values, np.nan)
        for part, column in (
            ("tie", measure.ties), ("chance", measure.chance), ("weight", measure.weights)
        ):  # fmt: skip
            if column is not None:
                table[f"{part}:{name}"] = column
    return table


def _measure(columns: dict[str, Any], name: str, kind: dict[str, Any]) -> Measure:
    values = np.array(columns[f"value:{name}"], dtype=np.float64)
    where = ~np.isnan(values)
    ties, chance, weights = (columns.get(f"{part}:{name}") for part in ("tie", "chance", "weight"))
    return Measure(
        values=np.where(where, values, 0.0),
        where=where,
        ties=None if ties is None else np.array(ties, dtype=np.bool_),
        chance=None if chance is None else np.array(chance, dtype=np.float64),
        weights=None if weights is None else np.array(weights, dtype=np.float64),
        **{each: kind[each] for each in KINDS},
    )


def _write_table(path: Path, columns: dict[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path, compression="zstd")
