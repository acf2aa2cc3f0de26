from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import torch

from contrapose.errors import InputError
from contrapose.tune import checkpoint
from contrapose.tune.checkpoint import CheckpointState
from tests.tune.small import small_student


def state(step: int = 3) -> CheckpointState:
    about = {"architecture": checkpoint.architecture_hash(small_student().network)}
    return CheckpointState(step, {"weights.a": torch.arange(3.0)}, about)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "deep" / checkpoint.checkpoint_name(3)
    checkpoint.write_state(file, state())
    found = checkpoint.read_state(file, small_student().network)
    assert found.step == 3
    assert torch.equal(found.tensors["weights.a"], torch.arange(3.0))
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_full_disk_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = tmp_path / checkpoint.checkpoint_name(3)
    checkpoint.write_state(good, state())
    content = good.read_bytes()

    def full(tensors: Any, file: Path, metadata: Any) -> None:
        Path(file).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(InputError, match=r"No space left.*step-00000003\.safetensors, is whole"):
        checkpoint.write_state(tmp_path / checkpoint.checkpoint_name(6), state(6))
    assert [each.name for each in tmp_path.iterdir()] == [good.name]
    assert good.read_bytes() == content


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    checkpoint.write_state(tmp_path / "a.safetensors", state())
    with pytest.raises(InputError, match="another architecture"):
        checkpoint.read_state(tmp_path / "a.safetensors", small_student(width=24).network)


@pytest.mark.parametrize("damage", ["cut", "nonsense", "other"])
def test_damage_is_said(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "a.safetensors"
    checkpoint.write_state(file, state())
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-5])
    elif damage == "nonsense":
        file.write_bytes(b"\xff" * 100)
    else:
        from safetensors.torch import save_file

        save_file({"a": torch.zeros(1)}, file)
    with pytest.raises(InputError, match="damaged" if damage != "other" else "no checkpoint of"):
        checkpoint.read_state(file, small_student().network)


def test_only_the_newest_stay(tmp_path: Path) -> None:
    for step in (5, 10, 100):
        checkpoint.write_state(tmp_path / checkpoint.checkpoint_name(step), state(step))
    checkpoint.write_state(tmp_path / checkpoint.BEST, state(5))
    checkpoint.prune(tmp_path)
    kept = {checkpoint.checkpoint_name(10), checkpoint.checkpoint_name(100), checkpoint.BEST}
    assert {each.name for each in tmp_path.iterdir()} == kept
    assert checkpoint.latest_checkpoint(tmp_path) == tmp_path / checkpoint.checkpoint_name(100)
    assert checkpoint.latest_checkpoint(tmp_path / "none") is None
