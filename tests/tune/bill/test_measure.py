from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from contrapose.errors import InputError
from contrapose.tune.bill.measure import Measurer, lines_of
from contrapose.tune.bill.panel import Panel, Trial
from contrapose.tune.bill.rows import rows_panel
from contrapose.tune.data.rows import Rows
from contrapose.tune.games import masked_texts
from contrapose.tune.losses import Dividend
from tests.tune.small import small_rows, small_student


def of(kind: Any, scores: Any, images: Any = None, right: Any = None) -> dict[str, float]:
    array = np.asarray(scores, dtype=np.float64)
    k = len(array)
    places = np.arange(k)[:, None] if images is None else np.asarray(images)
    chosen = None if right is None else np.asarray(right)
    test = Trial("it", kind, places, np.zeros((k, 2), dtype=np.int64), chosen)
    return {line.name: line.value for line in lines_of(test, array)}


def test_choice_knows_no_wins_by_ties() -> None:
    assert of("choice", [[[2, 1]], [[1, 1]], [[0, 1]], [[3, 1]]]) == {"it": 0.5}


def test_pairs() -> None:
    scores = [[[2, 1], [1, 2]], [[2, 1], [3, 2]]]
    found = of("pairs", scores)
    assert (found["text"], found["image"], found["group"]) == (0.5, 0.5, 0.5)
    spread = np.std(scores)
    e_text, e_image = np.array([0, (2 - 1) - (2 - 3)]), np.array([0, (2 - 3) - (2 - 1)])
    mean = (np.abs(e_text) + np.abs(e_image)).mean() / 2 / spread
    assert found["equivariance"] == pytest.approx(mean)
    both = np.concatenate([e_text, e_image]) / spread
    assert found["equivariance_sd"] == pytest.approx(both.std(), rel=0.2)


def test_triples() -> None:
    found = of("triple", [[[3, 2, 1]], [[3, 1, 2]], [[1, 2, 3]], [[1, 3, 2]]])
    assert found == {"original": 0.5, "augmented": 0.25, "brittleness": 0.5, "right_score": 2.0}


def test_gallery_and_classes() -> None:
    scores = np.eye(3)
    scores[0] = [0.5, 1, 0]
    found = of("gallery", scores)
    assert found["image_to_text_r1"] == pytest.approx(2 / 3)
    assert found["image_to_text_r5"] == 1
    assert of("classes", scores, right=[1, 1, 0]) == {"it": pytest.approx(2 / 3)}


def test_the_share_of_interactions() -> None:
    rows = small_rows()
    texts = ["a red ball", "a blue cube", "a ball", "a red cube left of a ball"]
    swaps = Trial("swaps", "choice", np.array([[0], [1], [1]]), np.array([[0, 1], [2, 1], [3, 0]]))
    panel = Panel("it", Shown(rows), texts, [swaps])
    student = small_student()
    assert set(Measurer(panel).measure(student.model)) == {"swaps"}
    line = Measurer(panel, share=True).measure(student.model)["interaction_share"]
    assert (len(line.values), line.better, line.binary) == (2, "higher", False)
    images = student.model.embed_images(rows.images.open([0, 1]))
    for value, image, pair in zip(line.values, images, ((0, 1), (3, 0)), strict=True):
        games = [
            student.model.embed_texts([*(masked_texts(texts[it]) or ()), texts[it]])[None]
            for it in pair
        ]
        assert value == pytest.approx(Dividend().shares(image[None, None], *games).item(), rel=1e-4)
    student.model.text_masks = ()  # type: ignore[assignment]
    assert set(Measurer(panel, share=True).measure(student.model)) == {"swaps"}


class Shown:
    """The pictures of some rows."""

    def __init__(self, rows: Rows):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def open(self, places: Any) -> Any:
        return self.rows.images.open(places)


def test_a_picture_that_comes_twice_is_a_cluster() -> None:
    test = Trial("it", "choice", np.array([[0], [0], [1]]), np.zeros((3, 2), dtype=np.int64))
    (line,) = lines_of(test, np.ones((3, 1, 2)))
    assert line.clusters is not None
    assert line.clusters.tolist() == [0, 0, 1]


def test_measured_as_the_model_answers() -> None:
    student = small_student(fusion=True)
    rows = small_rows(kept=False)
    panel = rows_panel(rows, student.model)
    measurer = Measurer(panel)
    lines = measurer.measure(student.model)
    (choice,) = (test for test in panel.tests if test.name == "replacements")
    wins = []
    for image, (right, wrong) in zip(choice.images[:, 0], choice.texts, strict=True):
        seen = student.model.embed_images(panel.images.open([int(image)]))[0]
        read = student.model.embed_texts([panel.texts[right], panel.texts[wrong]])
        wins.append(float(seen @ read[0] > seen @ read[1]))
    assert lines["replacements"].values.tolist() == wins
    judged = measurer.measure(student.model, "itm")
    model: Any = student.model
    image, (right, wrong) = int(choice.images[0, 0]), choice.texts[0]
    answers = model.match(panel.images.open([image] * 2), [panel.texts[right], panel.texts[wrong]])
    assert judged["replacements"].values[0] == float(answers[0] > answers[1])
    assert "image_to_text_r1" not in judged


def test_pictures_are_opened_once() -> None:
    student = small_student()
    panel = rows_panel(small_rows(kept=False), student.model)
    opened: list[int] = []

    class Counted:
        def __len__(self) -> int:
            return len(panel.images)

        def open(self, places: Any) -> Any:
            opened.extend(places)
            return panel.images.open(places)

    measurer = Measurer(Panel("it", Counted(), panel.texts, panel.tests))
    first = measurer.measure(student.model)
    second = measurer.measure(student.model)
    assert sorted(opened) == list(range(len(panel.images)))
    assert first.keys() == second.keys()


def test_scores_that_are_no_numbers() -> None:
    student = small_student()
    panel = rows_panel(small_rows(kept=False), student.model)
    with torch.no_grad():
        student.network.image.project.weight.fill_(torch.nan)
    with pytest.raises(InputError, match="no numbers"):
        Measurer(panel).measure(student.model)
