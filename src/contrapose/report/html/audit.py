"""HTML page of an audit."""

from __future__ import annotations

from contrapose import __version__
from contrapose.report.audit import accuracy_table, likelihood_table, metric_rows
from contrapose.report.html.page import element, escape, render_page, render_section
from contrapose.report.html.plots import Dot, DotRow, dot_plot
from contrapose.report.html.plots.curves import histogram_plot
from contrapose.report.tables import Table
from contrapose.results.schema import AuditReport, BlindResult

AXES = {"length": "words, negative", "blind-sum": "log P of the caption"}
"""What a histogram's axis is, where it is not log P of a token."""


def render_audit(report: AuditReport) -> str:
    """Render the page: verdict, accuracies, histograms, and the likelihoods beside them."""
    verdict = "".join(element("p", escape(sentence)) for sentence in report.verdict)
    meanings = element(
        "ul",
        *(element("li", escape(f"{score.label}: {score.meaning}.")) for score in report.scores),
    )
    main = [
        render_section("Verdict", "", verdict),
        render_section(
            "Right without looking",
            "Every score here sees the captions alone. An interval above chance means that the "
            "part measures its captions as much as a model.",
            _accuracy_dots(report),
            _table_with_note(accuracy_table(report)) if report.scores else "",
            meanings if report.scores else "",
        ),
        render_section(
            "Right and wrong captions",
            "Where the two outlines lie apart, what is right can be told by reading alone.",
            element("div", *map(_score_histogram, report.scores), class_="pair")
            if report.scores else "",
        ),
        render_section(
            "A likelihood beside them",
            "Where a captioner's likelihood is above chance and no better than the best score "
            "that never looks, or only follows it, it wins by its prior alone. Doing better is no "
            "proof of looking: its own prior may know more than the scores here.",
            _table_with_note(likelihood_table(report)) if report.likelihoods else "",
        ),
    ]  # fmt: skip
    title = f"Can {report.benchmark} be solved without looking?"
    lead = f"{report.examples:,} examples; {report.aggregation}; no image was opened."
    return render_page(title, lead, "".join(main), _footer(report))


def _accuracy_dots(report: AuditReport) -> str:
    labels = [score.label for score in report.scores]
    rows = [
        DotRow(
            name,
            {
                label: Dot(value.value, *value.ci95)
                for label, value in zip(labels, values, strict=True)
                if value is not None
            },
            chance,
            "" if metric in ("accuracy", "average") else metric.replace("_", " "),
        )
        for name, metric, chance, _, values in metric_rows(report)
    ]
    return dot_plot("Right without looking", rows, labels)


def _score_histogram(score: BlindResult) -> str:
    label = AXES.get(score.score, "log P of a word or token, mean")
    spread = score.spread
    return histogram_plot(score.label, spread.edges, spread.right, spread.wrong, label)


def _table_with_note(table: Table) -> str:
    columns = table.columns()

    def cells(tag: str, row: tuple[str, ...]) -> list[str]:
        return [
            element(tag, escape(cell), class_="left" if align == "left" else None)
            for cell, (_, align) in zip(row, columns, strict=True)
        ]

    head = element("thead", element("tr", *cells("th", tuple(name for name, _ in columns))))
    body = element("tbody", *(element("tr", *cells("td", row)) for row in table.rows))
    said = element("p", escape(table.title), class_="note")
    return element("div", element("table", head, body), class_="scroll") + said


def _footer(report: AuditReport) -> str:
    words = (
        f"Contrapose {__version__} · {report.resamples:,} bootstrap resamples, seed {report.seed}"
    )
    notes = element("ul", *(element("li", escape(f"{note}.")) for note in report.notes))
    return element("footer", escape(words), notes if report.notes else "")
