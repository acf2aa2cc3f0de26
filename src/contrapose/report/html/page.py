"""The report as one HTML file that needs nothing else: no scripts, no fonts, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contrapose import __version__
from contrapose.files import write_text
from contrapose.metrics import FloatArray
from contrapose.report.changes import changes, overall, run_label
from contrapose.report.html.cards import failure_cards
from contrapose.report.html.failures import Failure
from contrapose.report.html.markup import element, escaped
from contrapose.report.html.plots import Dot, DotRow, alpha_plot, dot_plot, equivariance_plot
from contrapose.report.html.style import STYLE
from contrapose.report.html.tables import changes_grid, every_metric, headline_table
from contrapose.results import AlphaReport, Results

CURVES = 4
"""α curves that are drawn: those on which taking the prior out changes most."""


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """What a report shows.

    Attributes:
        title: above everything.
        runs: the results of every model, benchmark and score.
        lead: a paragraph below the title.
        equivariance: for each run's label e_text of its 2 × 2 examples.
        failures: the worst ones, with their pictures.
    """

    title: str
    runs: Sequence[Results]
    lead: str = ""
    equivariance: Mapping[str, FloatArray] = field(default_factory=dict)
    failures: Sequence[Failure] = ()


def write_report(path: Path, report: Report) -> None:
    """Write the report, whole or not at all."""
    write_text(path, render_report(report))


def render_report(report: Report) -> str:
    """The report as HTML."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", escaped(report.title)),
        element("style", STYLE),
    )
    parts = [
        element(
            "header",
            element("h1", escaped(report.title)),
            element("p", escaped(report.lead), class_="lead") if report.lead else "",
        ),
        element("main", *_sections(report)),
        _footer(report.runs),
    ]
    body = element("body", *parts)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _sections(report: Report) -> list[str]:
    """The sections of every benchmark, then what is of all of them."""
    benchmarks = list(dict.fromkeys(run.benchmark for run in report.runs))
    found = [
        section
        for benchmark in benchmarks
        for section in _measured(
            [run for run in report.runs if run.benchmark == benchmark],
            f" · {benchmark}" if len(benchmarks) > 1 else "",
        )
    ]
    found += [
        _section(
            "Equivariance",
            "",
            equivariance_plot(
                "Does the score answer both captions alike?",
                report.equivariance,
                [run_label(run) for run in report.runs],
            ),
        ),
        _section(
            "The worst failures",
            "Examples on which a wrong caption is furthest ahead of a right one. Captions of a "
            "single picture stand in the order of their scores.",
            failure_cards(report.failures),
        ),
    ]
    return [section for section in found if section]


def _measured(runs: Sequence[Results], named: str) -> list[str]:
    """What was measured on one benchmark, which is named where there are several."""
    return [
        _section(
            f"In short{named}",
            "Shares in %. The interval is a 95 % bootstrap over examples; a tie is never a win.",
            headline_table(runs),
        ),
        _section(f"By change{named}", "", _dots(runs), changes_grid(runs) + every_metric(runs)),
        _section(
            f"The language prior{named}",
            "Some captions are likelier than others before anything is seen. α says how much of "
            "that is taken out of the likelihood. Only the cross-validated number is honest: the "
            "oracle is tuned on the test data.",
            _alphas(runs),
        ),
    ]


def _section(title: str, words: str, *content: str) -> str:
    """A headed section; nothing at all when it would be empty."""
    if not any(content):
        return ""
    said = (element("p", escaped(words)),) if words else ()
    return element("section", element("h2", escaped(title)), *said, *content)


def _dots(runs: Sequence[Results]) -> str:
    last = overall(runs)
    shown = changes(runs) or ([last] if last else [])
    rows = [
        DotRow(
            change.part,
            {
                label: Dot(value.value, *value.ci95)
                for label, value in change.values.items()
                if 0 <= value.value <= 1
            },
            change.chance,
            change.measured_by,
        )
        for change in shown
    ]
    return dot_plot("Accuracy by change", rows, [run_label(run) for run in runs])


def _alphas(runs: Sequence[Results]) -> str:
    """The curves of the parts on which α matters most, two beside each other."""
    curves: list[tuple[float, str, AlphaReport]] = []
    for run in runs:
        own = {"": run.alpha} if run.alpha is not None else {}
        for part, alpha in (own | run.part_alphas).items():
            heights = [value for _, value in alpha.curve]
            title = " · ".join(word for word in (run.model, run.score, part) if word)
            curves.append((max(heights) - min(heights), title or run.benchmark, alpha))
    chosen = sorted(curves, key=lambda curve: -curve[0])[:CURVES]
    if not chosen:
        return ""
    left = len(curves) - len(chosen)
    note = f"The {len(chosen)} curves that change most; {left} more in results.json."
    plots = element("div", *(alpha_plot(title, alpha) for _, title, alpha in chosen), class_="pair")
    return plots + (element("p", note, class_="note") if left else "")


def _footer(runs: Sequence[Results]) -> str:
    notes = dict.fromkeys(f"{run_label(run)}: {note}." for run in runs for note in run.notes)
    words = [f"Contrapose {__version__}"]
    words += [f"{runs[0].resamples:,} bootstrap resamples, seed {runs[0].seed}"] if runs else []
    listed = element("ul", *(element("li", escaped(note)) for note in notes)) if notes else ""
    return element("footer", escaped(" · ".join(words)), listed)
