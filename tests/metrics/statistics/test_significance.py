"""Holm's correction against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from contrapose.errors import InputError
from contrapose.metrics import combine, holm, macro_mean, mcnemar, mean_of, paired_bootstrap
from contrapose.metrics.statistics.significance import POWER, count_needed, standard_error

P_VALUES = st.lists(st.floats(0, 1), max_size=12)


@given(P_VALUES)
def test_against_a_loop(p_values: list[float]) -> None:
    m = len(p_values)
    expected = [0.0] * m
    highest = 0.0
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (m - rank) * p_values[i]))
        expected[i] = highest
    np.testing.assert_allclose(holm(p_values), expected)


@given(P_VALUES, st.floats(0.001, 0.2))
def test_rejects_what_the_step_down_procedure_rejects(p_values: list[float], level: float) -> None:
    m = len(p_values)
    rejected = set()
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        if p_values[i] * (m - rank) > level:
            break
        rejected.add(i)
    assert set(np.flatnonzero(holm(p_values) <= level).tolist()) == rejected


@given(P_VALUES)
def test_never_below_the_p_value_nor_above_bonferroni(p_values: list[float]) -> None:
    adjusted, p = holm(p_values), np.array(p_values)
    assert (adjusted >= p).all()
    assert (adjusted <= np.minimum(1, p * len(p)) + 1e-12).all()


def test_what_is_no_p_value_is_refused() -> None:
    for bad in ([1.5], [-0.1], [np.nan]):
        with pytest.raises(InputError, match="p-values"):
            holm(bad)


def runs(b_only: int, a_only: int, both: int = 3) -> tuple[np.ndarray, np.ndarray]:
    a = np.array([0] * b_only + [1] * a_only + [1] * both + [0] * both)
    b = np.array([1] * b_only + [0] * a_only + [1] * both + [0] * both)
    return a, b


@given(st.integers(0, 300), st.integers(0, 300))
def test_exact_as_in_scipy(b_only: int, a_only: int) -> None:
    found = mcnemar(*runs(b_only, a_only))
    assert (found.b_only, found.a_only) == (b_only, a_only)
    n = b_only + a_only
    expected = stats.binomtest(b_only, n, 0.5).pvalue if n else 1.0
    assert found.p == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(st.integers(0, 200), st.integers(0, 200))
def test_mid_p(b_only: int, a_only: int) -> None:
    found = mcnemar(*runs(b_only, a_only), method="midp")
    least, n = min(b_only, a_only), b_only + a_only
    expected = 2 * stats.binom.cdf(least, n, 0.5) - stats.binom.pmf(least, n, 0.5)
    assert found.p == pytest.approx(min(1, expected), rel=1e-9)
    assert found.p <= mcnemar(*runs(b_only, a_only)).p


@pytest.mark.parametrize("b_only", [124_000, 125_000, 110_000])
def test_a_quarter_of_a_million_disagreements(b_only: int) -> None:
    found = mcnemar(*runs(b_only, 250_000 - b_only))
    expected = stats.binomtest(b_only, 250_000, 0.5).pvalue
    assert found.p == pytest.approx(expected, rel=1e-6)


@given(st.integers(0, 50), st.integers(0, 50))
def test_the_order_of_runs_does_not_matter_to_p(b_only: int, a_only: int) -> None:
    a, b = runs(b_only, a_only)
    assert mcnemar(a, b).p == mcnemar(b, a).p


def test_only_outcomes_of_zero_and_one() -> None:
    with pytest.raises(InputError, match="0 and 1"):
        mcnemar([0.5], [1])
    with pytest.raises(InputError, match="same examples"):
        mcnemar([1], [1, 0])
    with pytest.raises(InputError, match="method"):
        mcnemar([1], [1], method="chi2")  # type: ignore[arg-type]


def test_the_same_run_twice_is_no_difference() -> None:
    x = np.random.default_rng(0).normal(size=300)
    for statistic in (mean_of(x), macro_mean(x, np.arange(300) % 4)):
        found = paired_bootstrap(statistic, statistic, resamples=500)
        assert found.difference == 0
        assert found.ci95 == (0, 0)
        assert found.p == 1


def test_a_clear_difference_and_its_sign() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=400)
    b = a + 0.3 + 0.1 * rng.normal(size=400)
    found = paired_bootstrap(mean_of(a), mean_of(b))
    assert found.difference == pytest.approx((b - a).mean())
    # Pairing removes what the runs share.
    error = (b - a).std() / 20
    assert found.ci95[0] == pytest.approx(found.difference - 1.96 * error, abs=0.15 * error)
    assert found.ci95[1] == pytest.approx(found.difference + 1.96 * error, abs=0.15 * error)
    assert found.p == pytest.approx(2 / 10_001)
    assert paired_bootstrap(mean_of(b), mean_of(a)).difference == -found.difference


def test_p_is_uniform_when_there_is_no_difference() -> None:
    rng = np.random.default_rng(0)
    p = []
    for i in range(200):
        a, b = rng.random((2, 150)) < 0.5
        p.append(paired_bootstrap(mean_of(a), mean_of(b), resamples=400, seed=i).p)
    assert 0.01 <= np.mean(np.array(p) < 0.05) <= 0.10
    assert np.mean(p) == pytest.approx(0.5, abs=0.08)


def test_p_agrees_with_mcnemar_on_outcomes() -> None:
    a, b = runs(40, 22, both=100)
    found = paired_bootstrap(mean_of(a), mean_of(b))
    assert found.p == pytest.approx(mcnemar(a, b, method="midp").p, abs=0.01)


def test_clusters_make_a_difference_less_certain() -> None:
    rng = np.random.default_rng(0)
    a = np.repeat(rng.normal(size=100), 4)
    b = a + np.repeat(0.15 + rng.normal(size=100), 4)
    plain = paired_bootstrap(mean_of(a), mean_of(b))
    clustered = paired_bootstrap(mean_of(a), mean_of(b), np.repeat(np.arange(100), 4))
    ratio = (clustered.ci95[1] - clustered.ci95[0]) / (plain.ci95[1] - plain.ci95[0])
    assert ratio == pytest.approx(2, rel=0.08)
    assert clustered.p > plain.p


def test_other_statistics_can_be_compared() -> None:
    rng = np.random.default_rng(0)
    groups = np.arange(500) % 5
    a, b = (combine([macro_mean(rng.random(500) < p, groups)]) for p in (0.4, 0.6))
    found = paired_bootstrap(a, b)
    assert found.difference == pytest.approx(b.value() - a.value())
    assert found.p < 0.01


def test_standard_error_of_a_mean_and_of_clusters() -> None:
    values = np.random.default_rng(0).normal(size=40)
    assert standard_error(values) == pytest.approx(stats.sem(values))
    twice = np.repeat(values, 2)  # copies bring nothing new
    assert standard_error(twice, np.repeat(np.arange(40), 2)) == pytest.approx(stats.sem(values))
    assert np.isnan(standard_error(values, np.zeros(40, dtype=np.int64)))


def test_needed_count_has_the_power_it_promises() -> None:
    rng = np.random.default_rng(1)
    effect, n = 0.3, 50
    needed = count_needed(effect, 1 / np.sqrt(n), n)
    assert needed is not None
    drawn = rng.normal(effect, 1, size=(4000, needed))
    z = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / np.sqrt(needed))
    assert (np.abs(z) > 1.96).mean() == pytest.approx(POWER, abs=0.03)
    assert count_needed(effect, 1 / np.sqrt(n), n, level=0.01) > needed  # type: ignore[operator]
    assert count_needed(0.0, 1.0, n) is None
    assert count_needed(0.1, float("nan"), n) is None
