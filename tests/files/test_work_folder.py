from __future__ import annotations

from pathlib import Path

import pytest

from contrapose.errors import InputError
from contrapose.files import hold_folder, open_work_folder

RECIPE = {"seed": 0}


def stop_halfway(out: Path, *, done: bool) -> None:
    with open_work_folder(out, RECIPE) as work:
        (work.set / "a").write_text("a")
        if done:
            work.write_done("first", {"files": ["a"]})
        raise RuntimeError


def lose_the_name(out: Path) -> None:
    with open_work_folder(out, RECIPE) as work:
        (work.set / "a").write_text("mine")
        out.mkdir()
        (out / "theirs").touch()
        work.publish()


def test_work_goes_on_and_is_published(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(RuntimeError):
        stop_halfway(out, done=True)
    assert [path.name for path in tmp_path.iterdir()] == [".out.build"]
    with open_work_folder(out, RECIPE) as work:
        assert work.read_done("first") == {"files": ["a"]}
        assert work.read_done("second") is None
        assert (work.set / "a").read_text() == "a"
        work.publish()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out / "a").read_text() == "a"


def test_nothing_is_left_where_nothing_was_done(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        stop_halfway(tmp_path / "out", done=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [b"{", b"\xff\xfe", b"[]", b""])
def test_damaged_records_do_not_count(tmp_path: Path, damage: bytes) -> None:
    with open_work_folder(tmp_path / "out", RECIPE) as work:
        work.write_done("first", {"files": []})
        (record,) = work.path.glob("done/*.json")
        record.write_bytes(damage)
        assert work.read_done("first") is None


def test_another_recipe_begins_anew(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open_work_folder(out, RECIPE) as work:
        (work.set / "a").write_text("a")
        work.write_done("first", {})
    with open_work_folder(out, {"seed": 1}) as work:
        assert work.read_done("first") is None
        assert list(work.set.iterdir()) == []


def test_one_process_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open_work_folder(out, RECIPE) as work:
        work.write_done("first", {})
        with pytest.raises(InputError, match="another build"), open_work_folder(out, RECIPE):
            pass
        assert work.read_done("first") == {}


def test_folder_that_was_taken_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="out-2"):
        lose_the_name(tmp_path / "out")
    assert (tmp_path / "out-2" / "a").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out-2"]


def test_existing_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").touch()
    with pytest.raises(InputError, match="not empty"), open_work_folder(out, RECIPE):
        pass
    with open_work_folder(out, RECIPE, overwrite=True) as work:
        (work.set / "new").touch()
        work.publish()
    assert [path.name for path in out.iterdir()] == ["new"]
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InputError, match="not a folder"), open_work_folder(file, RECIPE):
        pass


def test_unwritable_parent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match="cannot be written"),
        open_work_folder(tmp_path / "file" / "out", RECIPE),
    ):
        pass


@pytest.mark.parametrize("name", ["", "lock", "set", "done", "set/images", "set/images/a.png"])
def test_symbolic_links_are_refused(name: str, tmp_path: Path) -> None:
    out, target = tmp_path / "out", tmp_path / "target"
    if name != "lock":
        target.mkdir()
    link = tmp_path / ".out.build" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    with pytest.raises(InputError, match="symbolic link"), open_work_folder(out, RECIPE) as work:
        (work.set / "a").write_text("a")
    assert not out.exists()
    assert not target.exists() or not list(target.iterdir())
    assert link.is_symlink()


def test_a_lock_that_is_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "target")
    with pytest.raises(InputError, match="symbolic link"), hold_folder(tmp_path):
        pass
    assert not (tmp_path / "target").exists()
