"""The claims of `studies/repair.py`, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from contrapose import metrics
from contrapose.metrics import FloatArray, IntArray, Statistic
from contrapose.results.measures import Measurements

BASE = ("plain", "hn", "hp+hn")
"""What is always compared; forms of EqSim come with and without HN."""
SHOWN = (
    "swaps", "replacements", "original", "augmented", "brittleness", "right_score", "text", "image",
    "group", "equivariance", "equivariance_sd", "image_to_text_r1", "text_to_image_r1", "naming",
)  # fmt: skip
TOLD = ("swaps", "brittleness", "right_score", "group", "equivariance_sd")
"""Measures that are printed as soon as they are known."""
MOST = 0.5
"""Keeping "most" of a gain means at least this share."""

METRICS = {
    "swaps": "swaps/accuracy",
    "replacements": "replacements/accuracy",
    "original": "hard-positives/original_accuracy",
    "augmented": "hard-positives/augmented_accuracy",
    "brittleness": "hard-positives/brittleness",
    "right_score": "hard-positives/mean_score",
    "text": "changes/text",
    "image": "changes/image",
    "group": "changes/group",
    "image_to_text_r1": "retrieval/image_to_text_r1",
    "text_to_image_r1": "retrieval/text_to_image_r1",
    "naming": "naming/top1",
}
"""Short names of the study's logs, and the metrics of the panel."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One metric of a model, example by example.

    Attributes:
        name: the study's short name.
        values: (k,) example by example.
        better: which way is better.
        clusters: (k,) examples with the same number share an image.
        spread: whether the standard deviation is meant, not the mean.
    """

    name: str
    values: FloatArray
    better: Literal["higher", "lower"] = "higher"
    clusters: IntArray | None = None
    spread: bool = False

    def statistic(self) -> Statistic:
        """The number that is reported, as something that can be resampled."""
        if self.spread:
            return metrics.standard_deviation(self.values)
        return metrics.mean_of(self.values)

    @property
    def value(self) -> float:
        """The number that is reported."""
        return self.statistic().value()


Lines = Mapping[str, Line]


def lines_of(measured: Mapping[str, Measurements]) -> dict[str, Line]:
    """The study's lines of an evaluation; equivariance is pooled over text and image side."""
    found: dict[str, Line] = {}
    for name, metric in METRICS.items():
        part, _, last = metric.partition("/")
        measure = measured[part].measures[last]
        found[name] = Line(name, measure.values[measure.where], measure.better or "higher")
    changes = measured["changes"].measures
    scale = np.sqrt(changes["score_mean"].values.var() + changes["score_variance"].values.mean())
    text, image = (changes[f"equivariance_{side}"].values / scale for side in ("text", "image"))
    near = (np.abs(text) + np.abs(image)) / 2
    twice = np.tile(np.arange(len(text)), 2)
    found["equivariance"] = Line("equivariance", near, "lower")
    found["equivariance_sd"] = Line(
        "equivariance_sd", np.concatenate([text, image]), "lower", twice, spread=True
    )
    return found


@dataclass(frozen=True)
class Judged:
    """A claim and what became of it."""

    claim: str
    difference: float
    low: float
    high: float
    by_seed: tuple[float, ...]
    verdict: str

    def said(self) -> str:
        """In one line."""
        seeds = ", ".join(f"{difference:+.3f}" for difference in self.by_seed)
        return (
            f"{self.verdict:>9}: {self.claim} ({self.difference:+.3f}, 95 % {self.low:+.3f} to "
            f"{self.high:+.3f}; by seed {seeds})"
        )


