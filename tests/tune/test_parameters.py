from __future__ import annotations

import errno
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from contrapose.errors import InputError, MissingExtraError
from contrapose.files.atomic import TEMPORARY
from contrapose.models import load_model
from contrapose.tune import parameters
from contrapose.tune.objective import parse_objective
from contrapose.tune.parameters import (
    BEST_CHECKPOINT,
    CHECKPOINT_FORMAT,
    CheckpointState,
    add_lora,
    architecture_hash,
    checkpoint_checksum,
    checkpoint_name,
    latest_checkpoint,
    merge_lora,
    prune_checkpoints,
    read_state,
    select_trainable,
    write_state,
)
from contrapose.tune.settings import Settings
from contrapose.tune.students import load_student
from contrapose.tune.trainer import train
from tests.tune.small import small_rows, small_student, weights

SETTINGS = Settings(steps=3, batch=6, rate=1e-2, save_every=0, lora=2)


def test_without_peft_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtraError, match=r"\[tune\]"):
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


def state(step: int = 3) -> CheckpointState:
    about = {"architecture": architecture_hash(small_student().network)}
    return CheckpointState(step, {"weights.a": torch.arange(3.0)}, about)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "deep" / checkpoint_name(3)
    write_state(file, state())
    found = read_state(file, small_student().network)
    assert found.step == 3
    assert torch.equal(found.tensors["weights.a"], torch.arange(3.0))
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_full_disk_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = tmp_path / checkpoint_name(3)
    write_state(good, state())
    content = good.read_bytes()

    def full(tensors: Any, file: Path, metadata: Any) -> None:
        Path(file).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(parameters, "save_file", full)
    with pytest.raises(InputError, match=r"No space left.*step-00000003\.safetensors, is whole"):
        write_state(tmp_path / checkpoint_name(6), state(6))
    assert [each.name for each in tmp_path.iterdir()] == [good.name]
    assert good.read_bytes() == content


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    write_state(tmp_path / "a.safetensors", state())
    with pytest.raises(InputError, match="another architecture"):
        read_state(tmp_path / "a.safetensors", small_student(width=24).network)


@pytest.mark.parametrize("damage", ["cut", "nonsense", "other"])
def test_damage_is_said(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "a.safetensors"
    write_state(file, state())
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-5])
    elif damage == "nonsense":
        file.write_bytes(b"\xff" * 100)
    else:
        from safetensors.torch import save_file

        save_file({"a": torch.zeros(1)}, file)
    with pytest.raises(InputError, match="damaged" if damage != "other" else "no checkpoint of"):
        read_state(file, small_student().network)


@pytest.mark.parametrize("part", ["step", "about", "first", "last"])
def test_a_flipped_bit_is_seen_wherever_it_is(part: str, tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    write_state(file, state())
    content = bytearray(file.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    where = {
        "step": content.index(b'"step":"') + 8, "about": content.index(b'"about":"') + 14,
        "first": start, "last": len(content) - 1,
    }  # fmt: skip
    content[where[part]] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        read_state(file, small_student().network)


def test_only_the_newest_stay(tmp_path: Path) -> None:
    for step in (5, 10, 100):
        write_state(tmp_path / checkpoint_name(step), state(step))
    write_state(tmp_path / BEST_CHECKPOINT, state(5))
    killed = tmp_path / f".{checkpoint_name(100)}.abc{TEMPORARY}"  # by a kill while it was written
    killed.mkdir()
    (killed / checkpoint_name(100)).write_bytes(b"half")
    prune_checkpoints(tmp_path)
    kept = {checkpoint_name(10), checkpoint_name(100), BEST_CHECKPOINT}
    assert {each.name for each in tmp_path.iterdir()} == kept
    assert latest_checkpoint(tmp_path) == tmp_path / checkpoint_name(100)
    assert latest_checkpoint(tmp_path / "none") is None


ABOUTS = ["5", "null", "[]", '{"architecture": []}', "[" * 100_000, "\x00", '{"a": 1, "a": 2}']


@pytest.mark.parametrize("about", ABOUTS)
def test_settings_that_are_none_are_damage(about: str, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    file = tmp_path / "a.safetensors"
    header = {"format": CHECKPOINT_FORMAT, "step": "3", "about": about}
    tensors = state().tensors
    header["checksum"] = checkpoint_checksum(header, tensors)
    save_file(tensors, file, metadata=header)
    with pytest.raises(InputError, match=r"damaged|another architecture"):
        read_state(file, small_student().network)
