"""Storage backends: a local folder, or any file system of fsspec.

A file that has its name is complete: it is written under a temporary name and renamed, or, on an
object store, put there in one piece, which is atomic by itself. A damaged file is set aside under
another name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol

from contrapose.errors import (
    InputError,
    MissingExtraError,
    first_line,
    hide_credentials,
    option,
)
from contrapose.files import cache_folder, remove_leftovers, write_bytes

OBJECT_STORES = frozenset(
    ("abfs", "abfss", "adl", "az", "gcs", "gs", "hf", "memory", "oci", "oss", "r2", "s3", "s3a")
)
"""Protocols whose one write is atomic, and whose rename is a copy."""


FileRange = tuple[str, int, int | None]
"""Name of a file, first byte, which counts from the end where it is negative, and the end."""


class StorageBackend(Protocol):
    """Storage backend: a tree of files that are only ever added, or set aside when damaged."""

    def prepare(self) -> None:
        """Create the root, and check that it is writable.

        Raises:
            InputError: it is not writable.
        """

    def names(self, folder: str) -> list[str]:
        """List the complete files of a folder, sorted; empty when there is no folder."""

    def read_ranges(self, folder: str, ranges: Sequence[FileRange]) -> list[bytes]:
        """Read bytes of files; empty where a file is gone, fewer where it ends.

        Raises:
            InputError: a file may not be read, or the storage cannot be reached.
        """

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Add a file atomically.

        Raises:
            InputError: it cannot be written.
        """

    def set_aside(self, folder: str, name: str) -> bool:
        """Rename a damaged file, so that it is not read again; whether that was possible."""

    def path(self, folder: str, name: str) -> Path | str:
        """Return the file's path or URL."""


def default_store_folder() -> Path:
    """Return the default store folder: the platform's cache folder."""
    return cache_folder()


def open_storage(where: Path | str) -> StorageBackend:
    """Open the storage backend of a path or of a URL such as `s3://bucket/folder`.

    Raises:
        InputError: fsspec does not know the protocol, or cannot reach it.
        MissingExtraError: fsspec, or what it needs for this protocol, is not installed.
    """
    if isinstance(where, Path) or "://" not in where:
        return LocalStorage(Path(where))
    shown = hide_credentials(where)
    try:
        url_to_fs = import_module("fsspec.core").url_to_fs
    except ImportError:
        raise MissingExtraError("fsspec", "remote", f"A cache at {shown}") from None
    try:
        system, root = url_to_fs(where)
    except ImportError as error:
        raise InputError(f"the cache {shown} cannot be opened: {explain(error)}.") from None
    except (ValueError, OSError) as error:
        raise InputError(f"the cache {shown} cannot be opened ({explain(error)}).") from None
    return RemoteStorage(shown, system, root)


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Local folder as a storage backend."""

    root: Path

    def prepare(self) -> None:
        """Create the folder, and check that it is writable."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f".{uuid.uuid4().hex}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise UnwritableStoreError(self.root, error) from None

    def names(self, folder: str) -> list[str]:
        """List part files; names of unfinished files begin with a dot and are left out."""
        path = self.root / folder
        if not path.is_dir():
            return []
        remove_leftovers(path)
        return sorted(file.name for file in path.iterdir() if _is_part_name(file.name))

    def read_ranges(self, folder: str, ranges: Sequence[FileRange]) -> list[bytes]:
        """Read bytes of files."""
        return [self._read_range(self.root / folder / name, a, b) for name, a, b in ranges]

    def _read_range(self, path: Path, start: int, end: int | None) -> bytes:
        """Read bytes of a file; none of one that is gone, or of what is no file, as a pipe.

        Raises:
            InputError: it cannot be read, now or ever, which says nothing about its bytes.
        """
        try:
            with open(path, "rb", buffering=0, opener=_open_at_once) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return b""
                size = status.st_size
                start = max(0, start + size if start < 0 else start)
                file.seek(start)
                return _read_bytes(file, max(0, min(size, size if end is None else end) - start))
        except OSError as error:
            if error.errno in NO_FILE:
                return b""
            why = error.strerror or explain(error)
            raise InputError(f"cannot be read ({why}).", file=path) from None

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Add a file by renaming it into place."""
        try:
            write_bytes(self.root / folder / name, content)
        except OSError as error:
            raise UnwritableStoreError(self.root, error) from None

    def set_aside(self, folder: str, name: str) -> bool:
        """Rename a damaged file; whether that was possible."""
        path = self.root / folder / name
        try:
            path.rename(path.with_name(name + DAMAGED))
        except OSError:
            return False
        return True

    def path(self, folder: str, name: str) -> Path:
        """Return the file's path."""
        return self.root / folder / name


