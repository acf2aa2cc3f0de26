"""Early stopping: evaluate checkpoints, keep the best, stop when a guarded metric drops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from contrapose.errors import InputError
from contrapose.files.suggest import did_you_mean
from contrapose.tune.report.measurement import Line


class MetricSource(Protocol):
    """Source of a model's metrics, as `Measurer`."""

    def measure(self, model: Any) -> dict[str, Line]:
        """Every metric of a model."""


class Guard:
    """Checkpoint callback: early stopping on metric drops, and best-model selection."""

    def __init__(
        self,
        measurer: MetricSource,
        model: Any,
        before: Mapping[str, Line],
        drops: Mapping[str, float],
        best: str | None = None,
    ):
        """Check that the guarded metrics exist.

        Args:
            measurer: asks.
            model: the one that learns.
            before: what it did before.
            drops: for measures by name, how far they may fall (or rise, where lower is better).
            best: the measure by which the best weights are known.

        Raises:
            InputError: there is no measure of that name.
        """
        for name in (*drops, *([best] if best else [])):
            if name not in before:
                raise InputError(f"there is no measure {name!r}: {did_you_mean(name, before)}")
        self.measurer, self.model, self.before = measurer, model, before
        self.drops, self.best = drops, best
        self.highest = -math.inf
        self.seen: list[tuple[int, dict[str, float]]] = []

    def __call__(self, step: int) -> tuple[str, bool]:
        """Reason to stop, empty to go on; and whether the model is the best so far."""
        now = self.measurer.measure(self.model)
        self.seen.append((step, {name: line.value for name, line in now.items()}))
        for name, most in self.drops.items():
            first, line = self.before[name], now[name]
            sign = 1 if first.better == "higher" else -1
            lost = sign * (first.value - line.value)
            if lost > most:
                return (
                    f"{name} went from {first.value:.3f} to {line.value:.3f} by step {step}, more "
                    f"than the {most:g} that --guard allows"
                ), False
        if self.best is None:
            return "", False
        line = now[self.best]
        value = line.value if line.better == "higher" else -line.value
        better = value > self.highest
        self.highest = max(value, self.highest)
        return "", better


def parse_guards(texts: Sequence[str]) -> dict[str, float]:
    """Parse `METRIC=DROP` options, such as `image_to_text_r1=0.02`.

    Raises:
        InputError: it is not of this form.
    """
    found = {}
    for text in texts:
        name, equals, drop = (part.strip() for part in text.partition("="))
        try:
            value = float(drop)
        except ValueError:
            value = math.nan
        if not equals or not math.isfinite(value) or value < 0:
            raise InputError(f"--guard is written METRIC=DROP, as swaps=0.02, not {text!r}.")
        found[name] = value
    return found
