"""Verdict on a claim: one rule for all studies, written down before any of them runs.

Every study runs at least five seeds. A seed has training data, order and judging examples of its
own, and other examples and other seeds serve to choose settings. In each seed s the claim's effect
d_s is measured on the same examples for both arms; its error v_s comes of a paired bootstrap over
those examples. Seeds are a random effect: the effect of the study is the mean d of the d_s with

    se² = max(var(d_s), mean(v_s)) / S

(between-seed variance, never below what the examples alone give), and a 95 % interval of Student's
t with S − 1 degrees of freedom. p-values of a study's claims are corrected by Holm's method.

- **holds**: the corrected p-value is below 0.05 and the effect lies on the claimed side of the
  claim's threshold;
- **does not hold**: the same, on the other side;
- **open**: otherwise. An open claim is printed with the smallest effect that the study would have
  seen in four cases of five: (t_0.975 + t_0.8) · se.

A claim that two things are alike ("within") holds when the whole interval lies within its
threshold, and does not hold when the whole interval lies outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from contrapose.metrics import holm

FloatArray = NDArray[np.float64]
Side = Literal["above", "below", "within"]
Verdict = Literal["holds", "does not hold", "open", "not testable"]

LEAST_SEEDS = 5
RESAMPLES = 2000
LEVEL, POWER = 0.95, 0.8


@dataclass(frozen=True, slots=True)
class Effect:
    """Mean effect over seeds with its interval.

    Attributes:
        mean: mean of the seeds' effects.
        error: standard error with seeds as a random effect.
        seeds: effect of each seed.
        examples: smallest number of judging examples of a seed.
    """

    mean: float
    error: float
    seeds: tuple[float, ...]
    examples: int

    @property
    def interval(self) -> tuple[float, float]:
        """Student's t interval at 95 %."""
        reach = _quantile((1 + LEVEL) / 2, len(self.seeds)) * self.error
        return self.mean - reach, self.mean + reach

    @property
    def detectable(self) -> float:
        """Smallest effect that would have been seen in four cases of five."""
        seeds = len(self.seeds)
        return (_quantile((1 + LEVEL) / 2, seeds) + _quantile(POWER, seeds)) * self.error

    def p_value(self, threshold: float = 0.0) -> float:
        """Two-sided p-value against a threshold."""
        from scipy import stats

        if self.error == 0:
            return float(self.mean == threshold)
        t = abs(self.mean - threshold) / self.error
        return float(2 * stats.t.sf(t, len(self.seeds) - 1))


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of a paper, as the study tests it.

    Attributes:
        text: the claim in one line.
        side: where its effect lies if it is true.
        threshold: what the effect is compared with.
        unit: factor and word that the effect is printed with.
        source: table, figure or section of the paper.
    """

    text: str
    side: Side = "above"
    threshold: float = 0.0
    unit: tuple[float, str] = (100.0, "points")
    source: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Claim with its effect and verdict; `reason` says why it is not testable."""

    claim: Claim
    effect: Effect | None
    verdict: Verdict
    p_value: float = float("nan")
    reason: str = ""


def mean_effect(first: Sequence[FloatArray], second: Sequence[FloatArray]) -> Effect:
    """Effect on a mean: first less second, example by example, in each seed.

    Args:
        first: per-example values of one arm, an array for each seed; nan where an example does
            not count.
        second: those of the other arm on the same examples.
    """
    differences = []
    for a, b in zip(first, second, strict=True):
        both = np.asarray(a, np.float64) - np.asarray(b, np.float64)
        differences.append(both[~np.isnan(both)])
    # Of a mean the bootstrap's variance is known: that of endless resamples.
    errors = [float(d.var() / len(d)) for d in differences]
    return _over_seeds([float(d.mean()) for d in differences], errors, min(map(len, differences)))


