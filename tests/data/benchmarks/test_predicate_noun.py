"""Predicate-noun dependencies: rows that mirror each other become 2 × 2 examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import contrapose as cp
from contrapose.data import Example
from contrapose.data.benchmarks import predicate_noun
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems

A, B = "a man is sitting", "a man is standing"
ROWS = [
    {"id": 0, "img_filename": "1.jpg", "sentence_target": A, "sentence_distractor": B},
    {"id": 1, "img_filename": "2.jpg", "sentence_target": B, "sentence_distractor": A},
]
FIGURES = {
    "CLIP": (52.09, 20.28, 53.41, 20.28),
    "LXMERT": (76.39, 56.81, 58.67, 44.58),
    "VILT": (67.49, 40.33, 39.32, 25.62),
}


def read(root: Path, rows: list[Any]) -> list[Example]:
    (root / "eval_set.json").write_text(json.dumps(rows))
    return list(predicate_noun.read(root, StrictProblems()))


def test_rows(tmp_path: Path) -> None:
    (example,) = read(tmp_path, [{**row, "pos": "object"} for row in ROWS])
    assert example.texts == (A, B)
    assert [image.key for image in example.images] == ["1.jpg", "2.jpg"]
    assert example.match == ((True, False), (False, True))
    assert example.tags == {"pos": "object"}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS[:1], "mirrors"),
        ([ROWS[0], ROWS[0]], "exchanged"),
        ([ROWS[0], {**ROWS[1], "img_filename": "/etc/passwd"}], "absolute"),
        ([ROWS[0], "x"], "fields"),
        ([ROWS[0], {**ROWS[1], "pos": 3}], "pos"),
    ],
)
def test_malformed_rows(rows: list[Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, rows)
    problems = ProblemList()
    assert not list(predicate_noun.read(tmp_path, problems))
    assert problems.problems


@pytest.mark.parametrize("model", FIGURES)
def test_published_figures(model: str, shared: Path) -> None:
    file = shared / "predicate_noun" / "scores" / f"{model}.csv"
    run = cp.measure(file, "predicate-noun", resamples=100)
    names = ("text_single", "text", "image", "group")
    assert [round(100 * run.metrics[name].value, 2) for name in names] == list(FIGURES[model])
    assert {name: part["text"].n for name, part in run.results.subsets.items()} == {
        "object": 743,
        "subject": 549,
    }
    if model == "CLIP":
        rooted = cp.measure(file, "predicate-noun", root=shared / "predicate_noun", resamples=100)
        assert rooted.metrics["group"].value == run.metrics["group"].value


def test_outcomes_of_people_are_single_choices(shared: Path, tmp_path: Path) -> None:
    run = cp.measure(
        shared / "predicate_noun" / "scores" / "Human.csv", "predicate-noun", resamples=100
    )
    assert list(run.metrics) == ["text_single"]
    assert (run.metrics["text_single"].value, run.metrics["text_single"].n) == (0.998, 500)
    assert set(run.subsets) == {"object", "subject"}
    assert any("outcomes" in note for note in run.results.notes)
    bad = tmp_path / "human.csv"
    bad.write_text("img_filename,pos,result\na.jpg,object,True\nb.jpg,object,maybe\n")
    with pytest.raises(InputError, match="True or False"):
        cp.measure(bad, "predicate-noun")
    with pytest.raises(InputError, match="prior"):
        cp.measure(shared / "predicate_noun" / "scores" / "Human.csv", "predicate-noun", prior=bad)
