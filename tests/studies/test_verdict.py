from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from studies.verdict import Claim, Effect, FloatArray, claims_table, effect_of, judge, mean_effect


def _arms(
    effect: float, *, seeds: int = 5, n: int = 400, between: float = 0.0, key: int = 0
) -> tuple[list[FloatArray], list[FloatArray]]:
    rng = np.random.default_rng(key)
    a, b = [], []
    for _ in range(seeds):
        base = rng.normal(size=n)
        b.append(base)
        a.append(base + effect + between * rng.normal() + rng.normal(0, 0.3, size=n))
    return a, b


def test_interval_is_student_t_of_the_seeds() -> None:
    a, b = _arms(0.5, between=0.2)
    effect = mean_effect(a, b)
    means = [float((x - y).mean()) for x, y in zip(a, b, strict=True)]
    expected = stats.t.interval(0.95, 4, np.mean(means), stats.sem(means))
    np.testing.assert_allclose(effect.interval, expected, rtol=1e-9)
    t, p = stats.ttest_1samp(means, 0.0)
    assert effect.p_value() == pytest.approx(float(p))
    assert t > 0


def test_error_is_never_below_that_of_the_examples() -> None:
    rng = np.random.default_rng(1)
    one = rng.normal(size=100)
    effect = mean_effect([one] * 5, [np.zeros(100)] * 5)  # seeds that agree to the last digit
    assert effect.error == pytest.approx(one.std(ddof=1) / 10 / np.sqrt(5), rel=0.1)


def test_rule() -> None:
    a, b = _arms(0.5)
    none_a, none_b = _arms(0.0, key=3)
    up, nothing = mean_effect(a, b), mean_effect(none_a, none_b)
    claims: list[tuple[Claim, Effect | str]] = [
        (Claim("rises"), up),
        (Claim("falls", "below"), up),
        (Claim("moves"), nothing),
        (Claim("alike", "within", threshold=0.2), nothing),
        (Claim("alike, but is not", "within", threshold=0.2), up),
        (Claim("above 0.7", threshold=0.7), up),
        (Claim("cannot be seen"), "raw accuracy is 99 %"),
    ]
    findings = judge(claims)
    assert [f.verdict for f in findings] == [
        "holds", "does not hold", "open", "holds", "does not hold", "does not hold",
        "not testable",
    ]  # fmt: skip
    table = claims_table(findings)
    assert "would have seen" in table
    assert "raw accuracy" in table


def test_correction_over_claims() -> None:
    p = 0.03
    t = float(stats.t.isf(p / 2, 4))
    weak = Effect(t, 1.0, (0.0,) * 5, 10)
    assert judge([(Claim("one"), weak)])[0].verdict == "holds"
    assert judge([(Claim("one"), weak), (Claim("two"), weak)])[0].verdict == "open"


def test_false_alarms_are_rare() -> None:
    wrong = 0
    for key in range(200):
        a, b = _arms(0.0, n=30, between=0.3, key=key)
        effect = effect_of(
            [(x - y,) for x, y in zip(a, b, strict=True)], lambda d: float(d.mean()), resamples=50
        )
        wrong += effect.p_value() < 0.05
    assert wrong <= 20  # 5 % of 200, and twice that


def test_power_that_is_printed_is_true() -> None:
    a, b = _arms(0.0, n=50, between=0.2, key=5)
    size = mean_effect(a, b).detectable
    # With the true spread, an effect of that size is seen in most cases.
    spread = np.sqrt(0.2**2 + 0.3**2 / 50)
    rng = np.random.default_rng(0)
    true = (stats.t.ppf(0.975, 4) + stats.t.ppf(0.8, 4)) * spread / np.sqrt(5)
    draws = rng.normal(true, spread, size=(2000, 5))
    seen = np.mean(stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05)
    assert 0.7 < seen < 0.95
    assert 0.2 * true < size < 3 * true


def test_one_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="random effect"):
        mean_effect([np.ones(3)], [np.zeros(3)])


def test_mean_has_the_error_of_the_bootstrap() -> None:
    a, b = _arms(0.1, n=60)
    closed = mean_effect(a, b)
    drawn = effect_of([(x - y,) for x, y in zip(a, b, strict=True)], lambda d: float(d.mean()))
    assert closed.seeds == drawn.seeds
    assert closed.error == pytest.approx(drawn.error, rel=0.05)
