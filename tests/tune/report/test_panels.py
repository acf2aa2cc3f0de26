"""Zero-shot classification as a test of any panel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.tune.report import Measurer, panels
from contrapose.tune.report.panels import join_panels, make_pairs_panel, make_zero_shot_panel
from contrapose.tune.report.scenes import make_scene_panel
from tests.tune.small import class_folders, small_rows, small_student


def test_several_prompts_are_averaged(tmp_path: Path) -> None:
    folder = class_folders(tmp_path, classes=6, each=2)
    (folder / "templates.txt").write_text("a {}\nthe {} of a {}\nthe {}\n".replace("of a {}", "of"))
    panel = make_zero_shot_panel(folder)
    (test,) = panel.tests
    assert test.texts.shape == (6, 3)
    model: Any = small_student().model
    lines = Measurer(panel).measure(model)
    wins, five = [], []
    names = sorted(each.name for each in folder.iterdir() if each.is_dir())
    prompts = [[f"a {name}", f"the {name} of", f"the {name}"] for name in names]
    means = torch.stack([normalize(model.embed_texts(some).mean(0), dim=0) for some in prompts])
    assert test.right is not None
    for place, right in enumerate(test.right.tolist()):
        scores = (model.embed_images(panel.images.open([place])) @ means.T)[0]
        rank = int((scores > scores[right]).sum())
        wins.append(float(rank < 1))
        five.append(float(rank < 5))
    assert lines["zero_shot"].values.tolist() == wins
    assert lines["zero_shot_top5"].values.tolist() == five
    assert lines["zero_shot"].binary


def test_few_classes_have_no_first_five(tmp_path: Path) -> None:
    lines = Measurer(make_zero_shot_panel(class_folders(tmp_path, classes=5, each=1))).measure(
        small_student().model
    )
    assert list(lines) == ["zero_shot"]


def test_two_panels_are_one(tmp_path: Path) -> None:
    """Every line is what the panel alone gives, and pictures stay in order."""
    model = small_student().model
    for first in (make_pairs_panel(small_rows(kept=False), model), make_scene_panel(2)):
        second = make_zero_shot_panel(class_folders(tmp_path, classes=4, each=2))
        both = join_panels(first, second)
        found = Measurer(both).measure(model)
        apart = Measurer(first).measure(model) | Measurer(second).measure(model)
        assert found.keys() == apart.keys()
        for name, line in found.items():
            np.testing.assert_allclose(line.values, apart[name].values, atol=1e-4)
        assert "zero_shot" in found
        last = len(first.images) + 3
        mixed = both.images.open([last, 0, last - 1])
        alone = [second.images.open([3])[0], first.images.open([0])[0], second.images.open([2])[0]]
        assert [each.tobytes() for each in mixed] == [each.tobytes() for each in alone]


def test_a_large_folder_is_drawn_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "MAX_ZERO_SHOT_IMAGES", 5)
    folder = class_folders(tmp_path, classes=4, each=3)
    one, same = make_zero_shot_panel(folder), make_zero_shot_panel(folder)
    assert len(one.images) == len(one.tests[0].images) == 5
    assert "5 images of 4 classes" in one.source
    assert len(set(np.asarray(one.tests[0].right).tolist())) > 1
    assert np.array_equal(np.asarray(one.tests[0].right), np.asarray(same.tests[0].right))


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one class"):
        make_zero_shot_panel(class_folders(tmp_path / "one", classes=1, each=2))
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="holds no folder with an image"):
        make_zero_shot_panel(tmp_path / "none")
    with pytest.raises(InputError, match="gone"):
        make_zero_shot_panel(tmp_path / "gone")
