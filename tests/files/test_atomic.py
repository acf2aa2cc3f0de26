"""Atomic writing: a file appears whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from contrapose.errors import InputError
from contrapose.files import (
    atomic_file,
    new_folder,
    require_free,
    temporary_folder,
    write_bytes,
    write_text,
)
from tests.special_files import SPECIAL_FILES, make_special_file


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
        raise OSError(errno.ENOSPC, "the disk is full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match=r"full: '.*a\.txt'"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_signal_while_something_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python handles a signal as soon as the call that it came in returns."""

    def interrupted(call: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> None:
            made = call(*args, **kwargs)
            if made is not None:
                made.close()
            raise KeyboardInterrupt

        return run

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", interrupted(Path.mkdir))
        with pytest.raises(KeyboardInterrupt), temporary_folder(tmp_path, "a"):
            pass
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", interrupted(Path.open))
        with pytest.raises(KeyboardInterrupt):
            write_text(tmp_path / "a", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_a_temporary_folder_is_removed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removes, calls = shutil.rmtree, []

    def interrupted(path: Path, **kwargs: Any) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise KeyboardInterrupt
        removes(path, **kwargs)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), temporary_folder(tmp_path, "a") as folder:
        (folder / "b").touch()
    assert list(tmp_path.iterdir()) == []


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


def test_no_work_begins_where_its_result_could_not_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    for name in ("file/out", "file/deep/out", "lost/out"):
        with pytest.raises(InputError, match="is not a folder"):
            require_free(tmp_path / name)
    require_free(tmp_path / "deep/deeper/out")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="Permission denied"):
        require_free(tmp_path / "deep/out")


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


RACE = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from contrapose.errors import InputError\n"
    "from contrapose.files import new_folder\n"
    "root, name = Path(sys.argv[1]), sys.argv[2]\n"
    "try:\n"
    "    with new_folder(root / 'out', overwrite=sys.argv[3] == 'overwrite') as folder:\n"
    "        for part in ('a', 'b'):\n"
    "            (folder / part).write_text(name)\n"
    "        (root / f'ready-{name}').touch()\n"
    "        while len(list(root.glob('ready-*'))) < 4:\n"
    "            time.sleep(0.001)\n"
    "except InputError as error:\n"
    "    print(error)\n"
    "    sys.exit(2)\n"
)


def race(tmp_path: Path, mode: str) -> list[tuple[int, str]]:
    """Ends of four processes that fill one folder at the same time."""
    commands = [[sys.executable, "-c", RACE, str(tmp_path), name, mode] for name in "0123"]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
        for command in commands
    ]
    ends = [(process.communicate(timeout=60)[0], process.returncode) for process in running]
    for mark in tmp_path.glob("ready-*"):
        mark.unlink()
    return [(code, said) for said, code in ends]


def content(folder: Path) -> set[str]:
    assert {path.name for path in folder.iterdir()} == {"a", "b"}
    names = {path.read_text() for path in folder.iterdir()}
    assert len(names) == 1  # of one process
    return names


def test_one_of_four_processes_wins_a_folder(tmp_path: Path) -> None:
    ends = race(tmp_path, "keep")
    assert sorted(code for code, _ in ends) == [0, 2, 2, 2]
    winner = next(str(i) for i, (code, _) in enumerate(ends) if code == 0)
    assert content(tmp_path / "out") == {winner}
    folders = [tmp_path / name for name in ("out", "out-2", "out-3", "out-4")]
    assert sorted(tmp_path.iterdir()) == folders
    assert set().union(*map(content, folders)) == set("0123")  # nothing is lost
    for code, said in ends:
        assert code == 0 or ("another run" in said and "out-" in said)


def test_four_processes_replace_a_folder_in_turn(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    ends = race(tmp_path, "overwrite")
    assert [code for code, _ in ends] == [0, 0, 0, 0]
    content(tmp_path / "out")
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def leave(tmp_path: Path, script: str) -> list[Path]:
    """Temporary files of a process that is killed, made old."""
    start = "import os, signal, sys\nfrom pathlib import Path\nfrom contrapose.files import *\n"
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", start + script, str(tmp_path)], check=False
    )
    assert ended.returncode == -signal.SIGKILL
    left = list(tmp_path.iterdir())
    for path in left:
        os.utime(path, (time.time() - 3600,) * 2)
    return left


