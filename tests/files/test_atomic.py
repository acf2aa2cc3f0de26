"""Atomic writing: a file appears whole or not at all."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from contrapose.errors import InputError
from contrapose.files import new_folder, require_free, write_bytes, write_text


def test_a_file_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "a.txt"
    write_text(path, "née")
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a", b"")
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
    with new_folder(tmp_path / "c"):
        pass
    (tmp_path / "d").mkdir()
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "d").stat().st_mode
    )


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="full"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    with new_folder(out) as folder:
        (folder / "a").write_text("a")
        assert not out.exists()
    assert [p.name for p in out.iterdir()] == ["a"]
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def fill() -> None:
        with new_folder(tmp_path / "out") as folder:
            (folder / "a").write_text("a")
            raise error

    with pytest.raises(error):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_no_folder_of_that_name(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from contrapose.files import new_folder\n"
        "with new_folder(Path(sys.argv[1]) / 'out') as folder:\n"
        "    (folder / 'half').write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)  # noqa: S603
    assert ended.returncode == -9
    assert not (tmp_path / "out").exists()
    with new_folder(tmp_path / "out") as folder:
        (folder / "whole").write_text("whole")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["whole"]


def test_a_folder_that_is_taken(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    with pytest.raises(InputError, match="not empty"), new_folder(out):
        pass
    with new_folder(out, overwrite=True) as folder:
        (folder / "new").write_text("new")
        assert (out / "old").is_file()
    assert [p.name for p in out.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [out]


def test_an_empty_folder_is_free(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with new_folder(tmp_path / "out") as folder:
        (folder / "a").write_text("a")
    assert (tmp_path / "out" / "a").is_file()


def test_what_is_no_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("file", "link"):
        with (
            pytest.raises(InputError, match="not a folder"),
            new_folder(tmp_path / name, overwrite=True),
        ):
            pass
    assert (tmp_path / "file").read_text() == "mine"
    assert (tmp_path / "link").is_symlink()


def test_a_swap_that_fails_brings_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    rename = Path.rename

    def fail_into_place(self: Path, target: Path) -> Path:
        if target == out and self.name != ".out.old":
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_into_place)
    refused = pytest.raises(InputError, match=r"cannot be written \(no\)")
    with refused, new_folder(out, overwrite=True) as folder:
        (folder / "new").write_text("new")
    assert [p.name for p in out.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [out]


def test_a_swap_killed_between_its_renames_is_repaired(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from contrapose.files import new_folder\n"
        "out = Path(sys.argv[1]) / 'out'\n"
        "rename = Path.rename\n"
        "def kill(self, target):\n"
        "    rename(self, target)\n"
        "    if self == out:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "Path.rename = kill\n"
        "with new_folder(out, overwrite=True) as folder:\n"
        "    (folder / 'new').write_text('new')\n"
    )
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)  # noqa: S603
    assert killed.returncode == -9
    assert not out.exists()
    with pytest.raises(InputError, match="not empty"):
        require_free(out)
    assert [path.name for path in out.iterdir()] == ["old"]
    with new_folder(out, overwrite=True) as folder:
        (folder / "newer").write_text("newer")
    assert [path.name for path in out.iterdir()] == ["newer"]
    assert not (tmp_path / ".out.old").exists()
