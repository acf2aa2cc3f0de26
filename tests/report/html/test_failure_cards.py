"""The worst failures: by margin, a few a part, ties too, the same every time."""

from __future__ import annotations

import numpy as np

from contrapose.data import Example
from contrapose.data.examples import diagonal_match, single_match
from contrapose.evaluation.parts import DEBIASED, EvalRequest
from contrapose.report.html import BenchmarkCase, worst_failures
from contrapose.results import Measurements, Run
from tests.fakes import patch
from tests.report.html.checks import results


def run(
    cases: dict[str, BenchmarkCase], scores: dict[str, list[list[float]]], score: str = "itc"
) -> Run:
    rows = [
        (name, i, j, value, case.example.match[i][j])
        for name, case in cases.items()
        for i, line in enumerate(scores[name])
        for j, value in enumerate(line)
    ]
    rows.append(("gallery/all", 0, 0, 5.0, False))  # not among the cases: no choice of captions
    columns = zip(*rows, strict=True)
    names = ("example", "image", "text", "value", "match")
    table = {
        name: np.array(column, dtype=object if name in ("example", "match") else None)
        for name, column in zip(names, columns, strict=True)
    }
    measured = Measurements((), {}, None, {})
    return Run(EvalRequest(("x",)), table, measured, results("a", score), {})


def choice(name: str) -> BenchmarkCase:
    return BenchmarkCase("swap", Example(name, (patch(1),), ("right", "wrong"), single_match(2, 0)))


CASES = {
    **{f"swap/{name}": choice(name) for name in ("a", "b", "c", "d", "e")},
    "place/x": BenchmarkCase(
        "place", Example("x", (patch(2), patch(3)), ("one", "two"), diagonal_match(2))
    ),
    "triple/t": BenchmarkCase(
        "triple", Example("t", (patch(4),), ("o", "n", "p"), ((True, False, True),))
    ),
}
SCORES = {
    "swap/a": [[0.5, 0.6]],
    "swap/b": [[0.5, 0.9]],
    "swap/c": [[0.9, 0.1]],
    "swap/d": [[0.5, 0.5]],
    "swap/e": [[0.1, 0.15]],
    "place/x": [[0.9, 0.1], [0.7, 0.4]],
    "triple/t": [[0.9, 0.5, 0.2]],
}


def test_largest_margins_part_by_part() -> None:
    found = worst_failures([run(CASES, SCORES)], CASES, each=2)
    assert [(each.part, each.example) for each in found] == [
        ("swap", "b"), ("swap", "a"), ("place", "x"), ("triple", "t"),
    ]  # fmt: skip
    assert np.allclose([each.margin for each in found], [0.4, 0.1, 0.3, 0.3])
    assert found[2].scores.tolist() == [[0.9, 0.1], [0.7, 0.4]]
    assert len(found[2].images) == 2
    assert found[0].run == "a · itc"


def test_ties_fail_and_wins_do_not() -> None:
    found = worst_failures([run(CASES, SCORES)], CASES, each=9)
    assert [each.example for each in found if each.part == "swap"] == ["b", "a", "e", "d"]


def test_scores_before_the_prior_was_taken_out_are_not_shown() -> None:
    for score in DEBIASED:
        assert worst_failures([run(CASES, SCORES, score)], CASES) == []
