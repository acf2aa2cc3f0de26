"""`rank`: models in tiers of significance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from contrapose.api.compare import RunLike
from contrapose.api.inputs import (
    PathLike,
    Words,
    list_words,
    one_path,
    require_at_least,
    require_choice,
)
from contrapose.api.runs import Run
from contrapose.errors import InputError, option
from contrapose.files import local_path, new_folder, require_free, write_text
from contrapose.results.rank import rank_entries
from contrapose.results.rank_runs import read_entries
from contrapose.results.rankings import Ranking

if TYPE_CHECKING:
    from contrapose.results.tables import RunRecord

JSON, PAGE = "ranking.json", "ranking.html"


def rank(
    *runs: RunLike | Iterable[RunLike] | Mapping[str, RunLike | Iterable[RunLike]],
    on: str | None = None,
    root: PathLike | None = None,
    metric: Words = None,
    common: bool = False,
    test: Literal["midp", "exact"] = "midp",
    level: float = 0.05,
    protocol: Literal["strict", "official"] = "strict",
    threshold: float | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    out: PathLike | None = None,
    overwrite: bool = False,
) -> Ranking:
    """Rank models in tiers of significance, and tell which differences are noise.

    Every pair of models is tested as `compare` tests it; Holm's correction counts all tests. On
    several benchmarks there is a ranking for each, and one by the mean of their main metrics.

    Args:
        runs: runs, run folders (all runs in it, or those of `FOLDER@tiny,lm`) or score files; or a
            mapping from names of models to these.
        on: the benchmark of score files that do not tell it.
        root: its folder, for clusters by image.
        metric: the metrics to rank by; None takes the main metric of each benchmark.
        common: rank on the benchmarks and examples that all models have.
        test: which of McNemar's tests for outcomes of 0 and 1.
        level: significance level, after Holm's correction.
        protocol: of score files, as in `measure`.
        threshold: of score files, as in `measure`.
        resamples: of the bootstrap.
        seed: of the bootstrap.
        out: a folder to write: the ranking as JSON, a page, and a diagram of each ranking.
        overwrite: let `out` take the place of an earlier ranking.

    Returns:
        For each benchmark the models with tiers, the groups that do not differ, and all pairs.

    Raises:
        InputError: there are fewer than two models, or they are not of the same benchmarks and
            examples.

    Example:
        >>> import contrapose as cp
        >>> runs = cp.evaluate(["tiny", "tiny-clip"], on="scenes/swap-relation", score="itc",
        ...     limit=20)
        >>> sorted(model.tier for model in cp.rank(runs).rankings[0].models) in ([1, 1], [1, 2])
        True
    """
    require_at_least(100, resamples=resamples)
    require_at_least(0, seed=seed)
    if not 0 < level < 1:
        raise InputError(f"{option('level')} must be between 0 and 1, found {level:g}.")
    target = one_path(out)
    if target is not None:
        _require_target(target, overwrite=overwrite)
    entries = read_entries(
        [(name, record) for run in runs for name, record in _list_runs(run)],
        benchmark=on,
        root=one_path(root),
        protocol=require_choice("protocol", protocol, ("strict", "official")),
        threshold=threshold,
        partial=common,
    )
    ranking = rank_entries(
        entries,
        names=list_words(metric),
        common=common,
        method=require_choice("test", test, ("midp", "exact")),
        level=level,
        resamples=resamples,
        seed=seed,
    )
    if target is not None:
        _write_ranking(ranking, target, overwrite=overwrite)
    return ranking


def _list_runs(
    runs: RunLike | Iterable[RunLike] | Mapping[str, RunLike | Iterable[RunLike]], name: str = ""
) -> Iterator[tuple[str, Path | RunRecord]]:
    """Names that models are given, and their runs one by one."""
    if isinstance(runs, Run):
        yield name, runs.record
    elif isinstance(runs, str | Path):
        yield name, local_path(runs)
    elif isinstance(runs, Mapping):
        for key, some in runs.items():
            yield from _list_runs(some, str(key))
    elif isinstance(runs, Iterable):
        for run in runs:
            yield from _list_runs(run, name)
    else:
        raise InputError(f"a run, a run folder or a score file is ranked, not {type(runs)}.")


def _require_target(folder: Path, *, overwrite: bool) -> None:
    require_free(folder, overwrite=overwrite)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / JSON).is_file():
        raise InputError("is not a ranking; it will not be overwritten.", file=folder)


def _write_ranking(ranking: Ranking, folder: Path, *, overwrite: bool) -> None:
    """Write `ranking.json`, `ranking.html` and a numbered SVG of each ranking."""
    from contrapose.report.html.rankings import ranking_plot, render_ranking
    from contrapose.report.html.svg import extract_svg

    with new_folder(folder, overwrite=overwrite) as target:
        write_text(target / JSON, ranking.model_dump_json(indent=2) + "\n")
        write_text(target / PAGE, render_ranking(ranking))
        for number, one in enumerate(ranking.rankings, 1):
            suffix = f"-{number}" if len(ranking.rankings) > 1 else ""
            write_text(target / f"ranking{suffix}.svg", extract_svg(ranking_plot(one)) + "\n")


def _render_html(ranking: Ranking) -> str:
    from contrapose.api.display import render_parts
    from contrapose.report.html.rankings import ranking_plot
    from contrapose.report.html.svg import extract_svg
    from contrapose.report.ranking import ranking_tables

    plots = "".join(extract_svg(ranking_plot(one)) for one in ranking.rankings)
    return plots + render_parts(ranking_tables(ranking))


Ranking.render_html = _render_html
