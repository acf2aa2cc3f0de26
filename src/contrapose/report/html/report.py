"""HTML report of evaluation runs: one file without scripts, fonts or network access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from contrapose import __version__
from contrapose.data.examples import diagonal_match
from contrapose.evaluation.parts import DEBIASED
from contrapose.evaluation.selection import Selection
from contrapose.files import write_text
from contrapose.metrics import FloatArray, equivariance
from contrapose.report.html.failure_cards import (
    BenchmarkCase,
    Failure,
    render_failures,
    worst_failures,
)
from contrapose.report.html.page import STYLE, element, escape
from contrapose.report.html.plots import Dot, DotRow, alpha_plot, dot_plot, equivariance_plot
from contrapose.report.html.tables import changes_grid, headline_table, metric_details
from contrapose.report.results import change_rows, overall_row, run_label
from contrapose.results import AlphaReport, Results, Run

MAX_CURVES = 4
"""α curves that are drawn: those on which taking the prior out changes most."""


@dataclass(frozen=True, slots=True, eq=False)
class HtmlReport:
    """Contents of an HTML report.

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


def write_report(path: Path, report: HtmlReport) -> None:
    """Write the report atomically."""
    write_text(path, render_report(report))


def render_report(report: HtmlReport) -> str:
    """Render the report as HTML."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", escape(report.title)),
        element("style", STYLE),
    )
    parts = [
        element(
            "header",
            element("h1", escape(report.title)),
            element("p", escape(report.lead), class_="lead") if report.lead else "",
        ),
        element("main", *_report_sections(report)),
        _footer(report.runs),
    ]
    body = element("body", *parts)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _report_sections(report: HtmlReport) -> list[str]:
    """Sections of every benchmark, then those of all runs."""
    benchmarks = list(dict.fromkeys(run.benchmark for run in report.runs))
    found = [
        section
        for benchmark in benchmarks
        for section in _benchmark_sections(
            [run for run in report.runs if run.benchmark == benchmark],
            f" · {benchmark}" if len(benchmarks) > 1 else "",
        )
    ]
    found += [
        _headed_section(
            "Equivariance",
            "",
            equivariance_plot(
                "Does the score answer both captions alike?",
                report.equivariance,
                [run_label(run) for run in report.runs],
            ),
        ),
        _headed_section(
            "The worst failures",
            "Examples on which a wrong caption is furthest ahead of a right one. Captions of a "
            "single picture stand in the order of their scores.",
            render_failures(report.failures),
        ),
    ]
    return [section for section in found if section]


def _benchmark_sections(runs: Sequence[Results], named: str) -> list[str]:
    """Sections of one benchmark, named in the titles where there are several."""
    return [
        _headed_section(
            f"In short{named}",
            "Shares in %. The interval is a 95 % bootstrap over examples; a tie is never a win.",
            headline_table(runs),
        ),
        _headed_section(
            f"By change{named}", "", _accuracy_plot(runs), changes_grid(runs) + metric_details(runs)
        ),
        _headed_section(
            f"The language prior{named}",
            "Some captions are likelier than others before anything is seen. α says how much of "
            "that is taken out of the likelihood. Only the cross-validated number is honest: the "
            "oracle is tuned on the test data.",
            _alpha_plots(runs),
        ),
    ]


def _headed_section(title: str, words: str, *content: str) -> str:
    """Section with a heading; empty if it has no content."""
    if not any(content):
        return ""
    said = (element("p", escape(words)),) if words else ()
    return element("section", element("h2", escape(title)), *said, *content)


def _accuracy_plot(runs: Sequence[Results]) -> str:
    last = overall_row(runs)
    shown = change_rows(runs) or ([last] if last else [])
    rows = [
        DotRow(
            change.part,
            {
                label: Dot(value.value, *value.ci95)
                for label, value in change.values.items()
                if 0 <= value.value <= 1
            },
            change.chance,
            change.metric_words,
        )
        for change in shown
    ]
    return dot_plot("Accuracy by change", rows, [run_label(run) for run in runs])


def _alpha_plots(runs: Sequence[Results]) -> str:
    """α curves of the parts where α matters most, in pairs."""
    curves: list[tuple[float, str, AlphaReport]] = []
    for run in runs:
        own = {"": run.alpha} if run.alpha is not None else {}
        for part, alpha in (own | run.part_alphas).items():
            heights = [value for _, value in alpha.curve]
            title = " · ".join(word for word in (run.model, run.score, part) if word)
            curves.append((max(heights) - min(heights), title or run.benchmark, alpha))
    chosen = sorted(curves, key=lambda curve: -curve[0])[:MAX_CURVES]
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
    listed = element("ul", *(element("li", escape(note)) for note in notes)) if notes else ""
    return element("footer", escape(" · ".join(words)), listed)


def report_from_runs(
    title: str,
    runs: Sequence[Run],
    cases: Mapping[str, BenchmarkCase],
    *,
    lead: str = "",
    each: int = 2,
) -> HtmlReport:
    """Build the HTML report of some runs.

    Args:
        title: above everything.
        runs: of every model and score.
        cases: the examples, for the pictures of failures; see `cases_of`.
        lead: a paragraph below the title.
        each: failures of a run and part.
    """
    return HtmlReport(
        title=title,
        runs=[run.results for run in runs],
        lead=lead,
        equivariance=_text_equivariance(runs, cases),
        failures=worst_failures(runs, cases, each=each),
    )


def selection_cases(selection: Selection) -> dict[str, BenchmarkCase]:
    """Examples of a benchmark, by the ids used in score tables."""
    return {
        f"{part}/{example.id}" if part else example.id: BenchmarkCase(part, example)
        for part, (_, data) in selection.parts.items()
        if isinstance(data, list)
        for example in data
    }


def _text_equivariance(
    runs: Sequence[Run], cases: Mapping[str, BenchmarkCase]
) -> dict[str, FloatArray]:
    """E_text of each run's 2 × 2 examples, in standard deviations of their scores.

    Runs with the prior taken out are passed over: their tables hold the scores before that.
    """
    names = [name for name, case in cases.items() if case.example.match == diagonal_match(2)]
    places = {name: i for i, name in enumerate(names)}
    found: dict[str, FloatArray] = {}
    for run in runs:
        if run.scores is None or run.results.score in DEBIASED:
            continue
        at = np.array([places.get(name, -1) for name in run.scores["example"]], dtype=np.int64)
        rows = np.flatnonzero(at >= 0)
        scores = np.full((len(names), 2, 2), np.nan)
        image, text = (np.asarray(run.scores[each][rows], np.int64) for each in ("image", "text"))
        scores[at[rows], image, text] = run.scores["value"][rows]
        whole = scores[np.isfinite(scores).all(axis=(1, 2))]
        if len(whole):
            found[run_label(run.results)] = equivariance(whole).text
    return found
