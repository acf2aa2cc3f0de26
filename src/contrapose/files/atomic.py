"""Atomic writing of files and folders: the complete result, or what was there before."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from contrapose.errors import InputError, option
from contrapose.files.paths import local_path


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: under a temporary name beside its path, then renamed."""
    with _temporary_file(path) as stream:
        stream.write(content)


def write_text(path: Path, content: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, content.encode())


def digest(content: bytes) -> str:
    """Return a digest of a file's content, in 16 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a binary stream whose file takes its name only when the block succeeds.

    Raises:
        InputError: writing fails: no permission, no space.
    """
    try:
        with _temporary_file(path) as stream:
            yield stream
    except OSError as error:
        raise _write_error(path, error) from None


@contextmanager
def _temporary_file(path: Path) -> Iterator[IO[bytes]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        temporary.chmod(0o666 & ~_read_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_free(path: Path, *, overwrite: bool = False) -> None:
    """Require that a folder can be created here, before the work that would fill it.

    A replacement of the folder that was interrupted is undone first.

    Raises:
        InputError: there is a non-empty folder and `overwrite` is off, or a file, or the path is a
            URL or cannot be used.
    """
    local_path(path)
    restore_folder(path)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise InputError(
            f"is there already and is not a folder; choose another {option('out')}.", file=path
        )
    if not overwrite and path.is_dir() and any(path.iterdir()):
        raise InputError(
            f"is not empty; choose another {option('out')} or pass {option('overwrite', True)}.",
            file=path,
        )


@contextmanager
def new_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty folder to fill; it takes its final name only when the block succeeds.

    Args:
        path: the folder's final path.
        overwrite: replace a folder that exists.

    Raises:
        InputError: there is a non-empty folder and `overwrite` is off, or a file, or writing
            fails: no permission, no space.
    """
    require_free(path, overwrite=overwrite)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        temporary.chmod(0o777 & ~_read_umask())
        yield temporary
        replace_folder(temporary, path)
    except BaseException as error:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise _write_error(path, error) from None
        raise


def _write_error(path: Path, error: OSError) -> InputError:
    why = error.strerror or str(error)
    return InputError(f"cannot be written ({why}); nothing was left there.", file=path)


def replace_folder(new: Path, path: Path) -> None:
    """Move `new` to `path`; an old folder there is deleted only after the new one is in.

    A process that is killed between the two renames leaves the old folder under the name that
    `restore_folder` looks for.
    """
    restore_folder(path)
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
        if not os.path.lexists(path) and _old_folder(path).is_dir():
            _old_folder(path).rename(path)
    except (OSError, ValueError):  # no path, or restored by another process
        return


def _old_folder(path: Path) -> Path:
    """Path of a folder while another takes its place."""
    return path.parent / f".{path.name}.old"


def _delete_folder(path: Path) -> None:
    """Delete a folder under another name, so that a half-deleted one is never restored."""
    if path.is_dir():
        trash = Path(tempfile.mkdtemp(prefix=f"{path.name}.", dir=path.parent))
        path.rename(trash / "old")
        shutil.rmtree(trash, ignore_errors=True)


def _read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
