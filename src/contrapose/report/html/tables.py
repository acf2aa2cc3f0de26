"""HTML tables of results."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.report.html.page import element, escape
from contrapose.report.results import ChangeRow, change_rows, overall_row, run_label
from contrapose.report.tables import Table, format_interval, format_value, is_share
from contrapose.results import MetricValue, Results


def render_table(table: Table) -> str:
    """HTML table with the cells of a terminal table; empty if it has no rows."""
    if not table.rows:
        return ""
    columns = table.columns()

    def cells(tag: str, row: tuple[str, ...]) -> list[str]:
        return [
            element(tag, escape(cell), class_="left" if align == "left" else None)
            for cell, (_, align) in zip(row, columns, strict=True)
        ]

    head = element("thead", element("tr", *cells("th", tuple(name for name, _ in columns))))
    body = element("tbody", *(element("tr", *cells("td", row)) for row in table.rows))
    said = (element("p", escape(table.title), class_="note"),) if table.title else ()
    return element("div", *said, element("table", head, body), class_="scroll")


METRIC_COLUMNS = ("value", "95 % interval", "n", "chance", "ties")


def headline_table(runs: Sequence[Results]) -> str:
    """Table of every run's headline metrics: value, interval, n, chance and ties."""
    rows = [
        _table_row((run_label(run), _metric_words(name)), _metric_cells(value))
        for run in runs
        for name, value in run.metrics.items()
    ]
    return _html_table(("model · score", "metric"), METRIC_COLUMNS, rows)


def changes_grid(runs: Sequence[Results]) -> str:
    """Table with one row per change and one column per run."""
    labels = [run_label(run) for run in runs]
    rows = [_change_row(change, labels) for change in change_rows(runs)]
    last = overall_row(runs)
    if last is not None:
        rows.append(_change_row(last, labels, total=True))
    return _html_table(("change",), ("chance", *labels), rows)


def metric_details(runs: Sequence[Results]) -> str:
    """Collapsed table of every metric of every part."""
    rows = [
        _table_row((run_label(run), part, _metric_words(name)), _metric_cells(value))
        for run in runs
        for part, metrics in run.subsets.items()
        for name, value in metrics.items()
    ]
    if not rows:
        return ""
    table = _html_table(("model · score", "change", "metric"), METRIC_COLUMNS, rows)
    return element("details", element("summary", "Every metric of every change"), table)


def _metric_cells(value: MetricValue) -> list[str]:
    share = is_share(value)
    return [
        format_value(value.value, share=share),
        format_interval(value.ci95, share=share),
        f"{value.n:,}",
        format_value(value.chance, share=share),
        format_value(value.ties, share=share),
    ]


def _change_row(change: ChangeRow, labels: Sequence[str], *, total: bool = False) -> str:
    cells = [
        element("td", "–" if change.chance is None else f"{100 * change.chance:.1f}"),
        *(element("td", _share_cell(change.values.get(label))) for label in labels),
    ]
    metric = (" ", element("small", escape(change.metric_words))) if change.metric_words else ()
    name = element("th", escape(change.part), *metric, class_="left", scope="row")
    return element("tr", name, *cells, class_="total" if total else None)


def _share_cell(value: MetricValue | None) -> str:
    if value is None:
        return "–"
    low, high = value.ci95
    return f"{100 * value.value:.1f} " + element("small", f"{100 * low:.1f}–{100 * high:.1f}")


def _table_row(names: Sequence[str], numbers: Sequence[str]) -> str:
    first, *others = names
    return element(
        "tr",
        element("th", escape(first), class_="left", scope="row"),
        *(element("td", escape(name), class_="left") for name in others),
        *(element("td", escape(cell)) for cell in numbers),
    )


def _html_table(names: Sequence[str], numbers: Sequence[str], rows: Sequence[str]) -> str:
    head = [element("th", escape(name), class_="left", scope="col") for name in names]
    head += [element("th", escape(name), scope="col") for name in numbers]
    whole = element("table", element("thead", element("tr", *head)), element("tbody", *rows))
    return element("div", whole, class_="scroll")


def _metric_words(metric: str) -> str:
    return metric.replace("_", " ")
