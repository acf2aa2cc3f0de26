"""Results in the formats of other documents: Markdown, LaTeX and CSV.

Markdown and LaTeX have the tables of the terminal. CSV has one line per value, unrounded, with the
columns of `Runs.to_frame`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from contrapose.errors import printable
from contrapose.report.tables import SIGNS, Mark, Table
from contrapose.results.schema import AuditReport, Comparison, MetricValue, Results

if TYPE_CHECKING:
    from contrapose.results.rankings import Ranking

TextFormat = Literal["markdown", "latex"]
Row = Mapping[str, Any]

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "–": "--", "−": "$-$", "·": r"$\cdot$",
    "±": r"$\pm$", "→": r"$\to$", "↓": r"$\downarrow$", "×": r"$\times$", "α": r"$\alpha$",
    "λ": r"$\lambda$", "τ": r"$\tau$", "…": r"\dots{}", "▼": r"$\blacktriangledown$",
    "▲": r"$\blacktriangle$",
}  # fmt: skip
"""LaTeX of characters that mean something else there, or that fonts lack."""


def render_text(parts: Iterable[Table | str], form: TextFormat) -> str:
    """Tables and sentences as a Markdown or LaTeX document's part.

    Marked cells are bold where they are best, and have their sign otherwise.
    """
    render = _markdown_table if form == "markdown" else _latex_table
    pieces = []
    for part in parts:
        if isinstance(part, Table):
            pieces.append(render(part))
        elif part:
            pieces.append(_markdown(part) if form == "markdown" else f"% {_one_line(part)}")
    return "\n\n".join(pieces)


def render_csv(rows: Iterable[Row]) -> str:
    """CSV of rows, whose columns are all keys in the order in which they come; no final newline."""
    listed = list(rows)
    columns = list(dict.fromkeys(key for row in listed for key in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return stream.getvalue().rstrip("\n")


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _markdown(text: str) -> str:
    """Text in which nothing is Markdown or HTML."""
    return re.sub(r"([\\`*|<>\[\]])", r"\\\1", _one_line(text))


def _latex(text: str) -> str:
    return "".join(LATEX.get(char, char) for char in _one_line(text))


def _markdown_table(table: Table) -> str:
    columns = table.columns()
    lines = [f"**{_markdown(table.title)}**", ""] if table.title else []
    lines.append(f"| {' | '.join(_markdown(name) for name, _ in columns)} |")
    lines.append(f"|{'|'.join('---' if align == 'left' else '---:' for _, align in columns)}|")
    for number, row in enumerate(table.rows):
        cells = []
        for i, cell in enumerate(row):
            mark, text = table.marks.get((number, i)), _markdown(cell)
            cells.append(f"**{text}**" if _is_bold(mark) else text + _sign(mark))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *_marks_line(table, "\n{}")])


def _latex_table(table: Table) -> str:
    columns = table.columns()
    lines = [r"\begin{table}", r"\centering"]
    lines += [rf"\caption{{{_latex(table.title)}}}"] if table.title else []
    lines.append(rf"\begin{{tabular}}{{{''.join(align[0] for _, align in columns)}}}")
    lines += [r"\toprule", rf"{' & '.join(_latex(name) for name, _ in columns)} \\", r"\midrule"]
    for number, row in enumerate(table.rows):
        cells = []
        for i, cell in enumerate(row):
            mark, text = table.marks.get((number, i)), _latex(cell)
            bold = rf"\textbf{{{text}}}"
            cells.append(bold if _is_bold(mark) else text + _latex(_sign(mark)))
        lines.append(rf"{' & '.join(cells)} \\")
    lines += [r"\bottomrule", r"\end{tabular}", *_marks_line(table, "% {}"), r"\end{table}"]
    return "\n".join(lines)


def _is_bold(mark: Mark | None) -> bool:
    return mark in ("best", "leader")


def _sign(mark: Mark | None) -> str:
    return "" if mark is None else SIGNS[mark]


def _marks_line(table: Table, form: str) -> list[str]:
    """Line that explains bold cells and signs, if there are any."""
    return [form.format(words.replace("* ", "bold: "))] if (words := table.legend()) else []


def table_rows(*tables: Table) -> Iterator[Row]:
    """Rows of tables by column name."""
    for table in tables:
        names = [name for name, _ in table.columns()]
        for row in table.rows:
            yield dict(zip(names, row, strict=True))


def metric_fields(metric: MetricValue | None) -> dict[str, Any]:
    """Value, interval, number of examples, chance and ties of a metric."""
    low, high = (metric.ci95 if metric else None) or (None, None)
    return {
        "value": metric.value if metric else None,
        "low": low,
        "high": high,
        "n": metric.n if metric else None,
        "chance": metric.chance if metric else None,
        "ties": metric.ties if metric else None,
    }


def result_rows(runs: Sequence[Results]) -> Iterator[dict[str, Any]]:
    """Rows of every run, part and metric; runs of score files have a column of these."""
    files = any(run.model is None for run in runs)
    for run in runs:
        names = {"model": run.model, "benchmark": run.benchmark, "score": run.score}
        names |= {"scores": run.scores} if files else {}
        for part, metrics in (("all", run.metrics), *run.subsets.items()):
            for name, metric in metrics.items():
                yield {**names, "part": part, "metric": name, **metric_fields(metric)}


def comparison_rows(comparisons: Sequence[Comparison]) -> Iterator[Row]:
    """Rows of every comparison and metric."""
    for one in comparisons:
        for name, change in one.metrics.items():
            low, high = change.ci95 or (None, None)
            yield {
                "benchmark": one.benchmark,
                "a": one.a,
                "b": one.b,
                "metric": name,
                "value_a": change.a,
                "value_b": change.b,
                "difference": change.difference,
                "low": low,
                "high": high,
                "n": change.n,
                "p": change.p,
                "p_holm": change.p_holm,
                "test": change.test,
                "verdict": change.verdict,
            }


def ranking_rows(ranking: Ranking) -> Iterator[Row]:
    """Rows of every benchmark, metric and model."""
    from contrapose.report.ranking import group_letters

    for one in ranking.rankings:
        letters = group_letters(one)
        for model in one.models:
            low, high = model.ci95 or (None, None)
            yield {
                "benchmark": one.benchmark,
                "metric": one.metric,
                "rank": model.rank,
                "model": model.name,
                "tier": model.tier,
                "groups": letters[model.name],
                "value": model.value,
                "low": low,
                "high": high,
                "n": one.n,
            }


def audit_rows(report: AuditReport) -> Iterator[Row]:
    """Rows of every part, metric and blind score."""
    from contrapose.report.audit import metric_rows

    labels = [score.label for score in report.scores]
    for part, metric, _, _, values in metric_rows(report):
        for label, value in zip(labels, values, strict=True):
            names = {"benchmark": report.benchmark, "part": part, "metric": metric, "score": label}
            yield {**names, **metric_fields(value)}
