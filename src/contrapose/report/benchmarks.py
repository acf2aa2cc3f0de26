"""Benchmark cards for people."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.data import Benchmark, Card, Suite
from contrapose.report.tables import Table
from contrapose.results import aggregation_words


def cards_table(found: Sequence[Benchmark | Suite]) -> Table:
    """One line a benchmark or suite."""
    rows = tuple(_row(each) for each in found)
    return Table("", ("<benchmark", "<shape", "examples", "<chance %", "<what it asks"), rows)


def _row(found: Benchmark | Suite) -> tuple[str, ...]:
    if isinstance(found, Suite):
        total = sum(sum(part.card.counts.values()) for part in found.parts.values())
        shape, chance, name, title = f"{len(found.parts)} parts", "–", found.name, found.title
    else:
        card = found.card
        total = sum(card.counts.values())
        shape, chance, name, title = card.shape, chance_words(card), card.name, card.title
    return name, shape, f"{total:,}" if total else "–", chance, title.partition(": ")[2] or title


def suite_lines(suite: Suite) -> list[str]:
    """What a suite is, a line a part."""
    width = max(map(len, suite.parts))
    cards = [part.card for part in suite.parts.values()]
    return [
        suite.title,
        f"  paper        {'; '.join(dict.fromkeys(card.paper for card in cards))}",
        f"  licence      {'; '.join(dict.fromkeys(card.licence for card in cards))}",
        f"  parts (--subset, or --on {suite.name}/PART)",
        *(
            f"    {name:<{width}}  {part.card.shape}, chance % {chance_words(part.card)}: "
            f"{part.card.title}"
            for name, part in suite.parts.items()
        ),
    ]


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
