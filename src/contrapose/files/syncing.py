"""Synchronization of files with the disk, so that they survive a power failure.

A rename may reach the disk before the bytes of the file do: a file is synchronized before it gets
its name, and the folder after that.
"""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
"""Errors of a file system that cannot synchronize."""

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)
"""Errors of opening a file that could be synchronized."""

SYNC_FLAGS = (
    (os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
"""Flags to open what is to be synchronized: no link, and without waiting for a pipe's writer."""

SYNC_WORKERS = 8
"""Threads that synchronize the files of a folder: the disk then writes many at once."""


def sync_file(stream: IO[Any]) -> None:
    """Write an open file to the disk.

    Raises:
        OSError: that failed, as on a full or broken disk.
    """
    stream.flush()
    try:
        os.fsync(stream.fileno())
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's entries to the disk, where the system can."""
    with suppress(OSError):  # folders cannot be opened everywhere
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sync_tree(folder: Path) -> None:
    """Write a folder to the disk, with all files and folders in it.

    Raises:
        OSError: that failed, as on a full or broken disk.
    """
    files: list[Path] = []
    folders: list[Path] = []
    for path, _, names in os.walk(folder):
        folders.append(Path(path))
        files += (Path(path, name) for name in names)
    with ThreadPoolExecutor(SYNC_WORKERS) as pool:
        list(pool.map(_sync_path, files))
        list(pool.map(sync_folder, folders))


def _sync_path(path: Path) -> None:
    try:
        handle = os.open(path, SYNC_FLAGS)
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        return  # a link, or a copy of a file that nobody may read
    with os.fdopen(handle, "rb") as stream:
        sync_file(stream)