def effect_of(
    seeds: Sequence[tuple[NDArray[np.generic], ...]],
    statistic: Callable[..., float],
    *,
    resamples: int = RESAMPLES,
) -> Effect:
    """Effect on any statistic of per-example arrays, which are resampled together in each seed.

    Args:
        seeds: for each seed the arrays of both arms, of one length, an example a row.
        statistic: takes the arrays of a seed and gives its effect.
        resamples: of the bootstrap that gives each seed's error.

    Raises:
        ValueError: there are fewer than two seeds.
    """
    values, errors = [], []
    for number, arrays in enumerate(seeds):
        values.append(statistic(*arrays))
        rng = np.random.default_rng(number)
        draws = []
        for _ in range(resamples):
            rows = rng.integers(len(arrays[0]), size=len(arrays[0]))
            draws.append(statistic(*(array[rows] for array in arrays)))
        errors.append(float(np.var(draws, ddof=1)))
    return _over_seeds(values, errors, min((len(arrays[0]) for arrays in seeds), default=0))


def _over_seeds(values: Sequence[float], errors: Sequence[float], least: int) -> Effect:
    """Effect of the seeds' values and of the variances that their examples alone give."""
    if len(values) < 2:
        raise ValueError(f"seeds are a random effect: two are needed, {len(values)} given")
    spread = max(float(np.var(values, ddof=1)), float(np.mean(errors)))
    return Effect(
        float(np.mean(values)), float(np.sqrt(spread / len(values))), tuple(values), least
    )


def judge(claims: Sequence[tuple[Claim, Effect | str]]) -> list[Finding]:
    """Judge the claims of a study by the rule, corrected over all of them.

    Args:
        claims: each with its effect, or with the reason why it cannot be tested.
    """
    tested = [
        (i, claim, effect)
        for i, (claim, effect) in enumerate(claims)
        if isinstance(effect, Effect) and claim.side != "within"
    ]
    corrected = dict(
        zip(
            (i for i, _, _ in tested),
            holm([effect.p_value(claim.threshold) for _, claim, effect in tested]).tolist()
            if tested
            else (),
            strict=True,
        )
    )
    findings = []
    for i, (claim, effect) in enumerate(claims):
        if isinstance(effect, str):
            findings.append(Finding(claim, None, "not testable", reason=effect))
            continue
        p = corrected.get(i, float("nan"))
        findings.append(Finding(claim, effect, _verdict(claim, effect, p), p))
    return findings


def _verdict(claim: Claim, effect: Effect, p: float) -> Verdict:
    low, high = effect.interval
    if claim.side == "within":
        if max(abs(low), abs(high)) <= claim.threshold:
            return "holds"
        outside = min(abs(low), abs(high)) > claim.threshold and low * high > 0
        return "does not hold" if outside else "open"
    if p >= 1 - LEVEL:
        return "open"
    above = effect.mean > claim.threshold
    return "holds" if above == (claim.side == "above") else "does not hold"


def _quantile(p: float, seeds: int) -> float:
    from scipy import stats

    return float(stats.t.ppf(p, seeds - 1))


def claims_table(findings: Sequence[Finding]) -> str:
    """Markdown table: claim, effect with its interval, verdict, and the power of open ones."""
    lines = [
        "| claim | effect (95 %) | p, corrected | verdict |",
        "|---|---|---|---|",
    ]
    for finding in findings:
        claim, effect = finding.claim, finding.effect
        name = claim.text + (f" ({claim.source})" if claim.source else "")
        if effect is None:
            lines.append(f"| {name} | – | – | not testable: {finding.reason} |")
            continue
        factor, word = claim.unit
        low, high = (factor * value for value in effect.interval)
        size = f"{factor * effect.mean:+.2f} ({low:+.2f} to {high:+.2f}) {word}".rstrip()
        verdict = f"**{finding.verdict}**"
        if finding.verdict == "open":
            seen = effect.detectable
            about = f" from {factor * claim.threshold:g}" if claim.threshold else ""
            verdict += f": would have seen {factor * seen:.2f}" + (about and f" away{about}")
        p = "–" if np.isnan(finding.p_value) else f"{finding.p_value:.3g}"
        lines.append(f"| {name} | {size} | {p} | {verdict} |")
    return "\n".join(lines)
