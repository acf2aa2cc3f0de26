"""Questions of NaturalBench by `vqa`: asked as they stand, the first answer against the second."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import contrapose as cp
from contrapose.errors import InputError
from contrapose.models import QuestionTemplate
from tests.fakes import Fake

YES_NO = "Please answer Yes or No."
LETTERS = "Please output the letter corresponding to the correct option."
BRIGHT = {"Yes": -3.0, "No": -4.0, "A": -2.5, "B": -2.0}
"""log P of answers about a bright image; about a dark one the two change places."""
OPTIONS: dict[str, Any] = {
    "on": "naturalbench", "score": "vqa", "cache": False, "resamples": 100,
}  # fmt: skip
OTHER = {"Yes": "No", "No": "Yes", "A": "B", "B": "A"}


@dataclass
class Answering(Fake):
    """A model that knows whether an image is bright, and says little else than the answers."""

    asked: list[tuple[str, str]] = field(default_factory=list)

    def answer_logprobs(
        self, images: Sequence[Any], texts: Sequence[str], question: QuestionTemplate
    ) -> torch.Tensor:
        values = []
        for image, text in zip(images, texts, strict=True):
            self.asked.append((question.about(text), question.answer))
            bright = image.convert("L").getpixel((0, 0)) > 127
            turned = bright == ("dark" in text)
            values.append(BRIGHT[OTHER[question.answer] if turned else question.answer])
        return torch.tensor(values)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, value in (("bright", 200), ("dark", 40)):
        (tmp_path / "images").mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (value,) * 3).save(tmp_path / "images" / f"{name}.png")
    rows = [
        [f"Is it {word}?{YES_NO}", f"{image}.png", "Yes" if word == image else "No", "yes_no"]
        for word in ("bright", "dark")
        for image in ("bright", "dark")
    ] + [
        [f"Which is it, {word}?\nOption: A: x; B: y;\n{LETTERS}", f"{image}.png",
         "B" if word == image else "A", "multiple_choice"]
        for word in ("bright", "dark")
        for image in ("bright", "dark")
    ]  # fmt: skip
    (tmp_path / "test_set.json").write_text(json.dumps(rows))
    return tmp_path


def test_questions_are_asked_as_they_stand(root: Path) -> None:
    model = Answering()
    run: Any = cp.evaluate(model, **OPTIONS, root=root)
    assert {text for text, _ in model.asked} == {
        f"Is it bright?{YES_NO}", f"Is it dark?{YES_NO}",
        f"Which is it, bright?\nOption: A: x; B: y;\n{LETTERS}",
        f"Which is it, dark?\nOption: A: x; B: y;\n{LETTERS}",
    }  # fmt: skip
    assert {(LETTERS in text, answer) for text, answer in model.asked} == {
        (False, "Yes"), (False, "No"), (True, "A"), (True, "B"),
    }  # fmt: skip
    # no answer has a probability above ½, and yet the likelier one of two is right everywhere
    assert {run.metrics[name].value for name in ("question", "image", "single", "group")} == {1.0}
    cells = [cell for row in run.examples() for image in row["scores"] for cell in image]
    assert sorted({round(cell, 4) for cell in cells}) == [0.2689, 0.3775, 0.6225, 0.7311]
    assert "'Yes' against 'No' or 'A' against 'B'" in run.results.notes[0]
    assert run.record.spec["stored_as"].startswith("vqa:pair:")


def test_an_answer_or_question_of_the_user_s(root: Path) -> None:
    model = Answering()
    cp.evaluate(model, **OPTIONS, root=root, question="So: {}")
    assert all(text.startswith("So: ") for text, _ in model.asked)
    named = Answering()
    run: Any = cp.evaluate(named, **OPTIONS, root=root, answer="No")
    assert {answer for _, answer in named.asked} == {"No"}
    assert "log P('No')" in run.results.notes[0]


def test_scores_that_give_no_answer_are_refused(root: Path) -> None:
    for score in ("itc", "itm", "lm"):
        with pytest.raises(InputError, match="ask vqa"):
            cp.evaluate(Answering(), **{**OPTIONS, "score": score}, root=root)


def test_shards_score_both_answers(root: Path, tmp_path: Path) -> None:
    plain: Any = cp.evaluate(Answering(), **OPTIONS, root=root)
    stored = {**OPTIONS, "cache": tmp_path / "store", "root": root}
    for i in (1, 2):
        cp.evaluate(Answering(), **stored, shard=(i, 2))
    model = Answering()
    merged: Any = cp.evaluate(model, **stored)
    assert model.asked == []
    assert merged.metrics["group"] == plain.metrics["group"]
