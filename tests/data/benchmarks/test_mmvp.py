"""MMVP: pairs of statements and of questions; four disputed answers."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import contrapose as cp
from contrapose.data import Example, find_single_benchmark
from contrapose.data.benchmarks.mmvp import parse_options
from contrapose.errors import InputError
from contrapose.files import ProblemList, Problems, StrictProblems

HEADER = ["Index", "Question", "Options", "Correct Answer"]


def read(name: str, root: Path, problems: Problems | None = None) -> list[Example]:
    data = find_single_benchmark(name).read(root, problems or StrictProblems())
    assert isinstance(data, Iterator)
    return list(data)


def write_table(root: Path, rows: list[list[str]]) -> None:
    with (root / "Questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def test_statements(tmp_path: Path) -> None:
    rows = [["1", "Texts", "one sign"], ["2", "Texts", "two signs"], ["3", "Texts", "alone"]]
    write_table(tmp_path, [["Question ID", "Type", "Statement"], *rows[:2]])
    (example,) = read("mmvp-vlm", tmp_path)
    assert (example.id, example.texts) == ("0", ("a photo of one sign", "a photo of two signs"))
    assert example.tags == {"pattern": "Texts"}
    assert example.images[1].path == tmp_path / "MLLM_VLM Images" / "Texts" / "2.jpg"
    write_table(tmp_path, [["Question ID", "Type", "Statement"], *rows])
    problems = ProblemList()
    assert len(read("mmvp-vlm", tmp_path, problems)) == len(problems.problems) == 1
    write_table(tmp_path, [["a", "b", "c"], rows[0], ["2", "Color", "two signs"]])
    with pytest.raises(InputError, match="two types"):
        read("mmvp-vlm", tmp_path)


def test_questions(tmp_path: Path) -> None:
    open_ = ["Are they open?", "(a) Open (b) Closed"]
    write_table(tmp_path, [HEADER, ["1", *open_, "(a)"], ["2", *open_, "(b)"]])
    first, second = read("mmvp", tmp_path)
    assert first.texts == ("Are they open? Open", "Are they open? Closed")
    assert (first.match, second.match) == (((True, False),), ((False, True),))
    assert first.tags == second.tags == {"pair": "1", "answer": "undisputed"}
    assert first.images[0].path == tmp_path / "MMVP Images" / "1.jpg"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (["0", "Is it?", "(a) x (b) y", "(a)"], "from 1"),
        (["1", "Is it?", "(a) x", "(a)"], "Options"),
        (["1", "Is it?", "(a) x (c) y", "(a)"], "Options"),
        (["1", "Is it?", "(a) x (b) y", "(c)"], "no option"),
        (["1", "", "(a) x (b) y", "(a)"], "Question"),
    ],
)
def test_malformed_questions(row: list[str], words: str, tmp_path: Path) -> None:
    write_table(tmp_path, [HEADER, row])
    with pytest.raises(InputError, match=words):
        read("mmvp", tmp_path)


def test_options_may_hold_brackets() -> None:
    assert parse_options("(a) Yes (left) (b) No") == {"a": "Yes (left)", "b": "No"}


def test_disputed_answers_count_in_the_official_protocol_alone(tmp_path: Path) -> None:
    rows = [
        {
            "question_id": n,
            "prompt": "Does it sit? (a) Sitting (b) Standing",
            "answer": "(a)" if n % 2 else "(b)",
            # the disputed ones are answered against the released answers
            "response": "(b) Standing" if (n % 2 == 0) != (n in (99, 100, 279, 280)) else "A",
        }
        for n in range(1, 301)
    ]
    rows[0]["response"] = "It is standing"
    rows[2]["response"] = "I cannot tell."
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = cp.measure(file, "mmvp", resamples=100)
    assert run.results.examples == 296
    assert run.metrics["pair"].n == 148
    assert run.metrics["accuracy"].value == pytest.approx(294 / 296)
    assert run.metrics["pair"].value == pytest.approx(146 / 148)
    assert any("reported to be wrong" in note for note in run.results.notes)
    official = cp.measure(file, "mmvp", protocol="official", resamples=100)
    assert official.metrics["accuracy"].value == pytest.approx(294 / 300)
    assert official.metrics["pair"].value == pytest.approx(146 / 150)
    assert official.subsets["reported wrong"]["accuracy"].value == 0