def table(before: Lines, found: Mapping[str, Sequence[Lines]]) -> str:
    """Measures down, methods across: mean over seeds ± standard deviation."""
    head = ("measure", "n", "before", *found)
    rows = [head]
    for name in (name for name in SHOWN if name in before):
        cells = [f"{before[name].value:.3f}"]
        for runs in found.values():
            values = np.array([lines[name].value for lines in runs])
            spread = values.std(ddof=1) if len(values) > 1 else float("nan")
            cells.append(f"{values.mean():.3f} ± {spread:.3f}")
        mark = " ↓" if before[name].better == "lower" else ""
        rows.append((f"{name}{mark}", f"{len(before[name].values):,}", *cells))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def judge(
    before: Lines, found: Mapping[str, Sequence[Lines]], forms: Sequence[str] = ("eqsim",)
) -> list[Judged]:
    """What became of the claims; those on EqSim, of each of its forms."""
    gain = _more("1. HN raises accuracy on swaps", found, "swaps", "plain", "hn")
    kept = _kept(found)
    judged = [
        gain,
        _more("2. HN raises brittleness", found, "brittleness", "plain", "hn"),
        # Of a gain that is not there nothing can be kept.
        kept if gain.verdict == "confirmed" else replace(kept, verdict="open"),
        _more("4. HP+HN is less brittle than HN", found, "brittleness", "hp+hn", "hn"),
        _closer(before, found),
    ]
    for form in forms:
        name = "EqSim" if form == "eqsim" else f"EqSim ({form})"
        judged += [
            _more(f"6. {name} raises the group score", found, "group", "plain", form),
            _more(f"7. {name} tightens the equivariance", found, "equivariance_sd", form, "plain"),
        ]
    return judged


def _more(
    claim: str, found: Mapping[str, Sequence[Lines]], name: str, low: str, high: str
) -> Judged:
    """Whether a measure is larger with one method than with another."""
    pairs = [(one[name], other[name]) for one, other in zip(found[low], found[high], strict=True)]
    return _judged(claim, pairs, lambda line: line)


def _kept(found: Mapping[str, Sequence[Lines]]) -> Judged:
    """Whether swaps with HP+HN lie above the middle between plain fine-tuning and HN."""
    pairs = []
    for plain, hard, both in zip(found["plain"], found["hn"], found["hp+hn"], strict=True):
        first, second = plain["swaps"], hard["swaps"]
        middle = (1 - MOST) * first.values + MOST * second.values
        pairs.append((replace(first, values=middle), both["swaps"]))
    return _judged(f"3. HP+HN keeps {MOST:.0%} or more of HN's gain on swaps", pairs, lambda x: x)


def _closer(before: Lines, found: Mapping[str, Sequence[Lines]]) -> Judged:
    """Whether the mean score of the right caption moved less with HP+HN than with HN."""
    first = before["right_score"].values

    def moved(line: Line) -> Line:
        # By the direction of the mean: the paper reports a shift, not how single scores vary.
        way = np.sign((line.values - first).mean()) or 1.0
        return replace(line, values=way * (line.values - first))

    pairs = [
        (both["right_score"], hard["right_score"])
        for both, hard in zip(found["hp+hn"], found["hn"], strict=True)
    ]
    return _judged("5. HP+HN moves the right caption's score less than HN", pairs, moved)


def _judged(
    claim: str, pairs: Sequence[tuple[Line, Line]], change: Callable[[Line], Line]
) -> Judged:
    """Whether the second of each pair is larger: over examples, and seed by seed."""
    lows, highs = ([change(pair[side]) for pair in pairs] for side in (0, 1))
    by_seed = tuple(high.value - low.value for low, high in zip(lows, highs, strict=True))
    mean = [
        metrics.combine([line.statistic() for line in side]) for side in (lows, highs)
    ]  # the mean over seeds, on the same examples
    drawn = metrics.paired_bootstrap(mean[0], mean[1], clusters=lows[0].clusters, resamples=4000)
    low, high = drawn.ci95
    verdict = "open"
    if low > 0 and min(by_seed) > 0:
        verdict = "confirmed"
    elif high < 0:
        verdict = "refuted"
    return Judged(claim, drawn.difference, low, high, by_seed, verdict)
