"""`compare`: paired comparison of runs with a baseline, on the same examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from contrapose.api.inputs import (
    PathLike,
    Words,
    list_words,
    one_path,
    require_choice,
    require_report_folder,
)
from contrapose.api.runs import Run, Runs
from contrapose.errors import InputError
from contrapose.files import local_path, new_folder, write_text
from contrapose.results.compare import compare_runs, correct_together, score_file_request
from contrapose.results.runs import REPORT, is_run, split_choice
from contrapose.results.schema import BaselineComparisons, Comparison
from contrapose.results.score_files import measure_score_file

if TYPE_CHECKING:
    from contrapose.results.tables import RunRecord

RESULTS = "comparison.json"

RunLike = Run | Runs | PathLike
"""A run, a run folder (`FOLDER@tiny,lm` for one of several), or a score file."""


def compare(
    a: RunLike,
    b: RunLike,
    *,
    on: str | None = None,
    root: PathLike | None = None,
    metric: Words = None,
    test: Literal["midp", "exact"] = "midp",
    level: float = 0.05,
    protocol: Literal["strict", "official"] = "strict",
    threshold: float | None = None,
    partial: bool = False,
    resamples: int = 10_000,
    seed: int = 0,
    out: PathLike | None = None,
    overwrite: bool = False,
) -> Comparison:
    """Compare two runs of the same examples, pair by pair.

    Args:
        a: the baseline: a run, a run folder, or a score file.
        b: the candidate.
        on: the benchmark of score files that do not tell it.
        root: its folder, for clusters by image.
        metric: the metrics to compare; None takes every share of examples.
        test: which of McNemar's tests for outcomes of 0 and 1.
        level: significance level, after Holm's correction.
        protocol: of score files, as in `measure`.
        threshold: of score files, as in `measure`.
        partial: compare on the examples that both have.
        resamples: of the bootstrap.
        seed: of the bootstrap.
        out: a folder for `comparison.json` and `report.html`, with the examples of both runs side
            by side.
        overwrite: let `out` take the place of an earlier comparison.

    Returns:
        For each metric its value in both, the difference B − A with interval, p-value and verdict.

    Raises:
        InputError: they are not of the same benchmark and examples.

    Example:
        >>> import contrapose as cp
        >>> runs = cp.evaluate(["tiny", "tiny-clip"], on="scenes/swap-relation", score="itc",
        ...     limit=20)
        >>> list(cp.compare(*runs, metric="accuracy").metrics)
        ['accuracy']
    """
    target = _require_target(out, overwrite=overwrite)
    protocol = require_choice("protocol", protocol, ("strict", "official"))
    comparison = compare_runs(
        _side(a),
        _side(b),
        benchmark=on,
        root=one_path(root),
        protocol=protocol,
        threshold=threshold,
        partial=partial,
        names=list_words(metric),
        method=require_choice("test", test, ("midp", "exact")),
        level=level,
        resamples=resamples,
        seed=seed,
    )
    if target is not None:
        options = {"protocol": protocol, "threshold": threshold, "partial": partial}
        records = [_load_record(_side(side), on, one_path(root), options) for side in (a, b)]
        _write_page(comparison, [comparison], records, target, overwrite=overwrite)
    return comparison


def compare_all(a: RunLike, *candidates: RunLike, **options: Any) -> BaselineComparisons:
    """Compare several runs with one baseline; p-values are corrected over the tests of all.

    `rank` compares every pair of runs instead.

    Args:
        a: the baseline: a run, a run folder, or a score file.
        candidates: runs of the same examples.
        options: as those of `compare`; the page of `out` has the examples of all runs.

    Raises:
        InputError: they are not of the same benchmark and examples, or there is no candidate.

    Example:
        >>> import contrapose as cp
        >>> runs = cp.evaluate("tiny", on="scenes/swap-relation", limit=20)
        >>> [one.b for one in cp.compare_all(*runs, metric="accuracy").comparisons]
        ['tiny itm', 'tiny lm']
    """
    if not candidates:
        raise InputError("a baseline is compared with one run at least, and there is none.")
    overwrite = bool(options.pop("overwrite", False))
    target = _require_target(options.pop("out", None), overwrite=overwrite)
    result = correct_together([compare(a, candidate, **options) for candidate in candidates])
    if target is not None:
        known = ("protocol", "threshold", "partial")
        named = {name: value for name, value in options.items() if name in known}
        root = one_path(options.get("root"))
        records = [
            _load_record(_side(side), options.get("on"), root, named) for side in (a, *candidates)
        ]
        first, *others = result.comparisons
        values = result if others else first
        _write_page(values, result.comparisons, records, target, overwrite=overwrite)
    return result


def _require_target(out: PathLike | None, *, overwrite: bool) -> Path | None:
    target = one_path(out)
    if target is not None:
        require_report_folder(target, RESULTS, "comparison", overwrite=overwrite)
    return target


def _write_page(
    values: Comparison | BaselineComparisons,
    comparisons: Sequence[Comparison],
    records: Sequence[RunRecord],
    target: Path,
    *,
    overwrite: bool,
) -> None:
    """Write the folder of a comparison: its results, and the page with the examples of all runs."""
    from contrapose.report.html.examples import build_comparison

    names = [comparisons[0].a, *(one.b for one in comparisons)]
    report = build_comparison(values, records, names)
    with new_folder(target, overwrite=overwrite) as folder:
        write_text(folder / RESULTS, values.model_dump_json(indent=2) + "\n")
        report.write(folder / REPORT)


def _load_record(
    side: Path | RunRecord, on: str | None, root: Path | None, options: Mapping[str, Any]
) -> RunRecord:
    """Run of a folder or of a score file, with its scores."""
    if not isinstance(side, Path):
        return side
    if is_run(split_choice(side)[0]):
        from contrapose.report.explorer.server import load_view

        return load_view([side])[0][0]  # there is one: several are refused before
    return measure_score_file(score_file_request(side, on, root, **options))


def _side(run: RunLike) -> Path | RunRecord:
    if isinstance(run, Runs):
        if len(run) != 1:
            raise InputError(f"one run is compared with one, and here are {len(run)}: choose one.")
        run = run[0]
    return run.record if isinstance(run, Run) else local_path(run)


def _render_html(comparison: Comparison) -> str:
    from contrapose.api.display import render_parts
    from contrapose.report.comparison import comparison_table

    return render_parts(comparison_table(comparison))


Comparison.render_html = _render_html


def _render_all(comparisons: BaselineComparisons) -> str:
    from contrapose.api.display import render_parts
    from contrapose.report.comparison import comparisons_tables

    return render_parts(comparisons_tables(comparisons))


BaselineComparisons.render_html = _render_all
