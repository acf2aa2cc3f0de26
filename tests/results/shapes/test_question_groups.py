"""Question groups: HallusionBench's accuracies of questions, figures and question pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import contrapose as cp
from contrapose.errors import InputError


def build_rows(seed: int) -> list[dict[str, Any]]:
    """Rows of a small HallusionBench, answered at random."""
    rng = np.random.default_rng(seed)
    replies = {0: "No, it is not.", 1: "Yes.", 2: "I cannot see it."}
    return [
        {
            "category": category, "subcategory": "chart", "set_id": str(group),
            "figure_id": str(figure), "question_id": str(question),
            "visual_input": "0" if (category, figure) == ("VS", 0) else "1",
            "question": "Is it?", "gt_answer": str((group + figure + question) % 2),
            "model_prediction": replies[int(rng.integers(3))],
        }
        for category in ("VD", "VS")
        for group in range(6)
        for figure in range(3)
        for question in range(1 + group % 2)
    ]  # fmt: skip


def right_ones(rows: list[dict[str, Any]], *, official: bool) -> list[bool]:
    """Plain form of the released rule, for replies that say yes, no or neither."""
    answers = {"N": "0", "Y": "1", "I": "2"}
    return [
        (official and row["visual_input"] == "0")
        if (said := answers[row["model_prediction"][0]]) == "2"
        else said == row["gt_answer"]
        for row in rows
    ]


def share_of_groups(rows: list[dict[str, Any]], right: list[bool], *keys: str) -> float:
    groups: dict[tuple[str, ...], bool] = {}
    for row, value in zip(rows, right, strict=True):
        if "figure_id" in keys and row["visual_input"] == "0":
            continue
        name = tuple(row[key] for key in ("category", "set_id", *keys))
        groups[name] = groups.get(name, True) and value
    return sum(groups.values()) / len(groups)


@pytest.mark.parametrize("official", [False, True])
def test_results_are_counted_as_the_released_script_does(official: bool, tmp_path: Path) -> None:
    rows = build_rows(3)
    file = tmp_path / "result.json"
    file.write_text(json.dumps(rows))
    protocol: Literal["strict", "official"] = "official" if official else "strict"
    run = cp.measure(file, "hallusionbench", protocol=protocol, partial=True, resamples=100)
    right = right_ones(rows, official=official)
    expected = {
        "accuracy": sum(right) / len(right),
        "figure": share_of_groups(rows, right, "figure_id"),
        "question": share_of_groups(rows, right, "question_id"),
    }
    assert {name: run.metrics[name].value for name in expected} == pytest.approx(expected)
    # Annotations without answers give the same: the file then says no truth of its own.
    (tmp_path / "HallusionBench.json").write_text(json.dumps(rows))
    bare = [{key: row[key] for key in row if key != "gt_answer"} for row in rows]
    file.write_text(json.dumps(bare))
    rooted = cp.measure(file, "hallusionbench", root=tmp_path, protocol=protocol, resamples=100)
    assert rooted.metrics["figure"].value == run.metrics["figure"].value
    # The script's own grades count before the replies.
    grades = [{**row, "gpt4v_output_gpt_check": "1"} for row in rows]
    file.write_text(json.dumps(grades))
    graded = cp.measure(file, "hallusionbench", partial=True, resamples=100)
    assert graded.metrics["question"].value == 1


def test_cosines_need_a_threshold(tmp_path: Path) -> None:
    (tmp_path / "HallusionBench.json").write_text(json.dumps(build_rows(1)))
    scores = np.linspace(-1, 1, len(build_rows(1)))[:, None, None]
    with pytest.raises(InputError, match="threshold"):
        cp.measure(scores, "hallusionbench", root=tmp_path)
    run = cp.measure(scores, "hallusionbench", root=tmp_path, threshold=0.0, resamples=100)
    assert run.metrics["yes_share"].value == pytest.approx(0.5, abs=0.05)


def test_replies_that_are_no_text_are_refused(tmp_path: Path) -> None:
    rows = build_rows(1)
    rows[1]["model_prediction"] = None
    (tmp_path / "result.json").write_text(json.dumps(rows))
    with pytest.raises(InputError, match="model_prediction"):
        cp.measure(tmp_path / "result.json", "hallusionbench", partial=True)
