"""Atomic writing of files and folders: the complete result, or what was there before.

What gets its name is on the disk before, so that this holds for a power failure too.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from contrapose.errors import InputError, option
from contrapose.files.paths import local_path
from contrapose.files.syncing import sync_file, sync_folder, sync_tree


def write_bytes(
    path: Path, content: bytes, *, exclusive: bool = False, synced: bool = True
) -> None:
    """Write a file atomically: under a temporary name beside its path, then renamed.

    Args:
        path: the file.
        content: its bytes.
        exclusive: do not replace a file that exists.
        synced: wait until it is on the disk; without, a power failure may leave an empty file.

    Raises:
        FileExistsError: there is one, also one that another process wrote meanwhile.
    """
    try:
        with _temporary_file(path, exclusive=exclusive, synced=synced) as stream:
            stream.write(content)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # a full disk names no file
            error.filename = str(path)
        raise


def write_text(path: Path, content: str, *, synced: bool = True) -> None:
    """Write UTF-8 text atomically; see `write_bytes`."""
    write_bytes(path, content.encode(), synced=synced)


def digest(content: bytes) -> str:
    """Return a digest of a file's content, in 16 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


@contextmanager
def atomic_file(path: Path, *, exclusive: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary stream whose file takes its name only when the block succeeds.

    Args:
        path: the file.
        exclusive: do not replace a file that exists.

    Raises:
        InputError: writing fails: no permission, no space, or the file was written meanwhile.
    """
    remove_leftovers(path.parent)
    try:
        with _temporary_file(path, exclusive=exclusive) as stream:
            yield stream
    except OSError as error:
        raise write_error(path, error) from None


@contextmanager
def _temporary_file(path: Path, *, exclusive: bool, synced: bool = True) -> Iterator[IO[bytes]]:
    synced = synced and not _is_temporary(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_path(path)
    try:
        with temporary.open("xb") as stream:
            _lock(stream.fileno())
            yield stream
            if synced:
                sync_file(stream)
        if exclusive:
            link_new(temporary, path)
        else:
            temporary.replace(path)
        if synced:
            sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_temporary(path: Path) -> bool:
    """Whether a file lies in a temporary folder, which is synchronized as a whole."""
    return any(part.endswith(TEMPORARY) for part in path.parts[:-1])


def link_new(temporary: Path, path: Path) -> None:
    """Give a file its name, unless that is taken.

    Raises:
        FileExistsError: it is.
    """
    try:
        os.link(temporary, path)
        temporary.unlink()
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        temporary.replace(path)


TEMPORARY = ".contrapose-tmp"
"""Suffix of files and folders that are being written; their names begin with a dot."""

LEFTOVER_SECONDS = 60.0
"""Age from which on a temporary file may be a leftover: a younger one may not be locked yet."""


def remove_leftovers(folder: Path, seconds: float = LEFTOVER_SECONDS) -> None:
    """Remove temporary files and folders of processes that were killed.

    A process holds a lock on what it writes, which the system releases when the process ends.
    Where locks are not supported nothing is removed.

    Args:
        folder: the folder in which they lie.
        seconds: their least age; 0 where no other process can be writing there.
    """
    try:
        with os.scandir(folder) as entries:
            names = [
                entry.path
                for entry in entries
                if entry.name.endswith(TEMPORARY)
                and entry.name.startswith(".")
                and time.time() - entry.stat(follow_symlinks=False).st_mtime >= seconds
            ]
    except OSError:
        return
    for name in names:
        with suppress(OSError), _open_for_lock(Path(name)) as handle:
            if _lock(handle):
                path = Path(name)
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


LOCK_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags to open what is to be locked: no link, and without waiting for the writer of a pipe."""


@contextmanager
def _open_for_lock(path: Path) -> Iterator[int]:
    handle = os.open(path, LOCK_FLAGS)
    try:
        yield handle
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool = False) -> bool:
    """Lock an open file or folder until it is closed; whether that was possible."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):
        return False
    return True


@contextmanager
def temporary_folder(folder: Path, name: str) -> Iterator[Path]:
    """Create a temporary folder, which is removed at the end if it is still there.

    Args:
        folder: the folder in which it lies.
        name: beginning of its name.
    """
    remove_leftovers(folder)
    path = _temporary_path(folder / name)
    try:
        path.mkdir()
        with ExitStack() as stack:
            with suppress(OSError):  # folders cannot be opened everywhere
                _lock(stack.enter_context(_open_for_lock(path)))
            yield path
    finally:
        try:
            shutil.rmtree(path, ignore_errors=True)
        except BaseException:  # a signal: the folder is removed all the same
            shutil.rmtree(path, ignore_errors=True)
            raise


def _temporary_path(path: Path) -> Path:
    """Path of a new temporary file or folder beside a path, short enough for any file system.

    It is known before anything is there, so that a signal that comes while it is made leaves
    nothing behind.
    """
    return path.parent / f".{path.name[:LONGEST_PREFIX]}.{secrets.token_hex(8)}{TEMPORARY}"


LONGEST_PREFIX = 40


def require_free(path: Path, *, overwrite: bool = False) -> None:
    """Require that a folder can be created here, before the work that would fill it.

    A replacement of the folder that was interrupted is undone first.

    Raises:
        InputError: there is a non-empty folder and `overwrite` is off, or a file, or the path is a
            URL or cannot be used, or nothing can be created where it lies.
    """
    local_path(path)
    _require_place(path)
    restore_folder(path)
    remove_leftovers(path.parent)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise InputError(
            f"is there already and is not a folder; choose another {option('out')}.", file=path
        )
    if not overwrite and path.is_dir() and any(path.iterdir()):
        raise InputError(
            f"is not empty; choose another {option('out')} or pass {option('overwrite', True)}.",
            file=path,
        )


def _require_place(path: Path) -> None:
    """Require that the folder in which a path lies can be written, or be created.

    Raises:
        InputError: it cannot.
    """
    folder = path.parent
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise write_error(path, NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder"))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise write_error(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


@contextmanager
def new_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty folder to fill; it takes its final name only when the block succeeds.

    Of several processes that write one folder without `overwrite` the first wins. The results of
    the others are not lost: they stay beside it under other names.

    Args:
        path: the folder's final path.
        overwrite: replace a folder that exists.

    Raises:
        InputError: there is a non-empty folder and `overwrite` is off, or a file, or writing
            fails: no permission, no space.
    """
    require_free(path, overwrite=overwrite)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(path.parent, path.name) as temporary:
            yield temporary
            publish_folder(temporary, path, overwrite=overwrite)
    except OSError as error:
        raise write_error(path, error) from None


