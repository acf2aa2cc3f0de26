from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contrapose.build.video.filters import FrameFilters
from contrapose.build.video.steps import pair_steps, read_steps
from contrapose.errors import InputError
from contrapose.files import StrictProblems


def write(path: Path, database: object) -> Path:
    path.write_text(json.dumps({"database": database}), encoding="utf-8")
    return path


def step(start: float, end: float, sentence: str) -> dict[str, Any]:
    return {"segment": [start, end], "id": 0, "sentence": sentence}


def test_any_two_steps_of_a_video(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.json",
        {
            "a": {
                "duration": 60.0,
                "subset": "training",
                "annotations": [
                    step(0, 10, "cut  it"),
                    step(10, 15, "fry it"),
                    step(20, 21, "Cut it"),
                ],
            },
            "b": {"annotations": [step(0, 1, "stir it")]},
            "test": {"duration": 3.0},
        },
    )
    steps, counts = read_steps(path, StrictProblems())
    assert counts == {"steps": 4}
    candidates = pair_steps(steps, FrameFilters())
    pairs, before = candidates["a"]
    assert [pair.captions for pair in pairs] == [("cut it", "fry it"), ("fry it", "Cut it")]
    assert [moment.time for moment in pairs[0].moments] == [5.0, 12.5]
    assert before == {"pairs of steps": 3, "different captions": 2}
    assert candidates["b"][0] == []
    assert pair_steps(steps, FrameFilters(motion_words=("fry",)))["a"][0] == []


@pytest.mark.parametrize(
    ("database", "words"),
    [
        ({}, "no steps"),
        ({"a": []}, "list of annotations"),
        ({"a": {"annotations": [{"sentence": "x"}]}}, "segment"),
        ({"a": {"annotations": [step(5, 3, "x")]}}, "no span"),
        ({"a": {"annotations": [{"segment": [1, "x"], "sentence": "x"}]}}, "number"),
        ({"a": {"annotations": [{"segment": [1], "sentence": "x"}]}}, "two times"),
        ({"a": {"annotations": [step(1, 2, " ")]}}, "sentence"),
    ],
)
def test_wrong_steps(tmp_path: Path, database: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_steps(write(tmp_path / "s.json", database), StrictProblems())