@dataclass(frozen=True, slots=True)
class RemoteStorage:
    """Folder of an fsspec file system as a storage backend.

    Attributes:
        url: for messages, without credentials.
        system: the file system.
        root: the folder's path in it.
    """

    url: str
    system: Any
    root: str

    def prepare(self) -> None:
        """Check that the folder is writable."""
        probe = f".{uuid.uuid4().hex}"
        self.write("", probe, b"")
        try:
            self.system.rm_file(self._path("", probe))
        except Exception as error:  # each file system raises its own
            raise self._unwritable(error) from None

    def names(self, folder: str) -> list[str]:
        """List part files, bypassing fsspec's listing cache."""
        here = self._path(folder)
        self.system.invalidate_cache(here)
        try:
            paths = self.system.ls(here, detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._unreadable(error) from None
        names = (str(path).rstrip("/").rpartition("/")[2] for path in paths)
        return sorted(filter(_is_part_name, names))

    def read_ranges(self, folder: str, ranges: Sequence[FileRange]) -> list[bytes]:
        """Fetch bytes of files, concurrently where the file system can."""
        if not ranges:
            return []
        paths = [self._path(folder, name) for name, _, _ in ranges]
        starts, ends = [start for _, start, _ in ranges], [end for _, _, end in ranges]
        try:
            fetched = self.system.cat_ranges(paths, starts, ends, on_error="return")
        except Exception as error:
            raise self._unreadable(error) from None
        return [
            self._read_without_range(path, start, end, item)
            if isinstance(item, Exception)
            else bytes(item)
            for path, start, end, item in zip(paths, starts, ends, fetched, strict=True)
        ]

    def _read_without_range(
        self, path: str, start: int, end: int | None, error: Exception
    ) -> bytes:
        """Read bytes of a file whose range was refused, as that of an empty file is."""
        if isinstance(error, FileNotFoundError):
            return b""
        try:
            return bytes(self.system.cat_file(path)[start:end])
        except FileNotFoundError:
            return b""
        except Exception as other:
            raise self._unreadable(other) from None

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Add a file: in one write on an object store, else by renaming it into place."""
        path = self._path(folder, name)
        protocol = self.system.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        try:
            if protocols & OBJECT_STORES:
                self.system.pipe_file(path, content)
                return
            self.system.makedirs(self._path(folder), exist_ok=True)
            temporary = self._path(folder, f".{name}.{uuid.uuid4().hex}")
            self.system.pipe_file(temporary, content)
            self.system.mv(temporary, path)
        except Exception as error:
            raise self._unwritable(error) from None

    def set_aside(self, folder: str, name: str) -> bool:
        """Rename a damaged file; whether that was possible."""
        path = self._path(folder, name)
        try:
            self.system.mv(path, path + DAMAGED)
        except Exception:  # each file system raises its own
            return False
        return True

    def path(self, folder: str, name: str) -> str:
        """Return the file's URL."""
        return "/".join(filter(None, (self.url.rstrip("/"), folder, name)))

    def _path(self, folder: str, name: str = "") -> str:
        return "/".join(part for part in (self.root.rstrip("/"), folder, name) if part) or "/"

    def _unreadable(self, error: Exception) -> InputError:
        return InputError(f"the cache cannot be read ({explain(error)}).", file=self.url)

    def _unwritable(self, error: Exception) -> InputError:
        return InputError(
            f"the cache cannot be written ({explain(error)}); {_other_cache()}.",
            file=self.url,
        )


DAMAGED = ".damaged"
"""Suffix of a damaged part that was set aside."""

NO_FILE = (errno.ENOENT, errno.EISDIR, errno.ENXIO, errno.ELOOP)
"""Errors of opening what is no file: nothing, a folder, a socket, a link that leads to itself."""


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _read_bytes(file: IO[bytes], size: int) -> bytes:
    """Read so many bytes, or all up to the end; a network's file system may give them in pieces."""
    content = file.read(size) or b""
    while content and len(content) < size and (more := file.read(size - len(content))):
        content += more
    return content


def _is_part_name(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(".")


def explain(error: Exception) -> str:
    """Reason of a failure in one line, without credentials."""
    return hide_credentials(first_line(error)).rstrip(".")


class UnwritableStoreError(InputError):
    """A store's folder cannot be written; the message speaks of the user's cache.

    Attributes:
        reason: why, in the system's words, for stores that are no cache of the user's.
    """

    def __init__(self, folder: Path, error: OSError):
        self.reason = str(error.strerror or error)
        words = f"the cache folder cannot be written ({self.reason}); {_other_cache()}."
        super().__init__(words, file=folder)


def _other_cache() -> str:
    return f"pass {option('cache', 'DIR')} or {option('cache', False)}"


def folder_name(text: str) -> str:
    """Return a readable folder name, different for different texts."""
    plain = re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("._")[:48]
    if plain == text:
        return plain
    return f"{plain}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
