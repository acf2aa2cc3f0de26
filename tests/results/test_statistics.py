"""Statistics of measures: equivariance by subset, and the direction of metrics."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from contrapose.data import Macro, find_single_benchmark
from contrapose.metrics import equivariance
from contrapose.metrics.statistics import bootstrap
from contrapose.results import MeasureInput, Measurements, measure
from contrapose.results.compare import compare
from contrapose.results.measures import Grouping, Measure, group_units
from contrapose.results.statistics import build_statistics, mean_statistic, mean_value
from contrapose.results.summary import (
    MeasuredPart,
    merge_parts,
    summarize_headline,
    summarize_subsets,
)
from contrapose.scores import Answers, build_frame_from_card

CARD = find_single_benchmark("eqben").card
KUBRIC = ("kubric_location", "kubric_counting", "kubric_attribute")


def measured_subsets(subsets: dict[str, np.ndarray]) -> Measurements:
    """Measurements of 2 x 2 scores by subset."""
    names = [name for name, scores in subsets.items() for _ in range(len(scores))]
    ids = [str(i) for i in range(len(names))]
    frame = build_frame_from_card(CARD, ids, {"subset": tuple(names)})
    return measure(MeasureInput(Answers(frame, np.concatenate(list(subsets.values()))), CARD))


def random_subsets(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(i, 1 + 3 * i, size=(12 + i, 2, 2))
        for i, name in enumerate(("ag", "sd", *KUBRIC))
    }


def test_equivariance_is_the_mean_over_subsets() -> None:
    subsets = random_subsets()
    headline, _ = summarize_headline(measured_subsets(subsets), CARD, resamples=100)
    alone = {name: equivariance(scores).summary() for name, scores in subsets.items()}
    for side in ("text", "image"):
        for kind in ("std", "mean_abs"):
            values = {name: value[f"{side}_{kind}"] for name, value in alone.items()}
            kubric = np.mean([values[name] for name in KUBRIC])
            wanted = np.mean([values["ag"], values["sd"], kubric])
            found = headline[f"equivariance_{side}_{kind}"]
            assert found.value == pytest.approx(wanted)
            assert found.ci95 is not None
            assert found.ci95[0] < found.value < found.ci95[1]
    pooled = equivariance(np.concatenate(list(subsets.values()))).summary()
    assert headline["equivariance_text_std_micro"].value == pytest.approx(pooled["text_std"])


def test_a_subset_does_not_depend_on_its_neighbors() -> None:
    subsets = random_subsets()
    together = summarize_subsets(measured_subsets(subsets), CARD, ("subset",), resamples=100)
    for name, scores in subsets.items():
        only = summarize_subsets(measured_subsets({name: scores}), CARD, ("subset",), resamples=100)
        for metric, value in only[name].items():
            assert together[name][metric].value == pytest.approx(value.value)


def test_fiber_on_eqben(shared: Path) -> None:
    """Real scores, of which the pool's standard deviation would make 2.6 of YouCook2's 1.73."""
    subsets = {
        name: np.load(shared / "eqben_fiber" / f"{name}.npy").astype(np.float64)
        for name in ("sd", "gebc", "youcook2")
    }
    found = measured_subsets(subsets)
    assert isinstance(CARD.aggregation, Macro)
    values = build_statistics(found, group_units(found, CARD.aggregation))
    assert values["equivariance_text_std"].value() == pytest.approx(1.6057, abs=1e-4)
    youcook = np.flatnonzero(np.array(found.tags["subset"]) == "youcook2")
    within = build_statistics(found.take(youcook))["equivariance_text_std"]
    assert within.value() == pytest.approx(1.7336, abs=1e-4)


def test_equivariance_is_compared_by_the_paired_bootstrap() -> None:
    """Over subset means, and the narrower model is the better one."""
    subsets = random_subsets()
    # Symmetric with a constant diagonal: e is 0.
    swapped = {name: (scores + scores[:, ::-1, ::-1]) / 2 for name, scores in subsets.items()}
    wide, narrow = measured_subsets(subsets), measured_subsets(swapped)
    names = ("equivariance_text_std", "equivariance_image_mean_abs")
    changes, _ = compare(wide, narrow, CARD.aggregation, names=names, resamples=200)
    for change in changes.values():
        assert change.b == pytest.approx(0, abs=1e-9)
        assert change.test == "paired-bootstrap"
        assert (change.better, change.verdict) == ("lower", "better")
        assert not change.share
    back, _ = compare(narrow, wide, CARD.aggregation, names=names, resamples=200)
    assert {change.verdict for change in back.values()} == {"worse"}


def test_values_by_counting_are_those_of_the_statistic() -> None:
    rng = np.random.default_rng(5)
    size = 300
    some, every = rng.random(size) < 0.3, np.ones(size, dtype=np.bool_)
    weights = rng.random(size)
    groups = Grouping(rng.integers(0, 3, size), ("a", "b", "c"), (0, 0, 0))
    for where in (some, every, ~every):
        for measure_ in (Measure(weights, where), Measure(weights, where, weights=weights)):
            for values in (np.full(size, 0.1), np.full(size, 1 / 3), weights, some, every):
                for over in (None, groups):
                    expected = mean_statistic(measure_, values.astype(np.float64), over).value()
                    assert mean_value(measure_, values, over) == expected or math.isnan(expected)


def test_summaries_are_the_same_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured_subsets(random_subsets())
    alone = summarize_headline(found, CARD, resamples=100)
    monkeypatch.setattr(bootstrap, "MANY_EXAMPLES", 1)
    assert summarize_headline(found, CARD, resamples=100) == alone


def test_a_metric_without_direction_is_higher_or_lower() -> None:
    card = find_single_benchmark("hard-positives-swap").card
    frame = build_frame_from_card(card, [str(i) for i in range(40)], {})
    scores = np.random.default_rng(0).normal(size=(40, 1, 3))
    before, after = (
        measure(MeasureInput(Answers(frame, values), card)) for values in (scores, scores - 1)
    )
    changes, _ = compare(before, after, card.aggregation, names=("mean_score",), resamples=200)
    assert changes["mean_score"].better is None
    assert changes["mean_score"].verdict == "lower"
    assert changes["mean_score"].difference == pytest.approx(-1)
    everything, _ = compare(before, after, card.aggregation, resamples=200)
    assert "mean_score" not in everything


def test_parts_of_a_suite_keep_their_equivariance() -> None:
    subsets = random_subsets()
    parts = {
        name: MeasuredPart(CARD, measured_subsets({name: scores}))
        for name, scores in subsets.items()
    }
    statistics = build_statistics(merge_parts(parts))
    for name, scores in subsets.items():
        wanted = equivariance(scores).summary()["image_std"]
        assert statistics[f"{name}/equivariance_image_std"].value() == pytest.approx(wanted)
