"""HTML pages of diagnoses and of single-pair explanations."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.data import Example, open_images
from contrapose.diagnose.explain import ExplanationRun
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
from contrapose.report.html.dividend_plots import (
    BarSeries,
    PlotPanel,
    ScatterRow,
    scatter_grid,
    signed_bars,
)
from contrapose.report.html.game_cards import RIGHT, WRONG, GameCard, PairCard, render_game_cards
from contrapose.report.html.page import (
    element,
    escape,
    render_details,
    render_footer,
    render_list,
    render_page,
    render_section,
    render_table,
)
from contrapose.report.html.plots import Dot, sensitivity_plot
from contrapose.report.html.report import EQUIVARIANCE_INTRODUCTION, render_equivariance
from contrapose.report.tables import format_number

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


def render_diagnosis(run: DiagnosisRun) -> str:
    """Render the page: findings, metrics, scatter plots, equivariance and worst cases."""
    report = run.report
    sections = [
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
        render_section(
            "The most telling examples",
            "Where each model is surest of the wrong one, and where of the right one. Words and "
            "regions that play are marked; a bar is what the pattern adds to the score beyond its "
            "parts, with all of the other side present.",
            *(_worst_case_cards(run, model) for model in run.models),
        ),
    ]
    names = ", ".join(model_label(model) for model in report.models)
    sources = sources_line(report.words, report.regions, report.baseline_words)
    lead = f"{report.examples:,} examples of {report.benchmark}. {sources}"
    verb = "does" if len(report.models) == 1 else "do"
    return render_page(f"What {verb} {names} react to?", lead, sections, _footer(report))


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


PAIR_NAMES, PAIR_COLORS = ("text", "against"), (0, 1)


def render_explanation(run: ExplanationRun) -> str:
    """Render the page: the image, the captions, their dividends and Shapley values."""
    explanation = run.value
    (image,) = open_images(run.example.images)
    pairs = [
        PairCard(name, 0, text, groups, game, color)
        for name, text, groups, game, color in zip(
            PAIR_NAMES, run.example.texts, run.groups, run.games, PAIR_COLORS, strict=False
        )
    ]
    card = GameCard(
        title=explanation.image,
        verdict=_margin_words(run),
        images=[(image, run.masks)],
        pairs=pairs,
    )
    sections = [
        render_section(
            "What each pattern adds",
            "A bar is what words or regions add to the score together, beyond what their parts "
            "add; all of the other side is present.",
            render_game_cards([card]),
        ),
        render_section("Shapley values", "Dividends, shared out evenly.", *_shapley_charts(run)),
    ]
    lead = f"Hidden: {explanation.baseline}."
    title = f"{explanation.model} · {explanation.score}"
    return render_page(title, lead, sections, render_footer(()))


def _margin_words(run: ExplanationRun) -> str:
    scores = [game.score for game in run.games]
    if len(scores) < 2:
        return f"score {scores[0]:.4g}"
    return f"text less against: {format_number(scores[0] - scores[1], '+.4g')}"


def _shapley_charts(run: ExplanationRun) -> list[str]:
    charts = []
    for side in ("words", "regions"):
        shares = [
            pair.word_shapley if side == "words" else pair.region_shapley
            for pair in run.value.pairs
        ]
        series = [
            BarSeries(name, values, color)
            for name, values, color in zip(PAIR_NAMES, shares, PAIR_COLORS, strict=False)
            if values
        ]
        charts.append(signed_bars(f"Shapley values of {side}", series))
    return charts
