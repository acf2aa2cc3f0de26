"""Work folder of a long build: it survives a kill, so that the next run goes on from there.

It lies beside the folder to write, as `.OUT.build`, and holds `set/`, which becomes that folder,
and `done/`, a record of every source that is complete. One process at a time works in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from contrapose.errors import InputError, option
from contrapose.files.atomic import publish_folder, require_free, write_text
from contrapose.files.paths import require_no_link, require_no_links
from contrapose.files.text import parse_json, require_regular

RECIPE, LOCK, SET, DONE = "recipe.json", "lock", "set", "done"


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """Work folder that this process holds.

    Attributes:
        path: the work folder.
        out: the folder that the result becomes.
        overwrite: replace `out` if it is there.
    """

    path: Path
    out: Path
    overwrite: bool = False

    @property
    def set(self) -> Path:
        """Folder that is being filled."""
        return self.path / SET

    def read_done(self, source: str) -> dict[str, Any] | None:
        """Read the record of a complete source; None where there is none that can be read."""
        require_regular(self._record(source))
        try:
            value = parse_json(self._record(source).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def write_done(self, source: str, record: Mapping[str, Any]) -> None:
        """Record that a source is complete; its files must be written by then.

        Neither they nor the record are synchronized, as that would take long for many sources:
        their digests, which are in the record, say after a power failure which of them are whole.
        """
        write_text(self._record(source), json.dumps(record, ensure_ascii=False), synced=False)

    def discard(self) -> None:
        """Throw away what is done."""
        for name in (SET, DONE):
            shutil.rmtree(self.path / name, ignore_errors=True)

    def publish(self) -> None:
        """Give the filled folder its final path, and remove the work folder.

        Raises:
            InputError: the path was taken meanwhile; says where the result is instead.
        """
        try:
            publish_folder(self.set, self.out, overwrite=self.overwrite)
        finally:
            if not self.set.exists():
                shutil.rmtree(self.path, ignore_errors=True)

    def _record(self, source: str) -> Path:
        name = hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
        return self.path / DONE / f"{name}.json"


@contextmanager
def open_work_folder(
    out: Path, recipe: Mapping[str, Any], *, overwrite: bool = False
) -> Iterator[WorkFolder]:
    """Open the work folder of `out`, with the complete sources of a run that was stopped.

    Work under another recipe is thrown away. A failure leaves the complete sources where they are.

    Args:
        out: the folder to write.
        recipe: everything that changes the result.
        overwrite: replace a folder that is there.

    Raises:
        InputError: `out` is taken, another process builds it, the work folder is or holds a
            symbolic link, or writing fails: no permission, no space.
    """
    require_free(out, overwrite=overwrite)
    path = out.parent / f".{out.name}.build"
    try:
        with _hold(path, out):
            require_free(out, overwrite=overwrite)  # another build may just have finished
            require_no_links(path)
            _keep_same(path, json.dumps(recipe, sort_keys=True, ensure_ascii=False))
            (path / SET).mkdir(exist_ok=True)
            try:
                yield WorkFolder(path, out, overwrite)
            finally:
                _remove_if_bare(path)
    except OSError as error:
        rest = "; nothing was left there"
        if any((path / DONE).glob("*.json")):
            rest = f"; run the same again, and it goes on with what is done in {path.name}"
        raise InputError(
            f"cannot be written ({error.strerror or error}){rest}.", file=out
        ) from None


@contextmanager
def _hold(path: Path, out: Path) -> Iterator[None]:
    """Create the work folder and hold its lock; a process that is killed releases it."""
    while True:
        require_no_link(path)
        path.mkdir(parents=True, exist_ok=True)
        try:
            stream = open_lock(path / LOCK)
        except FileNotFoundError:  # the folder was removed by a build that just ended
            continue
        with stream:
            if not try_lock(stream):
                raise InputError(
                    f"is being written by another build; wait for it, or choose another "
                    f"{option('out')}.",
                    file=out,
                )
            if not _is_same(stream, path / LOCK):
                continue
            yield
            return


def open_lock(path: Path) -> IO[bytes]:
    """Open a lock file, which is created where it is missing.

    Raises:
        InputError: it is a symbolic link.
        OSError: it cannot be opened.
    """
    require_no_link(path)
    handle = os.open(
        path,
        os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0),
        0o666,
    )
    return os.fdopen(handle, "a+b")


def try_lock(stream: IO[bytes]) -> bool:
    """Lock an open file against other processes until it is closed; whether that was possible."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            getattr(msvcrt, "locking")(stream.fileno(), getattr(msvcrt, "LK_NBLCK"), 1)  # noqa: B009
        except OSError:
            return False
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_same(stream: IO[bytes], path: Path) -> bool:
    """Whether the open file still has its name: another build may have removed it."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except OSError:
        return False


def _keep_same(path: Path, recipe: str) -> None:
    """Throw away work under another recipe."""
    require_regular(path / RECIPE)
    try:
        same = (path / RECIPE).read_text(encoding="utf-8") == recipe
    except (OSError, ValueError):
        same = False
    if not same:
        for name in (SET, DONE):
            shutil.rmtree(path / name, ignore_errors=True)
        write_text(path / RECIPE, recipe)


def _remove_if_bare(path: Path) -> None:
    """Remove a work folder in which no source is complete."""
    if not any((path / DONE).glob("*.json")):
        with suppress(OSError):
            shutil.rmtree(path)


@contextmanager
def hold_folder(folder: Path) -> Iterator[bool]:
    """Hold a folder against other programs that do so; a process that is killed lets go of it.

    Yields:
        Whether it is held: False where another program holds it. Where there is no folder, or it
        cannot be written, nothing is held and the answer is True.
    """
    with ExitStack() as stack:
        free = True
        if folder.is_dir():
            with suppress(OSError):
                free = try_lock(stack.enter_context(open_lock(folder / LOCK)))
        yield free
