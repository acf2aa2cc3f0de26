"""Run folders: request, score table, per-example values and results, on disk.

spec.json         what was asked, and a line for each run: model, benchmark, score
scores.parquet    model, benchmark, score, example, image, text, value, match (absent where the
                  scores are the user's own matrix); of lm and blind logprobs, the log-probability
                  of each token; where a prior is taken out, prior
examples.parquet  model, benchmark, score, and a row an example: id, cluster, tags, captions where
                  they are known, and each metric's value, tie and chance
replies.parquet   of chat: model, benchmark, score, example, question, order, prompt, reply, and the
                  option chosen and the right one
results.json      what the command printed with --json
report.html       the same to look at, with failures, equivariance and skipped examples

A folder of `contrapose metrics` holds one run, one of `contrapose eval` one for every model,
benchmark and score.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from contrapose import __version__
from contrapose.engine import ListColumn
from contrapose.errors import InputError
from contrapose.files import new_folder, read_json, require_free, write_text
from contrapose.results.measures import DerivedMetric, Measure, Measurements
from contrapose.results.schema import Evaluation
from contrapose.results.score_files import Run

KEYS = ("model", "benchmark", "score")
"""What tells one run of a folder from the others."""

KINDS = ("summary", "better", "grouped", "shown")
"""What a measure is, beside its columns."""

SPEC, SCORES, EXAMPLES, RESULTS = "spec.json", "scores.parquet", "examples.parquet", "results.json"

REPLIES = "replies.parquet"

REPORT = "report.html"

LAYOUT = 2
"""Version of the folder's layout."""


def write_run(
    runs: Run | Sequence[Run],
    folder: Path,
    *,
    overwrite: bool = False,
    beside: Mapping[str, str] | None = None,
) -> None:
    """Write a run folder atomically.

    Args:
        runs: one run of `contrapose metrics`, or all of one `contrapose eval`.
        folder: where.
        overwrite: let it take the place of an earlier run.
        beside: other files of the folder, by name.

    Raises:
        InputError: the place is taken, and not by a run that may be overwritten.
    """
    require_run_target(folder, overwrite=overwrite)
    each = [runs] if isinstance(runs, Run) else list(runs)
    spec: dict[str, Any] = {
        "layout": LAYOUT,
        "contrapose": __version__,
        "request": asdict(each[0].request),
        "runs": [],
    }
    start = 0
    for run in each:
        spec["runs"].append(_build_spec(run, start))
        start += len(run.measured)
    results = each[0].results if isinstance(runs, Run) else build_evaluation(each)
    with new_folder(folder, overwrite=overwrite) as place:
        write_text(place / SPEC, json.dumps(spec, indent=2, default=str) + "\n")
        scored = [_with_run_names(run, run.scores) for run in each if run.scores is not None]
        if scored:
            _write_tables(place / SCORES, scored)
        _write_tables(
            place / EXAMPLES, [_with_run_names(run, _examples_table(run)) for run in each]
        )
        replies = [_with_run_names(run, run.replies) for run in each if run.replies is not None]
        if replies:
            _write_tables(place / REPLIES, replies)
        write_text(place / RESULTS, results.model_dump_json(indent=2) + "\n")
        for name, content in (beside or {}).items():
            write_text(place / name, content)


def build_evaluation(runs: Sequence[Run]) -> Evaluation:
    """Collect the results of several runs, as `contrapose eval --json` prints them."""
    return Evaluation(contrapose=__version__, runs=tuple(run.results for run in runs))


def require_run_target(folder: Path, *, overwrite: bool = False) -> None:
    """Check, before a run is made, that it can be written to this folder.

    Raises:
        InputError: the place is taken, and not by a run that may be overwritten.
    """
    require_free(folder, overwrite=overwrite)
    if folder.is_dir() and any(folder.iterdir()) and not is_run(folder):
        raise InputError("is not a run folder; it will not be overwritten.", file=folder)


def is_run(folder: Path) -> bool:
    """Whether the folder holds runs."""
    return (folder / SPEC).is_file() and (folder / EXAMPLES).is_file()


