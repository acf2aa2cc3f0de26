"""Tables, drawings and tiers of the atlas of public scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import contrapose as cp
from contrapose.files import write_text
from contrapose.report.html.plots import Dot, DotRow, dot_plot
from contrapose.report.html.svg import extract_svg
from contrapose.results import MetricValue

RESAMPLES = 2_000
"""Of intervals."""

TEST_RESAMPLES = 10_000
"""Of paired tests, whose smallest p-value is corrected for all pairs."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(value: float) -> str:
    """Share in per cent with two digits."""
    return f"{100 * value:.2f}"


def cell(value: MetricValue) -> str:
    """Value in per cent with its interval."""
    bounds = "–" if value.ci95 is None else "–".join(map(percent, value.ci95))
    return f"{percent(value.value)} ({bounds})"


def list_tiers(runs: Mapping[str, cp.Run], metric: str) -> dict[str, int]:
    """Tier of each model by a metric."""
    ranking = cp.rank(runs, metric=metric, resamples=TEST_RESAMPLES).rankings[0]
    return {model.name: model.tier for model in ranking.models}


def side(value: MetricValue) -> str:
    """Where the interval of a value lies, seen from chance."""
    if value.ci95 is None or value.chance is None:
        return "not comparable with"
    low, high = value.ci95
    return "below" if high < value.chance else "above" if low > value.chance else "not told from"


def draw(
    path: Path | None, title: str, runs: Mapping[str, cp.Run], names: Mapping[str, str]
) -> None:
    """Draw metrics of several runs, a row a metric, where a file is asked for."""
    rows = [
        DotRow(words, {m: to_dot(r.metrics[n]) for m, r in runs.items()}, chance_of(runs, n))
        for n, words in names.items()
    ]
    draw_rows(path, title, rows, list(runs))


def draw_rows(path: Path | None, title: str, rows: Sequence[DotRow], series: Sequence[str]) -> None:
    """Write a dot plot as an SVG file, atomically."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, extract_svg(dot_plot(title, rows, series)) + "\n")


def to_dot(value: MetricValue) -> Dot:
    """Dot of a value; without an interval it has no whiskers."""
    return Dot(value.value, *(value.ci95 or (value.value, value.value)))


def chance_of(runs: Mapping[str, cp.Run], name: str) -> float | None:
    """Chance level of a metric, which is the same in all runs."""
    return next(iter(runs.values())).metrics[name].chance


def points(value: float, other: float) -> str:
    """Difference of two shares in points."""
    return f"{100 * (value - other):.2f}"


def change_of(run: cp.Run, before: str, after: str) -> float:
    """Difference of two metrics of a run in points."""
    return 100 * (run.metrics[after].value - run.metrics[before].value)
