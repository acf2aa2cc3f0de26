"""Two questions × two images: answers and replies, counted as the released script does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import contrapose as cp
from contrapose.data import find_single_benchmark
from contrapose.errors import InputError
from contrapose.results import MeasureInput, measure
from contrapose.scores import Answers, build_frame_from_card
from contrapose.scores.layouts import parse_reply

FIELDS = ("q0_i0", "q0_i1", "q1_i0", "q1_i1")
NAMES = ("question", "image", "single", "group")


def count_officially(groups: list[tuple[int, ...]]) -> list[float]:
    """The four accuracies of answers 1, 0 and −1, as the released script sums them up."""
    question = image = single = group = 0
    for a, b, c, d in groups:
        questions = (a == 1 and b == 0) + (d == 1 and c == 0)
        images = (a == 1 and c == 0) + (d == 1 and b == 0)
        question, image = question + questions, image + images
        single += (a == 1) + (b == 0) + (c == 0) + (d == 1)
        group += questions == images == 2
    n = len(groups)
    return [question / (2 * n), image / (2 * n), single / (4 * n), group / n]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(*[st.sampled_from([-1, 0, 1])] * 4), min_size=1, max_size=8))
def test_answers(groups: list[tuple[int, ...]]) -> None:
    card = find_single_benchmark("naturalbench").card
    frame = build_frame_from_card(card, [str(i) for i in range(len(groups))], {})
    scores = np.array(groups, dtype=np.float64).reshape(-1, 2, 2).transpose(0, 2, 1)
    scores[scores < 0] = 0.5
    result = measure(MeasureInput(Answers(frame, scores), card))
    values = [result.measures[name].values.mean() for name in NAMES]
    assert values == pytest.approx(count_officially(groups))


def random_answers(seed: int = 0) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    return [tuple(row) for row in rng.integers(-1, 2, (200, 4)).tolist()]


def test_files_of_answers_and_replies_agree(tmp_path: Path) -> None:
    groups = random_answers()
    answers = {str(i): dict(zip(FIELDS, row, strict=True)) for i, row in enumerate(groups)}
    words = {1: "Yes, it is.", 0: "no", -1: "I cannot tell."}
    flat = [words[value] for row in groups for value in row]
    rows = [{"id": i, "reply": text} for i, text in enumerate(flat)]
    placed = [
        {"example": i // 4, "image": i % 2, "text": i % 4 // 2, "output": text}
        for i, text in enumerate(flat)
    ]
    files: dict[str, Any] = {"answers.json": answers, "replies.json": flat}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    for name, listed in (("rows.jsonl", rows[::-1]), ("placed.jsonl", placed)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in listed))
    expected = count_officially(groups)
    for name in ("answers.json", "replies.json", "rows.jsonl", "placed.jsonl"):
        run = cp.measure(tmp_path / name, "naturalbench", partial=True, resamples=100)
        assert [run.metrics[metric].value for metric in NAMES] == pytest.approx(expected), name
        silent = sum(value < 0 for row in groups for value in row)
        if name != "answers.json":
            assert any(f"{silent:,} of 800 replies" in note for note in run.results.notes)
    assert run.metrics["group"].chance == 1 / 16


@pytest.mark.parametrize(
    ("reply", "kind", "score"),
    [
        ("Yes.", "yes_no", 1),
        ("No, yes would be wrong", "yes_no", 0),
        ("Nobody", "yes_no", 0.5),
        ("B: Helmet", "multiple_choice", 0),
        ("a) no cap", "multiple_choice", 1),
        ("yes", "multiple_choice", 0.5),
        ("A", "yes_no", 0.5),
        ("(A) Knit cap", None, 1),
        ("b", None, 0),
        ("yes, a dog", None, 1),
        ("there is a dog", None, 0.5),
        ("A: no cap", None, None),
        ("", None, 0.5),
    ],
)
def test_replies(reply: str, kind: str | None, score: float | None) -> None:
    assert parse_reply(reply, kind) == score


def test_types_come_from_rows_or_from_the_files(tmp_path: Path, shared: Path) -> None:
    flat = ["A: no cap"] * 80
    file = tmp_path / "replies.json"
    file.write_text(json.dumps(flat))
    with pytest.raises(InputError, match="type of the question"):
        cp.measure(file, "naturalbench", partial=True)
    typed = tmp_path / "typed.jsonl"
    rows = [{"id": i, "reply": text, "type": "mcq"} for i, text in enumerate(flat)]
    typed.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = cp.measure(typed, "naturalbench", partial=True, resamples=100)
    assert run.metrics["single"].value == 1 / 2
    rooted = tmp_path / "rooted.jsonl"
    lines = [
        {"example": f"{split}/{i}", "image": m, "text": n, "reply": "A: no cap"}
        for split in ("test", "train")
        for i in range(950)
        for m in (0, 1)
        for n in (0, 1)
    ]
    rooted.write_text("".join(json.dumps(row) + "\n" for row in lines))
    run = cp.measure(rooted, "naturalbench", root=shared / "naturalbench", resamples=100)
    assert run.metrics["single"].value == 1 / 2
    assert run.metrics["group"].value == 0
    assert {name: part["group"].n for name, part in run.results.subsets.items()} == {
        "yes_no": 1450,
        "multiple_choice": 450,
    }


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"q0_i0": 2, "q0_i1": 0, "q1_i0": 0, "q1_i1": 1}, "no answer"),
        ({"q0_i0": 1, "q0_i1": 0, "q1_i0": 0}, "missing"),
        ({"id": -1, "reply": "yes"}, "negative"),
        ({"id": 0, "reply": None}, "text"),
        ({"id": 0, "reply": "yes", "type": "essay"}, "type of question"),
        ({"id": 7600, "reply": "yes"}, "1900"),
    ],
)
def test_malformed_rows(row: dict[str, Any], words: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=words):
        cp.measure(file, "naturalbench", partial=True)


def test_cosines_need_a_threshold() -> None:
    scores = np.full((1900, 2, 2), -1.0) + 3 * np.eye(2)
    with pytest.raises(InputError, match="threshold"):
        cp.measure(scores, "naturalbench")
    assert cp.measure(scores, "naturalbench", threshold=0.0).metrics["group"].value == 1
