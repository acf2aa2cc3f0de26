"""A diagnosis as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose import __version__
from contrapose.data import Example, open_images
from contrapose.diagnose.cells import Games
from contrapose.diagnose.changes import KIND
from contrapose.diagnose.findings import CLAIMS
from contrapose.diagnose.fourteen import FAMILIES, Family
from contrapose.diagnose.measuring import Diagnosed
from contrapose.diagnose.players import Groups, Masks, Missing
from contrapose.diagnose.run import DiagnosisRun
from contrapose.diagnose.schema import DiagnosisReport
from contrapose.diagnose.sensitivity import Diagnosis
from contrapose.diagnose.telling import Telling, telling
from contrapose.metrics import equivariance
from contrapose.report.diagnosis import (
    kinds_table,
    label,
    metrics_table,
    orders_table,
    parts_table,
    signed,
    sources,
    took,
)
from contrapose.report.html.gamecards import RIGHT, WRONG, GameCard, Shown, game_cards
from contrapose.report.html.markup import element, escaped
from contrapose.report.html.plain import plain_table
from contrapose.report.html.plots import Dot, equivariance_plot
from contrapose.report.html.plots.scatter import Panel, Row, scatter_grid
from contrapose.report.html.plots.sensitivities import sensitivity_plot
from contrapose.report.html.shell import page, section

TITLES = {
    "text": "Text side: two captions of an image",
    "image": "Image side: two images of a caption",
    "text to image": "Mutual: words R&O of two captions, with regions",
    "image to text": "Mutual: both objects of two images, with words",
}
SCATTER = (
    "Each point is one comparison: across, by how much right scores above wrong; up, by how much "
    "the pattern's dividend does. Where ρ is near 1 the score changes because this pattern does."
)


def render_diagnosis(run: DiagnosisRun) -> str:
    """The page: findings, metrics, scatter plots, equivariance, and the most telling examples."""
    report = run.report
    main = [
        section("Findings", "", _findings(report)),
        section(
            "Sensitivities",
            "How much the dividend of each pattern changes between right and wrong, in units of "
            "the example's own mean squared dividend. Where things are only swapped, the "
            "interaction (R&O, A&O, O1&O2) should exceed its parts.",
            _sensitivities(report),
            _tables(report),
        ),
        section("What the score goes with", SCATTER, *_scatters(run)),
        section(
            "Where the score lies",
            "Dividends are exact: together with the empty coalition they add up to the score.",
            plain_table(orders_table(report)),
        ),
        section("Equivariance", "", _equivariance(run)),
        section(
            "The most telling examples",
            "Where each model is surest of the wrong one, and where of the right one. Words and "
            "regions that play are marked; a bar is what the pattern adds to the score beyond its "
            "parts, with all of the other side present.",
            *(_examples(run, model) for model in run.models),
        ),
    ]
    names = ", ".join(label(model) for model in report.models)
    lead = f"{report.examples:,} examples of {report.benchmark}. {' '.join(sources(report))}"
    return page(f"What do {names} react to?", lead, "".join(main), _footer(report))


def _findings(report: DiagnosisReport) -> str:
    parts = []
    for model in report.models:
        sentences = [each.sentence for each in model.findings]
        if any(each.tests for each in model.findings):
            items = (element("li", escaped(sentence)) for sentence in sentences)
            parts += [element("h3", escaped(label(model))), element("ul", *items)]
    if len(report.models) > 1:
        items = (element("li", escaped(each.sentence)) for each in report.differences)
        parts += [element("h3", "Between models"), element("ul", *items)]
    return "".join(parts)


def _sensitivities(report: DiagnosisReport) -> str:
    series = [label(model) for model in report.models]
    rows: dict[str, dict[str, Dot]] = {}
    for model in report.models:
        for key, metric in model.metrics.items():
            if metric.value is not None:
                low, high = metric.ci95 or (metric.value, metric.value)
                rows.setdefault(key, {})[label(model)] = Dot(metric.value, low, high)
    breaks = [family.keys[0] for family in FAMILIES]
    return sensitivity_plot("Mean sensitivity to each pattern", rows, series, breaks)


def _tables(report: DiagnosisReport) -> str:
    parts = []
    for model in report.models:
        if not any(metric.n for metric in model.metrics.values()):
            continue
        tables = [metrics_table(report, model)]
        tables += [kinds_table(model)] if model.kinds else []
        tables += [parts_table(report, model)] if len(model.parts) > 1 else []
        parts.append(
            element(
                "details",
                element("summary", f"Every number of {escaped(label(model))}"),
                *map(plain_table, tables),
            )
        )
    return "".join(parts)


def _scatters(run: DiagnosisRun) -> list[str]:
    """A figure for each interaction and its parts, on the examples that are of its kind."""
    order = [model.label for model in run.models]
    asked = {metric for model in run.report.models for metric in model.metrics}
    figures = []
    for claim in CLAIMS:
        if claim.interaction not in asked:
            continue
        kind = KIND[claim.interaction]
        of_kind = [model.by_kind.get(kind) for model in run.models]
        if not any(each and each.metrics[claim.interaction].count for each in of_kind):
            kind, of_kind = "all examples", [model.diagnosis for model in run.models]
        rows = [
            Row(
                label,
                [_panel(each, claim.family, key) for key in (*claim.parts, claim.interaction)],
            )
            for label, each in zip(order, of_kind, strict=True)
            if each is not None
        ]
        figures.append(scatter_grid(f"{TITLES[claim.family.name]} ({kind})", rows, "", order))
    return figures


def _panel(diagnosis: Diagnosis, family: Family, key: str) -> Panel:
    metric, compared = diagnosis.metrics[key], diagnosis.comparisons[family.name]
    place = family.keys.index(key)
    there = compared.there[:, place]
    ends = metric.rho_ci95
    words = f"ρ = {signed(metric.rho)}"
    words += f" ({signed(ends[0])} to {signed(ends[1])}), n = {metric.count:,}" if ends else ""
    x, y = compared.reward_differences[there], compared.dividend_differences[there, place]
    return Panel(key, words, x, y)


def _equivariance(run: DiagnosisRun) -> str:
    series = {}
    for model in run.models:
        blocks = [b.values[..., -1, -1] for b in model.played if _square(b.match)]
        if blocks:
            series[model.label] = equivariance(np.concatenate(blocks)).text
    return equivariance_plot(
        "Does the score answer both captions alike?", series, [model.label for model in run.models]
    )


def _square(match: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> bool:
    return match.shape[1:] == (2, 2) and bool((match == np.eye(2, dtype=np.bool_)).all())


def _examples(run: DiagnosisRun, model: Diagnosed) -> str:
    games = Games(model.played, run.examples)
    cards = [_card(run, games, each) for each in telling(games)]
    if not cards:
        return ""
    return element("h3", escaped(model.label)) + game_cards(cards)


def _card(run: DiagnosisRun, games: Games, each: Telling) -> GameCard:
    example = run.examples[each.id]
    groups, masks = players_of(run, example)
    places = list(dict.fromkeys(image for image, _ in each.cells))
    opened = open_images([example.images[place] for place in places])
    shown = []
    for (image, text), name, looks in zip(
        each.cells, ("right", "wrong"), (RIGHT, WRONG), strict=True
    ):
        cell = games.cell(each.id, image, text)
        if cell is not None:
            place = places.index(image)
            shown.append(Shown(name, place, example.texts[text], groups[text], cell, looks))
    ahead = "right" if each.margin > 0 else "wrong"
    return GameCard(
        title=each.id,
        verdict=f"{ahead} {each.exchanged[:-1]} ahead by {abs(each.margin):.3g}",
        images=[(image, masks[place]) for image, place in zip(opened, places, strict=True)],
        shown=shown,
        sides=("words",) if each.exchanged == "captions" else ("regions",),
    )


def players_of(run: DiagnosisRun, example: Example) -> tuple[Sequence[Groups], Sequence[Masks]]:
    """The players of an example's captions and images; none where they do not play."""
    groups = run.words.find([example])[0] if run.words else Missing("")
    masks = run.regions.find([example])[0] if run.regions else Missing("")
    return (
        [{}] * len(example.texts) if isinstance(groups, Missing) else groups,
        [{}] * len(example.images) if isinstance(masks, Missing) else masks,
    )


def _footer(report: DiagnosisReport) -> str:
    words = (
        f"Contrapose {__version__} · {report.resamples:,} bootstrap resamples, seed {report.seed}"
    )
    notes = [f"{label(model)}: {said}" for model in report.models for said in took(model)]
    notes += [f"{note}." for note in report.notes]
    listed = element("ul", *(element("li", escaped(note)) for note in notes))
    return element("footer", escaped(words), listed)
