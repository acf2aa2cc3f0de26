"""How numbers stand in a sentence."""

from __future__ import annotations

from collections.abc import Sequence


def number(value: float) -> str:
    """Three significant digits; very small and very large ones with an exponent."""
    return f"{value:.3g}"


def signed(value: float) -> str:
    """The same with its sign."""
    return f"{value:+.3g}".replace("-", "−")


def interval(bounds: tuple[float, float]) -> str:
    """A 95 % interval."""
    low, high = (signed(bound) for bound in bounds)
    return f"[{low}, {high}]"


def p_value(p: float) -> str:
    """A p-value, never a bare zero."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def in_a_row(parts: Sequence[str]) -> str:
    """A list in words: "a, b and c"."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
