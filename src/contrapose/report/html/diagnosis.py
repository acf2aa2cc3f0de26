"""HTML page of diagnoses: a verdict card per model, telling examples, and folded statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from contrapose.data import Example, open_images
from contrapose.diagnose.findings import CLAIMS
from contrapose.diagnose.game_blocks import (
    ComparisonCase,
    GameIndex,
    two_by_two_scores,
    worst_cases,
)
from contrapose.diagnose.metrics import FAMILIES, Diagnosis, MetricFamily
from contrapose.diagnose.model_diagnosis import CHANGE_KIND, DiagnosisRun, ModelGames
from contrapose.diagnose.players import MissingPlayers, RegionMasks, WordGroups
from contrapose.diagnose.schema import DiagnosisReport
from contrapose.metrics import equivariance
from contrapose.report.diagnosis import (
    cost_lines,
    format_correlation,
    kinds_table,
    metrics_table,
    model_label,
    orders_table,
    parts_table,
    sources_line,
)
from contrapose.report.explorer.page import ReportFiles
from contrapose.report.html.dividend_plots import PlotPanel, ScatterRow, scatter_grid
from contrapose.report.html.examples import build_examples_page
from contrapose.report.html.game_cards import RIGHT, WRONG, GameCard, PairCard, render_game_cards
from contrapose.report.html.page import (
    element,
    escape,
    render_details,
    render_footer,
    render_list,
    render_section,
    render_table,
)
from contrapose.report.html.plots import Dot, sensitivity_plot
from contrapose.report.html.report import EQUIVARIANCE_INTRODUCTION, render_equivariance
from contrapose.report.verdicts import MARKS, VerdictCard, VerdictRow, judge_model, legend_table
from contrapose.results import RunRecord
from contrapose.results.records import build_record, matrices_table, measure_nothing

FAMILY_TITLES = {
    "text": "Text side: two captions of an image",
    "image": "Image side: two images of a caption",
    "text to image": "Mutual: words R&O of two captions, with regions",
    "image to text": "Mutual: both objects of two images, with words",
}
SCATTER_NOTE = (
    "Each point is one comparison: across, by how much right scores above wrong; up, by how much "
    "the pattern's dividend does. Where ρ is near 1 the score changes because this pattern does. "
    "The line is fitted by least squares, with its 95 % band. Points beyond the frame are drawn at "
    "its edge; their number stands above it."
)


def build_diagnosis_page(run: DiagnosisRun) -> ReportFiles:
    """Build the page: verdict cards, telling examples, all examples, and the statistics below."""
    report = run.report
    statistics = [
        render_table(legend_table(report)),
        render_section("Findings", "", _findings_list(report)),
        render_section(
            "Sensitivities",
            "How much the dividend of each pattern changes between right and wrong, in units of "
            "the example's own mean squared dividend. Where things are only swapped, the "
            "interaction (R&O, A&O, O1&O2) should exceed its parts.",
            _sensitivity_figure(report),
            _model_tables(report),
        ),
        render_section("What the score goes with", SCATTER_NOTE, *_scatter_figures(run)),
        render_section(
            "Where the score lies",
            "Dividends are exact: together with the empty coalition they add up to the score.",
            render_table(orders_table(report)),
        ),
        render_section("Equivariance", EQUIVARIANCE_INTRODUCTION, _equivariance_figures(run)),
    ]
    sections = [
        render_verdicts(report),
        render_section(
            "The most telling examples",
            "Where each model is surest of the wrong one, and where of the right one. Words and "
            "regions that play are marked; a bar is what the pattern adds to the score beyond its "
            "parts, with all of the other side present.",
            *(_worst_case_cards(run, model) for model in run.models),
        ),
        render_details("Statistics: every metric, test and plot", *statistics),
    ]
    names = ", ".join(model_label(model) for model in report.models)
    sources = sources_line(report.words, report.regions, report.baseline_words)
    lead = f"{report.examples:,} examples of {report.benchmark}. {sources}"
    verb = "does" if len(report.models) == 1 else "do"
    title = f"What {verb} {names} react to?"
    records = [_examples_record(run, model) for model in run.models]
    return build_examples_page(title, lead, sections, _footer(report), records, first=2)


def _examples_record(run: DiagnosisRun, model: ModelGames) -> RunRecord:
    """Record of the examples that a model played: their scores with nothing hidden."""
    played = [block for block in model.blocks if block.ids]
    ids = [unit for block in played for unit in block.ids]
    tables = [matrices_table(block.ids, block.values[..., -1, -1], block.match) for block in played]
    skipped = {one.id: one.reason for block in model.blocks for one in block.left_out}
    measured = measure_nothing(ids, run.examples)
    return build_record(
        run.report.benchmark, model.model, model.score, {"": measured}, tables,
        cases=run.examples, spec={"skipped": skipped},
    )  # fmt: skip


def render_verdicts(report: DiagnosisReport) -> str:
    """Render the verdict cards of all models, and the differences between models."""
    cards = [_verdict_card(judge_model(model, report)) for model in report.models]
    differences = [one.sentence for one in report.differences if one.tests]
    return element("div", *cards, class_="verdicts") + render_details(
        "Between models", render_list(differences)
    )


def _verdict_card(card: VerdictCard) -> str:
    header = element("header", element("span", escape(card.label)))
    headline = element("p", escape(card.headline), class_="headline")
    main = _verdict_rows(row for row in card.rows if row.facet.main)
    rest = _verdict_rows(row for row in card.rows if not row.facet.main)
    folded = render_details("Between words and image: weaker evidence", rest) if main else rest
    return element("article", header, headline, main, folded)


def _verdict_rows(rows: Iterable[VerdictRow]) -> str:
    items = []
    for row in rows:
        sign = f"mark {row.answer.replace(' ', '-')}"
        mark = element("span", MARKS[row.answer], class_=sign, title=row.answer)
        question = element("strong", escape(row.facet.question))
        answer = escape(f" {row.answer.capitalize()}. {row.evidence} ")
        settle = element("small", escape(row.settle)) if row.settle else ""
        items.append(element("li", mark, element("div", question, answer, settle)))
    return element("ul", *items) if items else ""


def _findings_list(report: DiagnosisReport) -> str:
    parts = []
    for model in report.models:
        if any(finding.tests for finding in model.findings):
            sentences = (finding.sentence for finding in model.findings)
            parts += [element("h3", escape(model_label(model))), render_list(sentences)]
    if len(report.models) > 1:
        sentences = (difference.sentence for difference in report.differences)
        parts += [element("h3", "Between models"), render_list(sentences)]
    return "".join(parts)


def _sensitivity_figure(report: DiagnosisReport) -> str:
    series = [model_label(model) for model in report.models]
    rows: dict[str, dict[str, Dot]] = {}
    for model in report.models:
        for key, metric in model.metrics.items():
            if metric.value is not None:
                low, high = metric.ci95 or (metric.value, metric.value)
                rows.setdefault(key, {})[model_label(model)] = Dot(metric.value, low, high)
    breaks = [family.keys[0] for family in FAMILIES]
    return sensitivity_plot("Mean sensitivity to each pattern", rows, series, breaks)


def _model_tables(report: DiagnosisReport) -> str:
    parts = []
    for model in report.models:
        if not any(metric.n for metric in model.metrics.values()):
            continue
        tables = [metrics_table(report, model)]
        tables += [kinds_table(model)] if model.kinds else []
        tables += [parts_table(report, model)] if len(model.parts) > 1 else []
        summary = f"Every number of {model_label(model)}"
        parts.append(render_details(summary, *map(render_table, tables)))
    return "".join(parts)


def _scatter_figures(run: DiagnosisRun) -> list[str]:
    """Scatter figure for each interaction and its parts, on examples of its kind of change."""
    order = [model.label for model in run.models]
    measured = {metric for model in run.report.models for metric in model.metrics}
    figures = []
    for claim in CLAIMS:
        if claim.interaction not in measured:
            continue
        kind = CHANGE_KIND[claim.interaction]
        diagnoses = [model.by_kind.get(kind) for model in run.models]
        if not any(one and one.metrics[claim.interaction].n for one in diagnoses):
            kind, diagnoses = "all examples", [model.diagnosis for model in run.models]
        rows = [
            ScatterRow(
                label,
                [
                    _scatter_panel(diagnosis, claim.family, key, run.report.resamples)
                    for key in (*claim.parts, claim.interaction)
                ],
            )
            for label, diagnosis in zip(order, diagnoses, strict=True)
            if diagnosis is not None
        ]
        figures.append(
            scatter_grid(f"{FAMILY_TITLES[claim.family.name]} ({kind})", rows, "", order)
        )
    return figures


def _scatter_panel(
    diagnosis: Diagnosis, family: MetricFamily, key: str, resamples: int
) -> PlotPanel:
    metric, compared = diagnosis.metrics[key], diagnosis.comparisons[family.name]
    column = family.keys.index(key)
    present = compared.present[:, column]
    ends = metric.rho_ci95
    words = f"ρ = {format_correlation(metric.rho)}"
    if ends:
        words += f" ({format_correlation(ends[0])} to {format_correlation(ends[1])})"
    words += f", n = {metric.n:,}"
    x, y = compared.reward_differences[present], compared.dividend_differences[present, column]
    return PlotPanel(key, words, x, y, compared.clusters[present], resamples)


def _equivariance_figures(run: DiagnosisRun) -> str:
    scores = {}
    for model in run.models:
        square = two_by_two_scores(model.blocks)
        if len(square):
            scores[model.label] = equivariance(square)
    return render_equivariance("all", scores, [model.label for model in run.models])


def _worst_case_cards(run: DiagnosisRun, model: ModelGames) -> str:
    games = GameIndex(model.blocks, run.examples)
    cards = [_comparison_card(run, games, case) for case in worst_cases(games)]
    if not cards:
        return ""
    return element("h3", escape(model.label)) + render_game_cards(cards)


def _comparison_card(run: DiagnosisRun, games: GameIndex, case: ComparisonCase) -> GameCard:
    example = run.examples[case.id]
    groups, masks = _example_players(run, example)
    positions = list(dict.fromkeys(image for image, _ in case.cells))
    images = open_images([example.images[i] for i in positions])
    pairs = []
    for (image, text), name, color in zip(
        case.cells, ("right", "wrong"), (RIGHT, WRONG), strict=True
    ):
        game = games.cell(case.id, image, text)
        if game is not None:
            position = positions.index(image)
            pairs.append(PairCard(name, position, example.texts[text], groups[text], game, color))
    ahead = "right" if case.margin > 0 else "wrong"
    return GameCard(
        title=case.id,
        verdict=f"{ahead} {case.exchanged[:-1]} ahead by {abs(case.margin):.3g}",
        images=[(image, masks[i]) for image, i in zip(images, positions, strict=True)],
        pairs=pairs,
        sides=("words",) if case.exchanged == "captions" else ("regions",),
    )


def _example_players(
    run: DiagnosisRun, example: Example
) -> tuple[Sequence[WordGroups], Sequence[RegionMasks]]:
    """Word groups and region masks of an example; empty where a side does not play."""
    groups = run.words.find([example])[0] if run.words else MissingPlayers("")
    masks = run.regions.find([example])[0] if run.regions else MissingPlayers("")
    return (
        [{}] * len(example.texts) if isinstance(groups, MissingPlayers) else groups,
        [{}] * len(example.images) if isinstance(masks, MissingPlayers) else masks,
    )


def _footer(report: DiagnosisReport) -> str:
    notes = [
        f"{model_label(model)}: {line}" for model in report.models for line in cost_lines(model)
    ]
    notes += [f"{note}." for note in report.notes]
    return render_footer(notes, resamples=report.resamples, seed=report.seed)
