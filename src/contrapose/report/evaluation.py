"""Several models and scores side by side: a row a metric of a part, a column a model and score."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.report.alphas import alphas_table
from contrapose.report.numbers import interval, is_share, written
from contrapose.report.tables import Table
from contrapose.results import MetricValue, Results


def evaluation_tables(runs: Sequence[Results]) -> list[Table | str]:
    """What `contrapose eval` prints: a table a benchmark, its priors, then what should be known."""
    tables: list[Table | str] = []
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        some = [run for run in runs if run.benchmark == benchmark]
        tables.append(_table(some))
        if any(run.alpha or run.part_alphas for run in some):
            tables.append(alphas_table(some))
    notes = dict.fromkeys(
        f"Note on {run.benchmark} ({run.model} {run.score}): {note}."
        for run in runs
        for note in run.notes
    )
    return [*tables, *notes]


def _table(runs: Sequence[Results]) -> Table:
    """The headline first, then every part, all with intervals; shares as percentages."""
    cells: dict[tuple[str, str], dict[int, MetricValue]] = {}
    for i, run in enumerate(runs):
        for part, metrics in (("all", run.metrics), *_parts(run)):
            for name, value in metrics.items():
                if is_share(value) or value.chance is not None or _alone(metrics):
                    cells.setdefault((part, name), {})[i] = value
    rows = []
    for (part, name), values in sorted(cells.items(), key=lambda item: _order(item[0], runs)):
        one = next(iter(values.values()))
        rows.append(
            (
                part,
                name,
                f"{max(value.n for value in values.values()):,}",
                written(one.chance, share=True),
                *(_cell(values.get(i)) for i in range(len(runs))),
            )
        )
    title = f"{runs[0].benchmark} · {runs[0].aggregation} · % with 95 % interval · ties never win"
    names = tuple(f"{run.model} {run.score}" for run in runs)
    return Table(title, ("<part", "<metric", "n", "chance", *names), tuple(rows))


def _parts(run: Results) -> list[tuple[str, dict[str, MetricValue]]]:
    """The parts of a run; parts of a suite's parts are for --json, they would fill the screen."""
    return [
        (name, metrics)
        for name, metrics in run.subsets.items()
        if name.partition("/")[0] == name or name.partition("/")[0] not in run.subsets
    ]


def _alone(metrics: dict[str, MetricValue]) -> bool:
    """Whether none of the metrics is a share that can be guessed, so that all are shown."""
    return not any(is_share(value) for value in metrics.values())


def _order(key: tuple[str, str], runs: Sequence[Results]) -> int:
    """The place of a part in the first run that has it; the headline comes first."""
    if key[0] == "all":
        return -1
    for run in runs:
        if key[0] in run.subsets:
            return list(run.subsets).index(key[0])
    return len(runs)


def _cell(value: MetricValue | None) -> str:
    if value is None:
        return "–"
    low_high = interval(value.ci95, share=True).replace(" to ", "–")
    return f"{written(value.value, share=True)} ({low_high})"
