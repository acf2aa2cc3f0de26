"""Worst failures: by margin, a few per part, ties too, with whatever images and captions exist."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from contrapose.data import Example, ImageRef
from contrapose.data.examples import diagonal_match, single_match
from contrapose.evaluation.parts import DEBIASED, EvalRequest
from contrapose.report.html import worst_failures
from contrapose.report.html.failure_cards import PER_RUN, WITHOUT_PARTS, render_failure
from contrapose.results import (
    Measurements,
    MetricsRequest,
    RunRecord,
    measure_score_file,
    write_run,
)
from contrapose.results.runs import read_runs
from tests.fakes import patch
from tests.report.html.checks import Balanced, results


def make_run(
    cases: Mapping[str, Example],
    scores: Mapping[str, list[list[float]]],
    score: str = "itc",
    *,
    with_parts: bool = True,
    with_cases: bool = True,
) -> RunRecord:
    rows = [
        (name, i, j, value, case.match[i][j])
        for name, case in cases.items()
        for i, line in enumerate(scores[name])
        for j, value in enumerate(line)
    ]
    rows.append(("gallery/all", 0, 0, 5.0, False))  # no unit of the run: nothing to choose
    columns = zip(*rows, strict=True)
    names = ("example", "image", "text", "value", "match")
    table = {
        name: np.array(column, dtype=object if name in ("example", "match") else None)
        for name, column in zip(names, columns, strict=True)
    }
    tags = {"part": tuple(name.partition("/")[0] for name in cases)} if with_parts else {}
    measured = Measurements(tuple(cases), tags, None, {})
    request = EvalRequest(("x",))
    shown = cases if with_cases else {}
    return RunRecord(request, table, measured, results("a", score), {}, None, shown)


def choice(name: str) -> Example:
    return Example(name, (patch(1),), ("right", "wrong"), single_match(2, 0))


CASES = {
    **{f"swap/{name}": choice(name) for name in ("a", "b", "c", "d", "e")},
    "place/x": Example("x", (patch(2), patch(3)), ("one", "two"), diagonal_match(2)),
    "triple/t": Example("t", (patch(4),), ("o", "n", "p"), ((True, False, True),)),
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
    failures = worst_failures([make_run(CASES, SCORES)])
    assert [(failure.part, failure.example) for failure in failures] == [
        ("swap", "b"), ("swap", "a"), ("place", "x"), ("triple", "t"),
    ]  # fmt: skip
    assert np.allclose([failure.margin for failure in failures], [0.4, 0.1, 0.3, 0.3])
    assert failures[2].scores.tolist() == [[0.9, 0.1], [0.7, 0.4]]
    assert len(failures[2].images) == 2
    assert failures[0].run == "a · itc"


def test_ties_fail_and_wins_do_not() -> None:
    failures = worst_failures([make_run(CASES, SCORES)], per_part=9)
    swap = [failure for failure in failures if failure.part == "swap"]
    assert [failure.example for failure in swap] == ["b", "a", "e", "d"]
    words = Balanced(render_failure(swap[-1])).text
    assert words.count("tied") == 2
    assert "preferred" not in words


def test_a_choice_among_images() -> None:
    refs = (patch(1), patch(2))
    cases = {"one": Example("one", refs, ("a caption",), ((True,), (False,)))}
    (failure,) = worst_failures([make_run(cases, {"one": [[0.2], [0.5]]}, with_parts=False)])
    assert np.isclose(failure.margin, 0.3)
    words = Balanced(render_failure(failure)).text
    assert words[words.index("0.500") + 1] == "preferred"
    assert words[words.index("0.200") + 1] == "right"


def test_scores_before_the_prior_was_taken_out_are_labelled_or_left_out() -> None:
    for score, base in DEBIASED.items():
        debiased = make_run(CASES, SCORES, score)
        raw = make_run(CASES, SCORES, base)
        labels = {failure.run for failure in worst_failures([raw, debiased])}
        assert labels == {f"a · {base}"}
        (label,) = {failure.run for failure in worst_failures([debiased])}
        assert label == f"a · {score}, before the prior is taken out"


def test_number_of_cards_is_limited() -> None:
    many = {f"{i % 40}/{i}": choice(str(i)) for i in range(160)}
    scores = {name: [[0.0, float(case.id)]] for name, case in many.items()}
    assert len(worst_failures([make_run(many, scores)])) == PER_RUN
    assert len(worst_failures([make_run(many, scores, with_parts=False)])) == WITHOUT_PARTS


def test_without_examples_cards_show_positions() -> None:
    (failure, *_) = worst_failures([make_run(CASES, SCORES, with_cases=False)])
    assert (failure.example, failure.images, failure.texts) == ("b", (), ())
    page = Balanced(render_failure(failure))
    assert page.count("img") == 0
    assert {"caption 1", "caption 2", "0.900"} <= set(page.text)


def test_images_that_cannot_be_opened_leave_the_captions(tmp_path: Path) -> None:
    missing = ImageRef("gone.png", tmp_path / "gone.png")
    cases = {
        "a": Example("a", (missing,), ("right", "wrong"), single_match(2, 0)),
        "b": choice("b"),
    }
    failures = worst_failures([make_run(cases, {"a": [[0.1, 0.9]], "b": [[0.1, 0.8]]})])
    assert [len(failure.images) for failure in failures] == [0, 1]
    assert failures[0].texts == ("right", "wrong")


def test_saved_runs_show_images_again_or_captions_alone(tmp_path: Path) -> None:
    Image.new("RGB", (40, 30), "red").save(tmp_path / "a.png")
    file = tmp_path / "own.jsonl"
    row = {"id": "7", "images": ["a.png"], "texts": ["a dog", "a cat"], "match": [[1, 0]]}
    file.write_text(json.dumps(row) + "\n")
    (tmp_path / "scores.csv").write_text("example,image,text,score\n7,0,0,0.1\n7,0,1,0.4\n")
    write_run(
        measure_score_file(MetricsRequest(str(file), tmp_path / "scores.csv")), tmp_path / "run"
    )
    (failure,) = worst_failures(read_runs(tmp_path / "run"))
    assert (len(failure.images), failure.texts) == (1, ("a dog", "a cat"))

    file.write_text(json.dumps(row | {"texts": ["a dog", "a cow"]}) + "\n")
    (failure,) = worst_failures(read_runs(tmp_path / "run"))
    assert (failure.images, failure.texts) == ((), ("a dog", "a cat"))
    file.unlink()
    (failure,) = worst_failures(read_runs(tmp_path / "run"))
    assert (failure.images, failure.texts) == ((), ("a dog", "a cat"))
    assert "a cat" in Balanced(render_failure(failure)).text
