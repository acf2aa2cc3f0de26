"""Evaluation panels: scenes, held-out pairs, and zero-shot classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from contrapose.data import Gallery, open_images
from contrapose.errors import InputError
from contrapose.evaluation.selection import PartData, select
from contrapose.tune import panels
from contrapose.tune.data.rows import TrainingCaption, TrainingSet, held_out_count, split_indices
from contrapose.tune.panels import (
    EvaluationPanel,
    make_pairs_panel,
    make_scene_panel,
    make_zero_shot_panel,
)
from contrapose.tune.report import Evaluator, read_metrics
from contrapose.world.benchmark import parse_caption, scene_of
from contrapose.world.captions import is_true
from tests.tune.small import class_folders, small_rows, small_student


def parts(panel: EvaluationPanel) -> dict[str, PartData]:
    return {name: data for name, (_, data) in select(panel.suite).parts.items()}


def counts(panel: EvaluationPanel) -> dict[str, int]:
    """Examples, or images of a gallery."""
    return {
        name: len(data) if isinstance(data, list) else len(data.images)
        for name, data in parts(panel).items()
    }


def test_scenes() -> None:
    panel = make_scene_panel(2)
    assert counts(panel) == {
        "swaps": 4, "replacements": 12, "changes": 6, "hard-positives": 6, "retrieval": 4,
        "naming": 4,
    }  # fmt: skip
    families = [benchmark.card.family for benchmark in panel.suite.parts.values()]
    assert families == ["choice", "choice", "pairs", "triple", "retrieval", "classes"]
    swaps, naming = parts(panel)["swaps"], parts(panel)["naming"]
    assert isinstance(swaps, list)
    assert isinstance(naming, Gallery)
    for example in swaps:
        for text, right in zip(example.texts, example.match[0], strict=True):
            caption = parse_caption(text)
            assert caption is not None
            assert is_true(caption, scene_of(example.images[0])) is right
    for image, name in naming.pairs:
        caption = parse_caption(naming.texts[name])
        assert caption is not None
        assert is_true(caption, scene_of(naming.images[image]))


def test_held_out_pairs() -> None:
    rows = small_rows()
    panel = make_pairs_panel(rows, small_student().model)
    found = counts(panel)
    assert found["replacements"] == 16
    assert found["hard-positives"] == 8
    assert found["retrieval"] == 12
    assert 0 < found["close-pairs"] <= 12
    assert "swaps" not in found
    close = parts(panel)["close-pairs"]
    assert isinstance(close, list)
    for example in close:
        assert example.images[0] != example.images[1]
        assert example.texts[0] != example.texts[1]
        (image,) = open_images(example.images[:1])
        (same,) = rows.images.open([int(example.images[0].key)])
        assert image.tobytes() == same.tobytes()


def test_the_same_caption_twice_is_no_retrieval() -> None:
    images = small_rows(3).images
    rows = TrainingSet(
        images,
        [[TrainingCaption("a ball")], [TrainingCaption("a ball")], [TrainingCaption("a cube")]],
    )
    assert counts(make_pairs_panel(rows)) == {"retrieval": 2}


def test_kinds_are_pooled() -> None:
    kinds = ("exchange-object", "order-trigrams", "attribute", "negation")
    negatives = tuple((f"wrong {kind}", kind) for kind in kinds)
    panel = make_pairs_panel(
        TrainingSet(small_rows(1).images, [[TrainingCaption("right", negatives)]])
    )
    assert counts(panel) == {"swaps": 2, "replacements": 1, "other-changes": 1}


def test_nothing_to_measure() -> None:
    with pytest.raises(InputError, match="nothing to measure"):
        make_pairs_panel(TrainingSet(small_rows(1).images, [[TrainingCaption("alone")]]))


def test_held_out_rows_are_not_training_rows() -> None:
    assert [held_out_count(12, share) for share in (0.25, 0.0001, 0.9999)] == [3, 1, 11]
    train, test = split_indices(12, 3, (1, 3))
    assert (len(train), len(test)) == (9, 3)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(12))
    assert split_indices(12, 3, (1, 3))[1].tolist() == test.tolist()
    assert split_indices(12, 3, (2, 3))[1].tolist() != test.tolist()


def test_several_prompts_are_averaged(tmp_path: Path) -> None:
    folder = class_folders(tmp_path, classes=6, each=2)
    (folder / "templates.txt").write_text("a {}\nthe {} of a {}\nthe {}\n".replace("of a {}", "of"))
    panel = make_zero_shot_panel(folder)
    gallery = parts(panel)["zero-shot"]
    assert isinstance(gallery, Gallery)
    model: Any = small_student().model
    measures = Evaluator(panel).measure(model)["zero-shot"].measures
    wins, five = [], []
    names = sorted(each.name for each in folder.iterdir() if each.is_dir())
    prompts = [[f"a {name}", f"the {name} of", f"the {name}"] for name in names]
    means = torch.stack([normalize(model.embed_texts(some).mean(0), dim=0) for some in prompts])
    for image, right in gallery.pairs:
        scores = (model.embed_images(open_images([gallery.images[image]])) @ means.T)[0]
        rank = int((scores > scores[right]).sum())
        wins.append(float(rank < 1))
        five.append(float(rank < 5))
    assert measures["top1"].values.tolist() == wins
    assert measures["top5"].values.tolist() == five


def test_few_classes_have_no_first_five(tmp_path: Path) -> None:
    panel = make_zero_shot_panel(class_folders(tmp_path, classes=5, each=1))
    assert list(read_metrics(Evaluator(panel).measure(small_student().model))) == ["zero-shot/top1"]


def test_two_panels_are_one(tmp_path: Path) -> None:
    """Every metric is what the panel alone gives."""
    model = small_student().model
    for first in (make_pairs_panel(small_rows(kept=False), model), make_scene_panel(2)):
        second = make_zero_shot_panel(class_folders(tmp_path, classes=4, each=2))
        both = read_metrics(Evaluator(first + second).measure(model))
        apart = Evaluator(first).measure(model) | Evaluator(second).measure(model)
        assert both == read_metrics(apart)
        assert "zero-shot/top1" in both


def test_a_large_folder_is_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "MAX_ZERO_SHOT_IMAGES", 5)
    folder = class_folders(tmp_path, classes=4, each=3)
    one, same = make_zero_shot_panel(folder), make_zero_shot_panel(folder)
    gallery = parts(one)["zero-shot"]
    assert isinstance(gallery, Gallery)
    assert len(gallery.images) == 5
    assert "5 images of 4 classes" in one.source
    assert len(np.unique([label for _, label in gallery.pairs])) > 1
    assert gallery == parts(same)["zero-shot"]


def test_refused_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one class"):
        make_zero_shot_panel(class_folders(tmp_path / "one", classes=1, each=2))
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="holds no folder with an image"):
        make_zero_shot_panel(tmp_path / "none")
    with pytest.raises(InputError, match="gone"):
        make_zero_shot_panel(tmp_path / "gone")
