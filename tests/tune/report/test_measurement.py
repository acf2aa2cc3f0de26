from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from contrapose import metrics
from contrapose.errors import InputError
from contrapose.losses import Dividend
from contrapose.tune.data.rows import TrainingSet
from contrapose.tune.masked_batches import mask_players
from contrapose.tune.report import Line, make_bill
from contrapose.tune.report.measurement import Measurer, trial_lines
from contrapose.tune.report.panels import EvaluationPanel, Trial, make_pairs_panel
from tests.tune.small import small_rows, small_student


def line(name: str, values: list[float], **more: object) -> Line:
    return Line(name, np.array(values, dtype=np.float64), **more)  # type: ignore[arg-type]


def test_verdicts() -> None:
    k = 60
    random = np.random.default_rng(0)
    noise = random.normal(size=k)
    before = {
        "up": line("up", [0.0] * k),
        "down": line("down", [1.0] * k),
        "brittle": line("brittle", [0.0] * k, better="lower"),
        "still": line("still", [0.0, 1.0] * (k // 2)),
        "score": line("score", noise.tolist(), binary=False),
    }
    after = {
        "up": line("up", [1.0] * k),
        "down": line("down", [0.0] * k),
        "brittle": line("brittle", [1.0] * k, better="lower"),
        "still": line("still", [1.0, 0.0] * (k // 2)),
        "score": line("score", (noise + 1).tolist(), binary=False),
    }
    found = make_bill(before, after, model="m", objective="hn", source="here")
    assert {item.name: item.verdict for item in found.items} == {
        "up": "better", "down": "worse", "brittle": "worse", "still": "no evidence",
        "score": "better",
    }  # fmt: skip
    assert found.item("up").test == "mcnemar-midp"
    assert found.item("score").test == "paired-bootstrap"
    assert found.item("score").difference == pytest.approx(1.0)
    written = json.loads(json.dumps(found.as_dict()))
    assert written["items"][1]["difference"] == -1.0


def test_the_correction_counts_all_items() -> None:
    before = {str(i): line(str(i), [0.0] * 12) for i in range(8)}
    after = {str(i): line(str(i), [1.0] * (6 if i == 0 else 0) + [0.0] * (6 if i == 0 else 12))
             for i in range(8)}  # fmt: skip
    item = make_bill(before, after).item("0")
    plain = metrics.mcnemar([0] * 12, [1] * 6 + [0] * 6, method="midp").p
    assert item.p == plain < 0.05
    assert item.p_holm == pytest.approx(min(1.0, 8 * plain))
    assert item.verdict == "no evidence"


def test_pictures_that_repeat_are_drawn_together() -> None:
    clusters = np.repeat(np.arange(3), 20)
    values = np.repeat([0.0, 0.0, 1.0], 20).tolist()
    found = make_bill(
        {"a": line("a", [0.0] * 60, clusters=clusters)}, {"a": line("a", values, clusters=clusters)}
    )
    assert found.item("a").test == "too few"
    assert found.item("a").verdict == "no evidence"
    many = np.repeat(np.arange(30), 2)
    one, other = (line("a", [v] * 60, clusters=many) for v in (0.0, 1.0))
    assert make_bill({"a": one}, {"a": other}).item("a").test == "paired-bootstrap"
    assert make_bill({"a": one}, {"a": other}).item("a").verdict == "better"


def test_other_examples_are_refused() -> None:
    with pytest.raises(InputError, match="same examples"):
        make_bill({"a": line("a", [1.0])}, {"a": line("a", [1.0, 0.0])})
    with pytest.raises(InputError, match="same examples"):
        make_bill({"a": line("a", [1.0])}, {})


def of(kind: Any, scores: Any, images: Any = None, right: Any = None) -> dict[str, float]:
    array = np.asarray(scores, dtype=np.float64)
    k = len(array)
    places = np.arange(k)[:, None] if images is None else np.asarray(images)
    chosen = None if right is None else np.asarray(right)
    test = Trial("it", kind, places, np.zeros((k, 2), dtype=np.int64), chosen)
    return {line.name: line.value for line in trial_lines(test, array)}


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
    panel = EvaluationPanel("it", Shown(rows), texts, [swaps])
    student = small_student()
    assert set(Measurer(panel).measure(student.model)) == {"swaps"}
    line = Measurer(panel, share=True).measure(student.model)["interaction_share"]
    assert (len(line.values), line.better, line.binary) == (2, "higher", False)
    images = student.model.embed_images(rows.images.open([0, 1]))
    for value, image, pair in zip(line.values, images, ((0, 1), (3, 0)), strict=True):
        games = [
            student.model.embed_texts([*(mask_players(texts[it]) or ()), texts[it]])[None]
            for it in pair
        ]
        assert value == pytest.approx(Dividend().shares(image[None, None], *games).item(), rel=1e-4)
    student.model.text_masks = ()  # type: ignore[assignment]
    assert set(Measurer(panel, share=True).measure(student.model)) == {"swaps"}


class Shown:
    """The pictures of some rows."""

    def __init__(self, rows: TrainingSet):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def open(self, places: Any) -> Any:
        return self.rows.images.open(places)


def test_a_picture_that_comes_twice_is_a_cluster() -> None:
    test = Trial("it", "choice", np.array([[0], [0], [1]]), np.zeros((3, 2), dtype=np.int64))
    (line,) = trial_lines(test, np.ones((3, 1, 2)))
    assert line.clusters is not None
    assert line.clusters.tolist() == [0, 0, 1]


def test_measured_as_the_model_answers() -> None:
    student = small_student(fusion=True)
    rows = small_rows(kept=False)
    panel = make_pairs_panel(rows, student.model)
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
    panel = make_pairs_panel(small_rows(kept=False), student.model)
    opened: list[int] = []

    class Counted:
        def __len__(self) -> int:
            return len(panel.images)

        def open(self, places: Any) -> Any:
            opened.extend(places)
            return panel.images.open(places)

    measurer = Measurer(EvaluationPanel("it", Counted(), panel.texts, panel.tests))
    first = measurer.measure(student.model)
    second = measurer.measure(student.model)
    assert sorted(opened) == list(range(len(panel.images)))
    assert first.keys() == second.keys()


def test_scores_that_are_no_numbers() -> None:
    student = small_student()
    panel = make_pairs_panel(small_rows(kept=False), student.model)
    with torch.no_grad():
        student.network.image.project.weight.fill_(torch.nan)
    with pytest.raises(InputError, match="no numbers"):
        Measurer(panel).measure(student.model)
