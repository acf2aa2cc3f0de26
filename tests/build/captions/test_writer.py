"""Pairs and their manifest on disk: both files or none, and never a manifest of other pairs."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contrapose.build.captions import CaptionRecord, PairBuild, Recipe, build_pairs, writer
from contrapose.errors import InputError
from contrapose.files import syncing

ROWS = [CaptionRecord("a red cube left of a blue ball"), CaptionRecord("a cat on a small bed")]


class KilledError(BaseException):
    """The process ended here: nothing was cleaned up."""


def build(out: Path, *, seed: int = 0, overwrite: bool = False) -> dict[str, Any]:
    return build_pairs(ROWS, out, PairBuild(Recipe(seed=seed)), overwrite=overwrite)


def contents(out: Path) -> dict[str, bytes]:
    """Files of a build by their names; hidden ones are those of a process that was killed."""
    folder = out.parent if out.suffix else out
    if not folder.is_dir():
        return {}
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")
    }


def outs(tmp_path: Path) -> list[Path]:
    """A file, a folder that is new, and one that holds something else."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "other.txt").write_text("other")
    return [tmp_path / "file" / "pairs.jsonl", tmp_path / "folder", tmp_path / "mine"]


def fail_at(monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException) -> None:
    """Let a rename or link fail, the first being number 1; a killed process cleans nothing up."""
    count = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == number or (count > number and isinstance(error, KilledError)):
                raise error
            return call(*arguments, **options)

        return run

    for holder, name in ((os, "link"), (Path, "replace"), (Path, "rename")):
        monkeypatch.setattr(holder, name, counted(getattr(holder, name)))
    if isinstance(error, KilledError):
        monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)


def is_whole(files: dict[str, bytes]) -> bool:
    manifest = next(value for name, value in files.items() if name.endswith("manifest.json"))
    digest: str = json.loads(manifest)["sha256"]
    return digest == hashlib.sha256(files["pairs.jsonl"]).hexdigest()


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_build_that_is_killed_at_its_end_goes_on(
    which: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = outs(tmp_path)[which]
    before = contents(out)
    with monkeypatch.context() as patched:
        fail_at(patched, number, KilledError())
        try:
            build(out)
        except KilledError:
            assert "pairs.jsonl" not in contents(out)
    if "pairs.jsonl" not in contents(out):
        build(out)
    assert is_whole(contents(out))
    assert before.items() <= contents(out).items()


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_full_disk_leaves_what_was_there(
    which: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = outs(tmp_path)[which]
    before = contents(out)
    with monkeypatch.context() as patched:
        fail_at(patched, number, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        sentence = ""
        try:
            build(out)
        except InputError as error:
            sentence = str(error)
    if sentence:
        assert "nothing was left" in sentence
        assert contents(out) == before
        assert not (tmp_path / "folder").exists()
        assert not (tmp_path / "file").exists()
        assert not list(tmp_path.rglob(".*"))
    else:
        assert number > 1
    if contents(out) == before:
        build(out)
    assert is_whole(contents(out))


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("error", [KilledError(), OSError(errno.ENOSPC, "no space")])
def test_overwriting_never_mixes_two_builds(
    number: int, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "folder"
    build(out)
    before = contents(out)
    with monkeypatch.context() as patched:
        fail_at(patched, number, error)
        with pytest.raises((KilledError, InputError)) as raised:
            build(out, seed=1, overwrite=True)
    after = contents(out)
    if "manifest.json" in after:
        assert after == before
    else:
        assert after.keys() == {"pairs.jsonl"}
        assert isinstance(error, KilledError) or "pairs.jsonl is complete" in str(raised.value)
    build(out, seed=1, overwrite=True)
    assert is_whole(contents(out))
    assert contents(out) != before


def test_files_of_others_are_not_taken_for_unfinished(tmp_path: Path) -> None:
    out = tmp_path / "pairs.jsonl"
    for name in ("pairs.jsonl", "pairs.manifest.json"):
        (tmp_path / name).write_text('{"schema": 1}')
        with pytest.raises(InputError, match="is there already"):
            build(out)
        (tmp_path / name).unlink()
    build(out)
    assert is_whole(contents(out))


def test_a_build_without_a_result_leaves_no_folder(tmp_path: Path) -> None:
    for out in (tmp_path / "folder", tmp_path / "file" / "pairs.jsonl"):
        with pytest.raises(InputError, match="no captions"):
            build_pairs([], out)
        assert list(tmp_path.iterdir()) == []


def test_a_quicker_build_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "pairs.jsonl"
    syncs = syncing.sync_tree

    def other_first(folder: Path) -> None:
        monkeypatch.setattr(writer, "sync_tree", syncs)
        build(out, seed=1)
        syncs(folder)

    monkeypatch.setattr(writer, "sync_tree", other_first)
    with pytest.raises(InputError, match="is there already"):
        build(out)
    assert is_whole(contents(out))
    assert json.loads((tmp_path / "pairs.manifest.json").read_text())["seed"] == 1
