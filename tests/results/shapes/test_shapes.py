"""Every family's metrics against sentences of methods.md written out once more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.data import (
    Example,
    ImageRef,
    Suite,
    benchmark_names,
    find_benchmark,
    find_single_benchmark,
)
from contrapose.data.examples import diagonal_match, single_match
from contrapose.results import MeasureInput, Measurements, measure
from contrapose.scores import Answers, build_frame, build_frame_from_card

FEW = st.integers(0, 3).map(float)
"""Few values, so that ties are common."""


def asked(benchmark: str, scores: np.ndarray, **options: object) -> Measurements:
    card = find_single_benchmark(benchmark).card
    frame = build_frame_from_card(card, [str(i) for i in range(len(scores))], {})
    return measure(MeasureInput(Answers(frame, scores), card, **options))  # type: ignore[arg-type]


def values(found: Measurements, name: str) -> list[float]:
    return [float(value) for value in found.measures[name].values]


@given(st.lists(st.tuples(FEW, FEW, FEW), min_size=1, max_size=6))
def test_hard_positives(rows: list[tuple[float, float, float]]) -> None:
    found = asked("hard-positives-replace", np.array(rows)[:, None, :])
    for i, (c, n, p) in enumerate(rows):
        assert found.measures["original_accuracy"].values[i] == (c > n)
        assert found.measures["augmented_accuracy"].values[i] == (c > n and p > n)
        assert found.measures["brittleness"].values[i] == (c > n > p or p > n > c)
        assert found.measures["original_only"].values[i] == (c > n > p)
        assert found.measures["positive_only"].values[i] == (p > n > c)
        assert found.measures["mean_score"].values[i] == c


@given(st.lists(st.tuples(FEW, FEW, FEW, FEW), min_size=1, max_size=6))
def test_two_by_two(rows: list[tuple[float, float, float, float]]) -> None:
    found = asked("winoground", np.array(rows).reshape(-1, 2, 2))
    for i, (a, b, c, d) in enumerate(rows):
        text, image = a > b and d > c, a > c and d > b
        assert found.measures["text"].values[i] == text
        assert found.measures["image"].values[i] == image
        assert found.measures["group"].values[i] == (text and image)
        ties = found.measures["text"].ties
        assert ties is not None
        assert ties[i] == (a == b or c == d)


@given(st.lists(st.tuples(FEW, FEW), min_size=1, max_size=6))
def test_foils(rows: list[tuple[float, float]]) -> None:
    found = asked("valse", np.array(rows)[:, None, :], threshold=1.0)
    for i, (caption, foil) in enumerate(rows):
        assert found.measures["pairwise_accuracy"].values[i] == (caption > foil)
        assert found.measures["p_c"].values[i] == (caption > 1)
        assert found.measures["p_f"].values[i] == (foil < 1)
        assert found.measures["acc"].values[i] == ((caption > 1) + (foil < 1)) / 2


def test_official_foils_drop_those_on_the_threshold() -> None:
    scores = np.array([[[0.9, 0.5]], [[0.9, 0.4]], [[0.5, 0.6]]])
    found = asked("valse", scores, protocol="official")
    assert found.ids == ("1", "2")
    assert values(found, "p_f") == [1.0, 0.0]
    assert "leaves out 1 examples" in found.notes[0]


def test_official_vl_checklist_takes_the_first_thousand_of_a_file() -> None:
    card = find_single_benchmark("vl-checklist").card
    images = (ImageRef("a", Path("a")),)
    examples = [
        Example(f"{file}{i}", images, ("x", "y"), single_match(2, 0), {"file": file})
        for file, size in (("one", 1200), ("two", 7))
        for i in range(size)
    ]
    answers = Answers(build_frame(examples), np.ones((len(examples), 1, 2)))
    assert len(measure(MeasureInput(answers, card))) == 1207
    assert len(measure(MeasureInput(answers, card, "official"))) == 1007


def test_cola_is_the_image_score_alone() -> None:
    found = asked("cola", np.array([[[3.0, 1.0], [2.0, 2.0]], [[3.0, 1.0], [3.0, 2.0]]]))
    assert set(found.measures) == {"image"}
    assert values(found, "image") == [1.0, 0.0]


def test_mixed_shapes() -> None:
    """One image has no image score; its chance level is its own."""
    refs = tuple(ImageRef(name, Path(name)) for name in "ab")
    examples = [
        Example("two", refs, ("x", "y"), diagonal_match(2)),
        Example("one", refs[:1], ("x", "y", "z"), single_match(3, 1)),
    ]
    frame = build_frame(examples)
    scores = np.full(frame.match.shape, np.nan)
    scores[0, :, :2] = [[2, 1], [1, 2]]
    scores[1, 0] = [1, 3, 2]
    card = find_single_benchmark("winoground").card
    found = measure(MeasureInput(Answers(frame, scores), card))
    assert values(found, "text") == [1, 1]
    assert found.measures["image"].where.tolist() == [True, False]
    assert found.measures["group"].where.tolist() == [True, False]
    chance = found.measures["text"].chance
    assert chance is not None
    assert chance.tolist() == pytest.approx([1 / 4, 1 / 3])
    assert "equivariance_text_std" not in found.measures


def alone() -> list[str]:
    """Every benchmark, the parts of suites by their full names."""
    names = []
    for name in benchmark_names():
        found = find_benchmark(name)
        parts = found.parts if isinstance(found, Suite) else ()
        names += [f"{name}/{part}" for part in parts] or [name]
    return names


@pytest.mark.parametrize("name", alone())
def test_cards_promise_the_chance_that_is_computed(name: str) -> None:
    card = find_single_benchmark(name).card
    if card.match is None:
        sizes_differ = (
            "retrieval", "adversarial", "classes", "edits", "composed", "boundaries", "judgement",
        )  # fmt: skip
        assert card.family in sizes_differ or card.chance or "n" in card.shape.split()
        return
    shape = np.asarray(card.match).shape
    scores = np.random.default_rng(0).random((3, *shape))
    found = asked(name, scores)
    computed = {
        metric: float(measure_.chance[0])
        for metric, measure_ in found.measures.items()
        if measure_.chance is not None and metric in card.chance
    }
    assert computed == pytest.approx(dict(card.chance))


@pytest.mark.parametrize(
    ("name", "shape", "metric"), [("valse", (1, 2), "p_c"), ("svo-probes", (2, 1), "accuracy_true")]
)
def test_cosines_are_no_probabilities(name: str, shape: tuple[int, int], metric: str) -> None:
    scores = np.linspace(0.1, 0.9, 24).reshape(12, *shape)
    assert metric in asked(name, scores).measures
    cosines = asked(name, scores, cosines=True)
    assert metric not in cosines.measures
    assert any("not probabilities" in note for note in cosines.notes)
    assert metric in asked(name, scores, threshold=0.5, cosines=True).measures
