"""HTML report of runs: tables and plots, and an explorer of every example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrapose.engine import Progress
from contrapose.metrics import Equivariance
from contrapose.report.alpha import run_alphas
from contrapose.report.explorer.columns import distinguish_runs
from contrapose.report.explorer.page import ExplorerData, ReportFiles, build_explorer
from contrapose.report.explorer.table import ExampleTable
from contrapose.report.html.page import (
    element,
    read_asset,
    render_details,
    render_footer,
    render_list,
    render_origins,
    render_page,
    render_section,
    render_table,
)
from contrapose.report.html.plots import Dot, DotRow, alpha_plot, dot_plot, equivariance_plot
from contrapose.report.html.scale_plots import ScaleCurves, run_curves, scale_plot, scale_table
from contrapose.report.results import (
    PartRow,
    headline_table,
    largest_parts,
    overall_row,
    part_metrics_table,
    part_rows,
    parts_table,
    run_label,
    skipped_table,
)
from contrapose.report.run_examples import ExampleScores, is_debiased
from contrapose.results import AlphaReport, Results, RunRecord
from contrapose.results.environment import describe_origin

MAX_CURVES = 4
"""α curves that are drawn: those on which taking the prior out changes most."""
MAX_EQUIVARIANCE = 12
"""Parts whose equivariance is drawn: those with most examples."""
OPEN_EQUIVARIANCE = 2
"""Parts whose equivariance is not collapsed."""
MAX_SKIPPED = 50
"""Skipped examples of a run that are named."""

EQUIVARIANCE_INTRODUCTION = (
    "S is the score of image and caption in an example of two images and two captions. e compares "
    "what an exchange costs on either side: the narrower about 0, the more equivariant the score. "
    "e is in standard deviations of the model's scores within the part that is drawn."
)
E_TEXT = "e = (S₀₀ − S₀₁) − (S₁₁ − S₁₀): does exchanging the captions cost both images alike?"
E_IMAGE = "e = (S₀₀ − S₁₀) − (S₁₁ − S₀₁): does exchanging the images cost both captions alike?"

EqByPart = Mapping[str, Mapping[str, Equivariance]]
"""Equivariance scores by part and the run's label."""


def write_report(
    runs: RunRecord | Sequence[RunRecord], path: Path, *, title: str = "", lead: str = ""
) -> None:
    """Write the report of some runs to a file, atomically; see `build_report`."""
    build_report(runs, title=title, lead=lead).write(path)


def render_runs(runs: RunRecord | Sequence[RunRecord], *, title: str = "", lead: str = "") -> str:
    """Render the report of some runs as one file; see `build_report`."""
    return build_report(runs, title=title, lead=lead, beside=False).page


def build_report(
    runs: RunRecord | Sequence[RunRecord],
    *,
    title: str = "",
    lead: str = "",
    first: Sequence[str] = (),
    folder: str = "",
    start: Mapping[str, Any] | None = None,
    beside: bool = True,
    progress: Progress | None = None,
) -> ReportFiles:
    """Build the report of some runs: every section for which the runs have the data.

    Images and captions come from the runs' `cases` and are left out where there are none or an
    image cannot be opened. Equivariance needs 2 × 2 examples.

    Args:
        runs: one or several, of any models, benchmarks and scores.
        title: heading of the page; empty names models or score files, and benchmarks.
        lead: paragraph below the heading.
        first: sections before all others, as markup.
        folder: the run folder that the report lies in; empty for none.
        start: first query of the explorer, as `ExampleQuery` has it.
        beside: whether thumbnails may be files beside the page.
        progress: called with a description, the number of thumbnails, and their total.
    """
    listed = distinguish_runs([runs] if isinstance(runs, RunRecord) else list(runs))
    table = ExampleTable(listed, [folder] * len(listed))
    explorer = build_explorer(table, beside=beside, start=start, progress=progress)
    scored = [run.scored for run in table.runs]
    page = render_records(listed, explorer, scored=scored, title=title, lead=lead, first=first)
    return ReportFiles(page, explorer.images)


def render_records(
    runs: Sequence[RunRecord],
    explorer: ExplorerData | None,
    *,
    scored: Sequence[ExampleScores | None],
    title: str = "",
    lead: str = "",
    first: Sequence[str] = (),
) -> str:
    """Render the page of some runs around an explorer; see `build_report`."""
    return render_results(
        [run.results for run in runs],
        title=title,
        lead=lead,
        first=first,
        equivariance=_equivariance_by_part(runs, scored),
        explorer=explorer,
        skipped={run_label(run.results): run.spec.get("skipped", {}) for run in runs},
        scales=run_curves(runs),
        origins=[describe_origin(run) for run in runs],
    )


