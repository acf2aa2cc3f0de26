"""Benchmark cards for people."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.data import Card
from contrapose.report.tables import Table
from contrapose.results import aggregation_words


def cards_table(cards: Sequence[Card]) -> Table:
    """One line a benchmark."""
    rows = tuple(
        (
            card.name,
            card.shape,
            f"{sum(card.counts.values()):,}" if card.counts else "–",
            chance_words(card),
            card.title.partition(": ")[2] or card.title,
        )
        for card in cards
    )
    return Table("", ("<benchmark", "<shape", "examples", "<chance %", "<what it asks"), rows)


def card_lines(card: Card) -> list[str]:
    """Everything a card says, a paragraph a field."""
    counts = ", ".join(f"{name} {count:,}" for name, count in card.counts.items())
    lines = [
        card.title,
        f"  paper        {card.paper}",
        f"  licence      {card.licence}",
        f"  files from   {card.source}",
        f"  shape        {card.shape} (images × captions)",
        f"  examples     {counts or 'as many as the files hold'}",
        f"  chance %     {chance_words(card)}",
        f"  headline     {aggregation_words(card.aggregation)}",
    ]
    if card.official:
        lines.append(f"  official     {card.official}")
    if card.tags:
        lines.append("  tags (--by)")
        lines += [f"    {name:<16} {meaning}" for name, meaning in card.tags.items()]
    lines.append("  folder (--root)")
    lines += [f"    {line}" for line in card.layout.split("\n")]
    return lines


def chance_words(card: Card) -> str:
    """Chance levels in words."""
    return ", ".join(f"{name} {100 * value:.1f}" for name, value in card.chance.items()) or "–"
