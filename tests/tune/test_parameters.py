from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from contrapose.errors import MissingExtraError
from contrapose.models import load_model
from contrapose.tune.objective import parse_objective
from contrapose.tune.parameters import add_lora, merge_lora, select_trainable
from contrapose.tune.settings import Settings
from contrapose.tune.students import load_student
from contrapose.tune.trainer import train
from tests.tune.small import small_rows, small_student, weights

SETTINGS = Settings(steps=3, batch=6, rate=1e-2, save_every=0, lora=2)


def test_without_peft_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match=r"contrapose\[tune\]"):
        add_lora(small_student(), SETTINGS)


def test_lora_updates_alone_are_trained_and_then_merged(tmp_path: Path) -> None:
    student = small_student()
    before = weights(student)
    add_lora(student, SETTINGS)
    names = select_trainable(student, SETTINGS)
    assert names
    assert all("lora_" in name for name in names)
    train(student, small_rows(), parse_objective("hn"), SETTINGS)
    texts = ["a red ball", "the blue cube"]
    learnt = student.model.embed_texts(texts)
    merge_lora(student)
    torch.testing.assert_close(student.model.embed_texts(texts), learnt, rtol=1e-4, atol=1e-5)
    after = weights(student)
    assert after.keys() == before.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(before[name].dim() == 2 for name in changed)
    for name in changed:
        assert torch.linalg.matrix_rank(after[name] - before[name], tol=1e-5) <= 2
    student.save(tmp_path, {})
    load_model(str(tmp_path))


def test_of_the_transformers_library(tmp_path: Path) -> None:
    from tests.models.hf.small import save_clip

    save_clip(tmp_path / "clip")
    student: Any = load_student(str(tmp_path / "clip"))
    settings = replace(SETTINGS, freeze=("image",))
    add_lora(student, settings)
    names = select_trainable(student, settings)
    assert all(name.startswith("text_") for name in names)
    train(student, small_rows(kept=False), parse_objective("hn"), settings)
    merge_lora(student)
    (tmp_path / "out").mkdir()
    student.save(tmp_path / "out", {})
    loaded: Any = load_model(str(tmp_path / "out"))
    texts = ["a red dog", "the blue cat"]
    expected = student.model.embed_texts(texts)
    torch.testing.assert_close(loaded.embed_texts(texts), expected, rtol=1e-4, atol=1e-5)