def render_results(
    results: Sequence[Results],
    *,
    title: str = "",
    lead: str = "",
    first: Sequence[str] = (),
    equivariance: EqByPart | None = None,
    explorer: ExplorerData | None = None,
    skipped: Mapping[str, Mapping[str, str]] | None = None,
    scales: ScaleCurves | None = None,
    origins: Sequence[Mapping[str, str]] = (),
) -> str:
    """Render the report of results, with the sections that need more than results.

    Args:
        results: of every model, benchmark and score.
        title: heading of the page; empty names models or score files, and benchmarks.
        lead: paragraph below the heading.
        first: sections before all others, as markup.
        equivariance: by part and run.
        explorer: the examples.
        skipped: for each run the skipped examples and why.
        scales: curves of edit queries by λ.
        origins: how each run was made, in words by name.
    """
    benchmarks = list(dict.fromkeys(one.benchmark for one in results))
    sections = list(first)
    for benchmark in benchmarks:
        named = f" · {benchmark}" if len(benchmarks) > 1 else ""
        sections += _benchmark_sections(
            [one for one in results if one.benchmark == benchmark], named
        )
    has_rows = explorer is not None and bool(explorer.values["total"])
    sections += [
        read_asset("explorer.html") if has_rows else "",
        _scales_section(scales or {}),
        _equivariance_section(equivariance or {}, [run_label(one) for one in results]),
        _skipped_section(results, skipped or {}),
        render_origins([run_label(one) for one in results], origins),
    ]
    notes = dict.fromkeys(f"{run_label(one)}: {note}." for one in results for note in one.notes)
    one = results[0] if results else None
    footer = render_footer(
        notes, resamples=one.resamples if one else None, seed=one.seed if one else 0
    )
    data = explorer.values if explorer is not None and has_rows else None
    return render_page(
        title or _default_title(results), lead, sections, footer, with_script=True, data=data
    )


def _scales_section(curves: ScaleCurves) -> str:
    """Section of the edit queries by λ; empty where λ was not chosen on dev."""
    if not curves:
        return ""
    return render_section(
        "Scale of the delta vectors",
        "Share of the dev queries of which the first image is right, by the factor λ of the "
        "change. The metrics above take the best λ and are of the test queries.",
        scale_plot("simat_n1 by λ", curves, "simat_n1 of dev"),
        render_table(scale_table("", curves)),
    )


def _default_title(results: Sequence[Results]) -> str:
    models = dict.fromkeys(one.model or run_label(one) for one in results)
    benchmarks = dict.fromkeys(one.benchmark for one in results)
    return f"{', '.join(models)} on {', '.join(benchmarks)}"


def _benchmark_sections(results: Sequence[Results], named: str) -> list[str]:
    """Sections of one benchmark, whose name is in the titles where there are several."""
    introduction = (
        "Shares in %. Intervals are 95 %, over examples; a tie is never a win."
        if all(one.protocol == "strict" for one in results)
        else "Shares in %. Intervals are 95 %, over examples; ties count as in the "
        "benchmark's official script."
    )
    return [
        render_section(
            f"In short{named}",
            introduction,
            render_table(headline_table(results)),
            _overall_dots(results),
        ),
        render_section(f"By part{named}", "", *_part_content(results)),
        render_section(
            f"The language prior{named}",
            "Some captions are likelier than others before an image is seen. α says how much of "
            "that is taken out of the likelihood. Only the cross-validated number is honest: the "
            "oracle is tuned on the test data.",
            _alpha_plots(results),
        ),
    ]


def accuracy_plot(results: Sequence[Results]) -> str:
    """Dot plot of the main metric of the largest parts, or of the whole where there are none."""
    rows = part_rows(results)
    return _dots("Right by part", largest_parts(rows), results) if rows else _overall_dots(results)


def _overall_dots(results: Sequence[Results]) -> str:
    """Dot plot of the headline metric, where no parts are drawn."""
    row = overall_row(results)
    return "" if row is None or part_rows(results) else _dots("Right", [row], results)


def _part_content(results: Sequence[Results]) -> list[str]:
    """Dot plot and table of the main metric, the largest of many parts; then every metric."""
    rows = part_rows(results)
    if not rows:
        return []
    largest = largest_parts(rows)
    table = parts_table(results)
    left = len(rows) - len(largest)
    note = f"The {len(largest)} largest parts; {left:,} more below." if left else ""
    return [
        _dots("Right by part", largest, results),
        render_table(replace(table, title="", header=("<part", *table.header[1:]))),
        element("p", note, class_="note") if note else "",
        render_details("Every metric of every part", render_table(part_metrics_table(results))),
    ]