def publish_folder(new: Path, path: Path, *, overwrite: bool = False) -> None:
    """Give a complete folder its final path, when all of it is on the disk.

    Raises:
        InputError: another process took the path and `overwrite` is off; says where the folder is
            instead.
    """
    sync_tree(new)
    if overwrite:
        replace_folder(new, path)
    else:
        _take_name(new, path)
    sync_folder(path.parent)


def _take_name(new: Path, path: Path) -> None:
    """Move a folder to a path that is free, or to a free one beside it.

    Raises:
        InputError: another process took the path; says where the folder is instead.
    """
    if _moved(new, path):
        return
    other = next(
        other
        for number in itertools.count(2)
        if _moved(new, other := path.with_name(f"{path.name}-{number}"))
    )
    raise InputError(f"was written by another run meanwhile; this result is in {other}.", file=path)


TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EACCES)
"""Errors of a rename to a path that is taken; the last is that of Windows."""


def _moved(new: Path, path: Path) -> bool:
    """Move a folder to a path, unless something other than an empty folder is there."""
    if path.is_symlink():
        return False
    with suppress(OSError):
        path.rmdir()  # an empty folder
    try:
        new.rename(path)  # fails if a folder that holds something, or a file, came meanwhile
    except OSError as error:
        if error.errno in TAKEN and os.path.lexists(path):
            return False
        raise
    return True


def write_error(path: Path, error: OSError) -> InputError:
    """Error of a file or folder that cannot be written, of which nothing new is there."""
    why = error.strerror or str(error)
    return InputError(f"cannot be written ({why}); nothing was left there.", file=path)


def replace_folder(new: Path, path: Path) -> None:
    """Move `new` to `path`; an old folder there is deleted only after the new one is in.

    A process that is killed between the two renames leaves the old folder under the name that
    `restore_folder` looks for. Several processes replace a folder one after another.
    """
    restore_folder(path)
    with folder_lock(path.parent):
        if not path.exists():
            new.rename(path)
            return
        old = _old_folder(path)
        _delete_folder(old)
        path.rename(old)
        try:
            new.rename(path)
        except BaseException:
            old.rename(path)
            raise
        _delete_folder(old)


def restore_folder(path: Path) -> None:
    """Undo a replacement of a folder that was interrupted between its two renames."""
    try:
        if not _is_interrupted(path):
            return
        with folder_lock(path.parent):  # another process may be between the two renames
            if _is_interrupted(path):
                _old_folder(path).rename(path)
    except (OSError, ValueError):  # no path, or restored by another process
        return


def _is_interrupted(path: Path) -> bool:
    old = _old_folder(path)
    return not os.path.lexists(path) and old.is_dir() and not old.is_symlink()


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes, where the system can."""
    with ExitStack() as stack:
        with suppress(OSError):
            _lock(stack.enter_context(_open_for_lock(folder)), wait=True)
        yield


def _old_folder(path: Path) -> Path:
    """Path of a folder while another takes its place."""
    return path.parent / f".{path.name}.old"


def _delete_folder(path: Path) -> None:
    """Delete a folder under another name, so that a half-deleted one is never restored."""
    if path.is_dir():
        with temporary_folder(path.parent, path.name) as trash:
            path.rename(trash / "old")
