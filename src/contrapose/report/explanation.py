"""A single pair as tables: signed bars of what each pattern adds to the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contrapose.diagnose.explain import Explanation, PairValue
from contrapose.report.tables import Table

HALF = 12
"""Characters of a bar on either side of the middle."""
MOST = 15
"""Patterns that a table shows: those that add or take away most."""


def explanation_tables(found: Explanation) -> list[Table | str]:
    """What `contrapose explain` prints."""
    parts: list[Table | str] = []
    for side, title in (("words", "words, all of the image present"),
                        ("regions", "regions, all of the caption present")):  # fmt: skip
        values = [pair.words if side == "words" else pair.regions for pair in found.pairs]
        if not any(values):
            continue
        if len(values) == 2 and list(values[0]) == list(values[1]):
            parts.append(_against(f"Dividends of {title}", values[0], values[1]))
        else:
            parts += [
                _alone(f"Dividends of {title} · {pair.text}", each)
                for pair, each in zip(found.pairs, values, strict=True)
            ]
    parts += [_score(found, pair) for pair in found.pairs]
    sources = [f"Words from {found.words}." if found.words else ""]
    sources.append(f"Regions from {found.regions}." if found.regions else "")
    parts.append(" ".join([*filter(None, sources), f"Hidden: {found.baseline}."]))
    return [*parts, *(f"Note: {note.rstrip('.')}." for note in found.notes)]


def bar(value: float, far: float) -> str:
    """A signed bar about a middle line."""
    length = round(HALF * min(abs(value) / far, 1.0)) if far > 0 else 0
    drawn = "█" * length
    left, right = (drawn, "") if value < 0 else ("", drawn)
    return f"{left:>{HALF}}│{right:<{HALF}}"


def _alone(title: str, values: Mapping[str, float]) -> Table:
    kept = _largest([values])
    far = max(abs(values[name]) for name in kept)
    rows = tuple((name, _signed(values[name]), bar(values[name], far)) for name in kept)
    return Table(title, ("<pattern", "dividend", "<−                      +"), rows)


def _against(title: str, one: Mapping[str, float], other: Mapping[str, float]) -> Table:
    kept = _largest([one, other])
    far = max(abs(each[name]) for name in kept for each in (one, other))
    rows = tuple(
        (
            name,
            _signed(one[name]),
            bar(one[name], far),
            _signed(other[name]),
            bar(other[name], far),
            _signed(one[name] - other[name]),
        )
        for name in kept
    )
    header = ("<pattern", "text", "<−                      +", "against",
              "<−                      +", "difference")  # fmt: skip
    return Table(title, header, rows)


def _largest(values: Sequence[Mapping[str, float]]) -> list[str]:
    names = list(values[0])
    size = {name: max(abs(each[name]) for each in values) for name in names}
    kept = set(sorted(names, key=lambda name: -size[name])[:MOST])
    return [name for name in names if name in kept]


def _score(found: Explanation, pair: PairValue) -> str:
    said = f"{found.model} · {found.score} of {pair.text!r}: {pair.score:.4f}"
    said += f", {pair.nobody:.4f} without any player"
    for what, values in (("words", pair.word_shapley), ("regions", pair.region_shapley)):
        if values:
            shares = ", ".join(f"{name} {_signed(value)}" for name, value in values.items())
            said += f"; Shapley values of {what}: {shares}"
    return f"{said}."


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
