"""Scores in memory: the same metrics as from files, and refused where they do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import contrapose as cp
from contrapose.data import Gallery, ImageRef
from contrapose.data.examples import diagonal_match, single_match
from contrapose.errors import InputError
from tests.conftest import ROOT

SHAPES = ROOT / "examples" / "shapes"
SCORES, EXAMPLES = SHAPES / "bag-of-words.csv", SHAPES / "examples.jsonl"


def image(name: str) -> ImageRef:
    return ImageRef(name, Path(name))


def test_frames_rows_and_arrays_are_as_the_file() -> None:
    expected = cp.measure(SCORES, EXAMPLES, resamples=100)
    table = pd.read_csv(SCORES)
    rows = table.to_dict(orient="records")
    ids = [json.loads(line)["id"] for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
    array = np.zeros((len(ids), 2, 2))
    place = {name: i for i, name in enumerate(ids)}
    for row in expected.examples():
        array[place[row["id"]]] = row["scores"]
    for scores in (table, rows, array, array.tolist()):
        run = cp.measure(scores, EXAMPLES, resamples=100)
        assert run.metrics == expected.metrics
        assert run.subsets == expected.subsets


def test_ragged_examples() -> None:
    examples = [
        cp.Example("a", (image("a"),), ("x", "y"), single_match(2, 0)),
        cp.Example("b", (image("b"),), ("x", "y", "z"), single_match(3, 2)),
    ]
    run = cp.measure([[2.0, 1.0], [[1.0, 2.0, 1.5]]], examples)
    assert [row["outcomes"]["accuracy"] for row in run.examples()] == [1, 0]
    assert run.metrics["accuracy"].chance == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_a_gallery() -> None:
    gallery = Gallery("g", (image("a"), image("b")), ("x", "y"), ((0, 0), (1, 1)))
    run = cp.measure([[1.0, 0.0], [0.0, 1.0]], gallery)
    assert run.metrics["image_to_text_r1"].value == 1
    with pytest.raises(InputError, match="images × captions"):
        cp.measure([[1.0, 0.0]], gallery)


def test_a_prior() -> None:
    scores = -1 - np.random.default_rng(0).random((400, 2, 2))
    prior = -1 - np.random.default_rng(1).random((400, 2))
    run = cp.measure(scores, "winoground", prior=prior, alpha=1, resamples=100)
    assert run.results.alpha is not None
    with pytest.raises(InputError, match="prior needs a number for each caption"):
        cp.measure(scores, "winoground", prior=prior[:3])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[[1.0, 2.0], [0.0, 1.0]]], "1 scores for 2 examples"),
        ([[[1.0, 2.0]], [[1.0, 2.0]]], "2 images × 2 captions"),
        ([[["a", 2.0], [0.0, 1.0]]] * 2, "not numbers"),
        ([[[np.inf, 2.0], [0.0, 1.0]]] * 2, "not a finite number"),
        ([[[np.nan, 2.0], [0.0, 1.0]]] * 2, "missing"),
        ([{"example": "c", "image": 0, "text": 0, "score": 1.0}], "'c' is not in the benchmark"),
    ],
)  # fmt: skip
def test_scores_that_do_not_fit(scores: Any, message: str) -> None:
    texts = ("x", "y")
    examples = [
        cp.Example(name, (image(name), image(name + "2")), texts, diagonal_match(2))
        for name in ("a", "b")
    ]
    with pytest.raises(InputError, match=message):
        cp.measure(scores, examples)


def test_a_suite_has_no_one_shape() -> None:
    with pytest.raises(InputError, match="parts of different shapes"):
        cp.measure([[1.0]], "scenes")


def test_compare_runs_in_memory() -> None:
    random = np.random.default_rng(0)
    a, b = (cp.measure(random.normal(size=(400, 2, 2)), "winoground", resamples=100) for _ in "ab")
    compared = cp.compare(a, b, resamples=100)
    assert set(compared.metrics) == {"text", "image", "group"}
    assert set(cp.compare(a, b, metric="group_match", resamples=100).metrics) == {"group_match"}
    assert compared.a == "ndarray of 400 × 2 × 2"
    with pytest.raises(InputError, match="choose one"):
        cp.compare(cp.Runs([a, b]), b)