def _dots(title: str, rows: Sequence[PartRow], results: Sequence[Results]) -> str:
    drawn = [
        DotRow(
            row.part,
            {
                label: Dot(value.value, *(value.ci95 or (value.value, value.value)))
                for label, value in row.values.items()
                if 0 <= value.value <= 1
            },
            row.chance,
            row.metric_words,
        )
        for row in rows
    ]
    return dot_plot(title, drawn, [run_label(one) for one in results])


def _alpha_plots(results: Sequence[Results]) -> str:
    """α curves of the parts where α matters most, in pairs."""
    curves: list[tuple[float, str, AlphaReport]] = []
    for one in results:
        for part, alpha in run_alphas(one).items():
            heights = [value for _, value in alpha.curve]
            title = run_label(one) if part == "all" else f"{run_label(one)} · {part}"
            curves.append((max(heights) - min(heights), title, alpha))
    chosen = sorted(curves, key=lambda curve: -curve[0])[:MAX_CURVES]
    if not chosen:
        return ""
    left = len(curves) - len(chosen)
    note = f"The {len(chosen)} curves that change most; {left} more in results.json."
    plots = element("div", *(alpha_plot(title, alpha) for _, title, alpha in chosen), class_="pair")
    return plots + (element("p", note, class_="note") if left else "")


def _equivariance_by_part(
    runs: Sequence[RunRecord], scored: Sequence[ExampleScores | None]
) -> dict[str, dict[str, Equivariance]]:
    """Equivariance scores of the 2 × 2 examples by part and run.

    Runs with the prior taken out are left out: their tables hold the scores before that.
    """
    several = len({run.results.benchmark for run in runs}) > 1
    parts: dict[str, dict[str, Equivariance]] = {}
    for run, examples in zip(runs, scored, strict=True):
        if examples is None or is_debiased(run.results):
            continue
        for part, scores in examples.equivariance().items():
            name = f"{run.results.benchmark} · {part}" if several else part
            parts.setdefault(name, {})[run_label(run.results)] = scores
    return parts


def _equivariance_section(parts: EqByPart, order: Sequence[str]) -> str:
    sizes = {
        part: max(len(scores.text) for scores in by_run.values()) for part, by_run in parts.items()
    }
    largest = sorted(parts, key=lambda part: -sizes[part])[:MAX_EQUIVARIANCE]
    drawn = [
        render_equivariance(part, parts[part], order)
        for part in parts
        if part in largest and sizes[part] > 1
    ]
    left = len(parts) - len(drawn)
    return render_section(
        "Equivariance",
        EQUIVARIANCE_INTRODUCTION,
        *drawn[:OPEN_EQUIVARIANCE],
        render_details("More parts", *drawn[OPEN_EQUIVARIANCE:]),
        element("p", f"{left} smaller parts are not drawn.", class_="note")
        if drawn and left
        else "",
    )


def render_equivariance(part: str, scores: Mapping[str, Equivariance], order: Sequence[str]) -> str:
    """Render the densities of e_text and e_image side by side; empty without examples.

    Args:
        part: of the benchmark.
        scores: equivariance scores by series.
        order: the series of the report, so that each has one color everywhere.
    """
    sides = (
        ("text", {label: both.text for label, both in scores.items()}, E_TEXT),
        ("image", {label: both.image for label, both in scores.items()}, E_IMAGE),
    )
    plots = [
        equivariance_plot(f"{part} · {side} side", series, order, note)
        for side, series, note in sides
    ]
    return element("div", *plots, class_="pair") if any(plots) else ""


def _skipped_section(results: Sequence[Results], skipped: Mapping[str, Mapping[str, str]]) -> str:
    """Table of skipped examples by reason, and the first of them by name."""
    lists = []
    for one in results:
        units = list(skipped.get(run_label(one), {}).items())
        lines = [f"{unit}: {why}" for unit, why in units[:MAX_SKIPPED]]
        left = len(units) - len(lines)
        lines += [f"{left:,} more in spec.json"] if left else []
        lists.append(render_details(f"Skipped by {run_label(one)}", render_list(lines)))
    return render_section(
        "Skipped examples",
        "They could not be scored and count in no metric.",
        render_table(skipped_table(results)),
        *lists,
    )
