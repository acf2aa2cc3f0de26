"""Pairs and sets of choices: right when all of their examples are."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import contrapose as cp
from contrapose.data import Example, ImageRef, in_memory_benchmark
from contrapose.data.examples import single_match

RELATIONS = ("left", "right", "on", "under")


def examples(sets: int) -> list[Example]:
    """Sets of four examples, in the order of the relations and not of the sets."""
    return [
        Example(
            f"{number}-{relation}",
            (ImageRef(f"{number}{relation}", Path(f"{number}{relation}.png")),),
            ("a", "b", "c", "d"),
            single_match(4, 0),
            {"set": str(number), "pair": f"{number}{relation in RELATIONS[:2]}"},
        )
        for relation, number in product(RELATIONS, range(sets))
    ]


def test_sets_against_loops() -> None:
    cases = examples(40)
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (160, 1, 4)).astype(float)
    scores[rng.random(160) < 0.6, 0, 0] = 5
    run = cp.measure(scores, in_memory_benchmark(cases, family="sets"), resamples=200)
    right = {
        case.id: bool(row[0, 0] > row[0, 1:].max()) for case, row in zip(cases, scores, strict=True)
    }
    pairs = [
        right[f"{i}-{a}"] and right[f"{i}-{b}"]
        for i in range(40)
        for a, b in (RELATIONS[:2], RELATIONS[2:])
    ]
    whole_sets = [all(right[f"{i}-{relation}"] for relation in RELATIONS) for i in range(40)]
    assert run.metrics["accuracy"].value == pytest.approx(np.mean(list(right.values())))
    assert run.metrics["pair"].value == pytest.approx(np.mean(pairs))
    assert run.metrics["set"].value == pytest.approx(np.mean(whole_sets))
    assert [run.metrics[name].n for name in ("accuracy", "pair", "set")] == [160, 80, 40]
    assert run.metrics["pair"].chance == pytest.approx(1 / 16)
    assert run.metrics["set"].chance == pytest.approx(1 / 256)
    assert run.results.clusters == 40


def test_examples_alone_have_no_pairs() -> None:
    run = cp.measure(np.ones((412, 1, 4)), "whatsup/a", resamples=100)
    assert set(run.metrics) == {"accuracy"}
    assert any("root" in note for note in run.results.notes)


def test_a_constant_scorer() -> None:
    """The released script takes the first of equal scores; here a tie is wrong."""
    cases = in_memory_benchmark(examples(12), family="sets")
    assert cp.measure(np.ones((48, 1, 4)), cases, resamples=100).metrics["set"].value == 0
    official = cp.measure(np.ones((412, 1, 4)), "whatsup/a", protocol="official", resamples=100)
    assert official.metrics["accuracy"].value == 1
