"""How numbers are written for people: shares as percentages, the rest with three decimals."""

from __future__ import annotations

from contrapose.results import MetricValue


def is_share(metric: MetricValue) -> bool:
    """Whether a metric is a share of examples: something can be guessed, or tied."""
    return metric.chance is not None or metric.ties is not None


def written(value: float | None, *, share: bool, signed: bool = False) -> str:
    """A number as text; a dash for none."""
    if value is None:
        return "–"
    sign = "+" if signed else ""
    return f"{100 * value:{sign}.2f}" if share else f"{value:{sign}.3f}"


def interval(bounds: tuple[float, float], *, share: bool, signed: bool = False) -> str:
    """An interval as text."""
    low, high = (written(bound, share=share, signed=signed) for bound in bounds)
    return f"{low} to {high}"


def p_value(p: float) -> str:
    """A p-value as text, never as a bare zero."""
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"
