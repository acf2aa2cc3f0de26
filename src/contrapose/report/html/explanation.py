"""A single pair as one HTML file."""

from __future__ import annotations

from contrapose import __version__
from contrapose.data import open_images
from contrapose.diagnose.explain import Explained
from contrapose.report.html.gamecards import GameCard, Shown, game_cards
from contrapose.report.html.markup import element, escaped
from contrapose.report.html.plots.signed import Series, signed_bars
from contrapose.report.html.shell import page, section

NAMES, LOOKS = ("text", "against"), (0, 1)


def render_explanation(explained: Explained) -> str:
    """The page: the picture, the captions, their dividends and Shapley values."""
    found = explained.value
    image = open_images(explained.example.images)[0]
    shown = [
        Shown(name, 0, text, groups, cell, looks)
        for name, text, groups, cell, looks in zip(
            NAMES, explained.example.texts, explained.groups, explained.cells, LOOKS, strict=False
        )
    ]
    card = GameCard(
        title=found.image,
        verdict=_verdict(explained),
        images=[(image, explained.masks)],
        shown=shown,
    )
    main = section(
        "What each pattern adds",
        "A bar is what words or regions add to the score together, beyond what their parts add; "
        "all of the other side is present.",
        game_cards([card]),
    )
    main += section("Shapley values", "Dividends, shared out evenly.", *_shapley(explained))
    lead = f"Hidden: {found.baseline}."
    footer = element("footer", escaped(f"Contrapose {__version__}"))
    return page(f"{found.model} · {found.score}", lead, main, footer)


def _verdict(explained: Explained) -> str:
    scores = [cell.score for cell in explained.cells]
    if len(scores) < 2:
        return f"score {scores[0]:.4g}"
    return f"text less against: {scores[0] - scores[1]:+.4g}".replace("-", "−")


def _shapley(explained: Explained) -> list[str]:
    charts = []
    pairs = explained.value.pairs
    for what in ("words", "regions"):
        each = [pair.word_shapley if what == "words" else pair.region_shapley for pair in pairs]
        series = [
            Series(name, values, looks)
            for name, values, looks in zip(NAMES, each, LOOKS, strict=False)
            if values
        ]
        charts.append(signed_bars(f"Shapley values of {what}", series) if series else "")
    return charts