def split_choice(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Split a path into run folder and choice: `runs/a@tiny,lm` is the run of tiny and lm."""
    if path.exists() or "@" not in path.name:
        return path, ()
    name, _, words = path.name.rpartition("@")
    return path.with_name(name) if name else path, tuple(filter(None, words.split(",")))


def read_run(folder: Path, choice: Sequence[str] = ()) -> tuple[str, Measurements]:
    """Read the benchmark's name and the measures of a run.

    Args:
        folder: the run folder.
        choice: where it holds several runs: the model, benchmark or score, enough to tell one.

    Raises:
        InputError: the folder was written by another version, is damaged, or holds several runs
            of which none, or more than one, is meant.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    spec = read_json(folder / SPEC)
    layout = spec.get("layout") if isinstance(spec, dict) else None
    if layout != LAYOUT:
        raise InputError(
            f"is a run folder of layout {layout}; this program reads {LAYOUT}.", file=folder
        )
    try:
        run = _choose_run(spec["runs"], choice, folder)
        start, stop = run["rows"]
        table = pq.read_table(folder / EXAMPLES).slice(start, stop - start)
        if table.num_rows != stop - start:
            raise KeyError("rows are missing")
        columns: dict[str, Any] = table.to_pydict()
        measures = {
            name: _read_measure(columns, name, kind) for name, kind in run["measures"].items()
        }
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
        measured = Measurements(
            tuple(columns["example"]),
            tags,
            None if None in clusters else np.array(clusters, dtype=np.int64),
            measures,
            derived,
        )
    except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException, OSError) as error:
        raise InputError(f"is a damaged run folder ({error}).", file=folder) from None
    return str(run["benchmark"]), measured


def _choose_run(runs: list[dict[str, Any]], choice: Sequence[str], folder: Path) -> dict[str, Any]:
    """Choose the one run that matches all the words."""
    names = [tuple(run[each] for each in KEYS) for run in runs]
    fits = [i for i, name in enumerate(names) if all(word in name for word in choice)]
    if len(fits) != 1:
        shown = "; ".join(",".join(filter(None, name)) for name in names)
        which = "several runs" if len(fits) > 1 else f"no run of {','.join(choice)}"
        raise InputError(f"holds {which}; pass {folder}@ and one of: {shown}.", file=folder)
    return runs[fits[0]]


def _build_spec(run: Run, start: int) -> dict[str, Any]:
    """Spec of a run: the metadata needed to read its measures back, and its provenance."""
    measured = run.measured
    return {
        **{name: getattr(run.results, name) for name in KEYS},
        **run.spec,
        "rows": [start, start + len(measured)],
        "tags": list(measured.tags),
        "derived": {name: asdict(derived) for name, derived in measured.derived.items()},
        "measures": {
            name: {each: getattr(measure, each) for each in KINDS}
            for name, measure in measured.measures.items()
        },
    }


def _with_run_names(run: Run, table: dict[str, Any]) -> dict[str, Any]:
    """Add the run's model, benchmark and score as columns to a table."""
    import pyarrow as pa

    size = len(table["example"])
    names = {name: pa.array([getattr(run.results, name)] * size, pa.string()) for name in KEYS}
    lists = {name: each.column() for name, each in table.items() if isinstance(each, ListColumn)}
    return {**names, **table, **lists}


def _examples_table(run: Run) -> dict[str, Any]:
    import pyarrow as pa

    measured = run.measured
    size = len(measured)
    clusters = measured.clusters
    table: dict[str, Any] = {
        "example": list(measured.ids),
        "cluster": pa.array([None] * size if clusters is None else clusters, pa.int64()),
    }
    if run.cases:
        texts = [run.cases[unit].texts if unit in run.cases else None for unit in measured.ids]
        table["captions"] = pa.array(texts, pa.list_(pa.string()))
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
        **{each: kind[each] for each in KINDS},
    )


def _write_tables(path: Path, tables: Sequence[dict[str, Any]]) -> None:
    """Write stacked tables; columns that one of them lacks are null there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stacked = pa.concat_tables(map(pa.table, tables), promote_options="permissive")
    pq.write_table(stacked, path, compression="zstd")