KILL = "    os.kill(os.getpid(), signal.SIGKILL)\n"


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    left = leave(tmp_path, f"with new_folder(Path(sys.argv[1]) / 'out'):\n{KILL}")
    left += leave(tmp_path, f"with atomic_file(Path(sys.argv[1]) / 'file'):\n{KILL}")
    assert left
    mine = tmp_path / ".mine"
    mine.mkdir()
    os.utime(mine, (0, 0))
    with new_folder(tmp_path / "other") as live:
        os.utime(live, (0, 0))
        require_free(tmp_path / "third")
        assert live.is_dir()  # its process is alive
        assert set(tmp_path.iterdir()) == {mine, live}
    assert set(tmp_path.iterdir()) == {mine, tmp_path / "other"}


@pytest.mark.parametrize("kind", SPECIAL_FILES)
def test_no_leftover_is_waited_for(tmp_path: Path, kind: str) -> None:
    """A pipe under a temporary name is opened without waiting for its writer, and removed."""
    left = tmp_path / ".x.contrapose-tmp"
    make_special_file(left, kind)
    os.utime(left, (1, 1), follow_symlinks=False)
    require_free(tmp_path / "out")
    if kind in ("pipe", "folder"):
        assert not left.exists()


def test_a_young_leftover_stays_for_now(tmp_path: Path) -> None:
    (left,) = leave(tmp_path, f"with new_folder(Path(sys.argv[1]) / 'out'):\n{KILL}")
    os.utime(left)
    require_free(tmp_path / "out")
    assert left.is_dir()


def test_an_exclusive_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"

    def write_late() -> None:
        with atomic_file(path, exclusive=True) as stream:
            stream.write(b"late")
            path.write_text("first")

    with pytest.raises(InputError, match="exists"):
        write_late()
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]
    write_bytes(tmp_path / "b", b"new", exclusive=True)
    assert (tmp_path / "b").read_bytes() == b"new"


def test_a_long_name_has_a_temporary_one(tmp_path: Path) -> None:
    with new_folder(tmp_path / ("x" * 250)) as folder:
        (folder / "a").touch()
    write_text(tmp_path / ("y" * 250), "y")
    assert sorted(len(path.name) for path in tmp_path.iterdir()) == [250, 250]


def record_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is synchronized and renamed from now on, in this order."""
    events: list[str] = []
    syncs, replaces, renames = os.fsync, Path.replace, Path.rename

    def sync(handle: int) -> None:
        events.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name}")
        syncs(handle)

    def move(call: Any) -> Any:
        def run(path: Path, target: Path) -> Any:
            events.append(f"rename {path.name} {target.name}")
            return call(path, target)

        return run

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", move(replaces))
    monkeypatch.setattr(Path, "rename", move(renames))
    return events


@pytest.mark.skipif(sys.platform != "linux", reason="names of open files come from /proc")
def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = record_syncs(monkeypatch)
    write_text(tmp_path / "a", "a")
    first, second, third = events
    temporary = first.removeprefix("sync ")
    assert temporary.startswith(".a.")
    assert second == f"rename {temporary} a"
    assert third == f"sync {tmp_path.name}"
    write_text(tmp_path / "a", "b", synced=False)
    assert len(events) == 4


@pytest.mark.skipif(sys.platform != "linux", reason="names of open files come from /proc")
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_is_on_the_disk_before_it_has_its_name(
    overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    if overwrite:
        with new_folder(out) as folder:
            (folder / "old").touch()
    events = record_syncs(monkeypatch)
    with new_folder(out, overwrite=overwrite) as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "a").write_text("a")
        (folder / "link").symlink_to(tmp_path / "nothing")
        write_text(folder / "b", "b")
        name = folder.name
        assert [event for event in events if event.startswith("sync")] == []
    final = events.index(f"rename {name} out")
    assert {"sync a", "sync b", "sync sub", f"sync {name}"} <= set(events[:final])
    assert f"sync {tmp_path.name}" in events[final:]


def test_a_disk_that_fails_to_synchronize_fails_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_text(tmp_path / "a", "a")
    with pytest.raises(InputError, match="Input/output"), new_folder(tmp_path / "b") as folder:
        (folder / "c").touch()
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_cannot_synchronize_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fail)
    write_text(tmp_path / "a", "a")
    with new_folder(tmp_path / "b") as folder:
        (folder / "c").touch()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", SPECIAL_FILES)
def test_a_folder_with_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    with new_folder(tmp_path / "out") as folder:
        make_special_file(folder / "a", kind)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]


def test_a_file_that_could_not_be_synchronized_for_now_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def fail(path: Any, *flags: int, **others: int) -> int:
        if Path(path).name == "a":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, *flags, **others)

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(InputError, match="Too many open files"), new_folder(tmp_path / "b") as new:
        (new / "a").touch()
    assert list(tmp_path.iterdir()) == []
