"""The report's tables."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.report.changes import Change, changes, overall, run_label
from contrapose.report.html.markup import element, escaped
from contrapose.report.numbers import interval, is_share, written
from contrapose.results import MetricValue, Results

COLUMNS = ("value", "95 % interval", "n", "chance", "ties")


def headline_table(runs: Sequence[Results]) -> str:
    """Every run's headline: value, interval, number, chance and ties."""
    rows = [
        _row((run_label(run), _words(name)), _numbers(value))
        for run in runs
        for name, value in run.metrics.items()
    ]
    return _table(("model · score", "metric"), COLUMNS, rows)


def changes_grid(runs: Sequence[Results]) -> str:
    """A row a change, a column a run."""
    labels = [run_label(run) for run in runs]
    rows = [_change(change, labels) for change in changes(runs)]
    last = overall(runs)
    if last is not None:
        rows.append(_change(last, labels, total=True))
    return _table(("change",), ("chance", *labels), rows)


def every_metric(runs: Sequence[Results]) -> str:
    """Everything that was measured, under a fold."""
    rows = [
        _row((run_label(run), part, _words(name)), _numbers(value))
        for run in runs
        for part, metrics in run.subsets.items()
        for name, value in metrics.items()
    ]
    if not rows:
        return ""
    table = _table(("model · score", "change", "metric"), COLUMNS, rows)
    return element("details", element("summary", "Every metric of every change"), table)


def _numbers(value: MetricValue) -> list[str]:
    share = is_share(value)
    return [
        written(value.value, share=share),
        interval(value.ci95, share=share),
        f"{value.n:,}",
        written(value.chance, share=share),
        written(value.ties, share=share),
    ]


def _change(change: Change, labels: Sequence[str], *, total: bool = False) -> str:
    cells = [
        element("td", "–" if change.chance is None else f"{100 * change.chance:.1f}"),
        *(element("td", _value(change.values.get(label))) for label in labels),
    ]
    metric = (" ", element("small", escaped(change.measured_by))) if change.measured_by else ()
    name = element("th", escaped(change.part), *metric, class_="left", scope="row")
    return element("tr", name, *cells, class_="total" if total else None)


def _value(value: MetricValue | None) -> str:
    if value is None:
        return "–"
    low, high = value.ci95
    return f"{100 * value.value:.1f} " + element("small", f"{100 * low:.1f}–{100 * high:.1f}")


def _row(names: Sequence[str], numbers: Sequence[str]) -> str:
    first, *others = names
    return element(
        "tr",
        element("th", escaped(first), class_="left", scope="row"),
        *(element("td", escaped(name), class_="left") for name in others),
        *(element("td", escaped(cell)) for cell in numbers),
    )


def _table(names: Sequence[str], numbers: Sequence[str], rows: Sequence[str]) -> str:
    head = [element("th", escaped(name), class_="left", scope="col") for name in names]
    head += [element("th", escaped(name), scope="col") for name in numbers]
    whole = element("table", element("thead", element("tr", *head)), element("tbody", *rows))
    return element("div", whole, class_="scroll")


def _words(metric: str) -> str:
    return metric.replace("_", " ")
