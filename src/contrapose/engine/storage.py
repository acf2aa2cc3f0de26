"""Storage backends (a local folder, or any file system of fsspec), and the Parquet parts in them.

A file that has its name is complete: it is written under a temporary name and renamed, or, on an
object store, put there in one piece, which is atomic by itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from contrapose.arrays import Ragged
from contrapose.errors import InputError, MissingExtraError, first_line, option
from contrapose.files import write_bytes
from contrapose.metrics import FloatArray

OBJECT_STORES = frozenset(
    ("abfs", "abfss", "adl", "az", "gcs", "gs", "hf", "memory", "oci", "oss", "r2", "s3", "s3a")
)
"""Protocols whose one write is atomic, and whose rename is a copy."""


class StorageBackend(Protocol):
    """Storage backend: a tree of files that are only ever added."""

    def prepare(self) -> None:
        """Create the root, and check that it is writable.

        Raises:
            InputError: it is not writable.
        """

    def names(self, folder: str) -> list[str]:
        """List the complete files of a folder, sorted; empty when there is no folder."""

    def read(self, folder: str, names: Sequence[str]) -> Mapping[str, Any]:
        """Return what pyarrow reads each file from: a path, or its bytes."""

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Add a file atomically.

        Raises:
            InputError: it cannot be written.
        """

    def path(self, folder: str, name: str) -> Path | str:
        """Return the file's path or URL."""


def open_storage(where: Path | str) -> StorageBackend:
    """Open the storage backend of a path or of a URL such as `s3://bucket/folder`.

    Raises:
        InputError: fsspec does not know the protocol, or cannot reach it.
        MissingExtraError: fsspec, or what it needs for this protocol, is not installed.
    """
    if isinstance(where, Path) or "://" not in where:
        return LocalStorage(Path(where))
    try:
        url_to_fs = import_module("fsspec.core").url_to_fs
    except ImportError:
        raise MissingExtraError("fsspec", "remote", f"A cache at {where}") from None
    try:
        system, root = url_to_fs(where)
    except ImportError as error:
        raise InputError(f"the cache {where} cannot be opened: {_reason(error)}.") from None
    except (ValueError, OSError) as error:
        raise InputError(f"the cache {where} cannot be opened ({_reason(error)}).") from None
    return RemoteStorage(where, system, root)


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
            raise _unwritable_error(self.root, error) from None

    def names(self, folder: str) -> list[str]:
        """List part files; names of unfinished files begin with a dot and are left out."""
        path = self.root / folder
        if not path.is_dir():
            return []
        return sorted(file.name for file in path.iterdir() if _is_part_name(file.name))

    def read(self, folder: str, names: Sequence[str]) -> Mapping[str, Any]:
        """Return the files' paths."""
        return {name: self.root / folder / name for name in names}

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Add a file by renaming it into place."""
        try:
            write_bytes(self.root / folder / name, content)
        except OSError as error:
            raise _unwritable_error(self.root, error) from None

    def path(self, folder: str, name: str) -> Path:
        """Return the file's path."""
        return self.root / folder / name


@dataclass(frozen=True, slots=True)
class RemoteStorage:
    """Folder of an fsspec file system as a storage backend."""

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

    def read(self, folder: str, names: Sequence[str]) -> Mapping[str, Any]:
        """Fetch the files' bytes, concurrently where the file system can."""
        import pyarrow as pa

        if not names:
            return {}
        paths = [self._path(folder, name) for name in names]
        try:
            fetched = self.system.cat(paths)
        except Exception as error:
            raise self._unreadable(error) from None
        contents = [fetched] if isinstance(fetched, bytes) else list(fetched.values())
        return {
            name: pa.BufferReader(content) for name, content in zip(names, contents, strict=True)
        }

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

    def path(self, folder: str, name: str) -> str:
        """Return the file's URL."""
        return "/".join(filter(None, (self.url.rstrip("/"), folder, name)))

    def _path(self, folder: str, name: str = "") -> str:
        return "/".join(part for part in (self.root.rstrip("/"), folder, name) if part) or "/"

    def _unreadable(self, error: Exception) -> InputError:
        return InputError(f"the cache cannot be read ({_reason(error)}).", file=self.url)

    def _unwritable(self, error: Exception) -> InputError:
        return InputError(
            f"the cache cannot be written ({_reason(error)}); {_other_cache()}.", file=self.url
        )


def _is_part_name(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(".")


def _reason(error: Exception) -> str:
    return first_line(error).rstrip(".")


def _unwritable_error(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"the cache folder cannot be written ({error.strerror or error}); {_other_cache()}.",
        file=folder,
    )


def _other_cache() -> str:
    return f"pass {option('cache', 'DIR')} or {option('cache', False)}"


ID_COLUMNS = ("model", "score", "image", "text")
"""Columns that identify a row."""


def read_part(source: Any, path: Path | str) -> tuple[Any, Any, dict[str, FloatArray]]:
    """Read a Parquet part without its ragged columns: image ids, caption ids, numeric columns.

    The ids are Arrow large-string arrays.

    Raises:
        InputError: the part is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source) as file:
            names = [
                field.name
                for field in file.schema_arrow
                if field.name not in ("model", "score") and not pa.types.is_list(field.type)
            ]
            table = file.read(columns=names, use_threads=False).combine_chunks()
        images, texts = (
            _combine_chunks(table[name].cast(pa.large_string())) for name in ("image", "text")
        )
        columns = {
            name: _column_to_numpy(_combine_chunks(table[name]))
            for name in names
            if name not in ID_COLUMNS
        }
        return images, texts, columns
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _damaged_part_error(error, path) from None


def read_lists(source: Any, path: Path | str, name: str) -> Ragged:
    """Read one ragged column of a Parquet part.

    Raises:
        InputError: the part is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source) as file:
            return Ragged.from_arrow(file.read(columns=[name], use_threads=False)[name])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _damaged_part_error(error, path) from None


def _damaged_part_error(error: Exception, path: Path | str) -> InputError:
    return InputError(
        f"is a damaged part of the cache ({_reason(error)}); delete this file, and what it held is "
        "asked again.",
        file=path,
    )


def _combine_chunks(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _column_to_numpy(column: Any) -> FloatArray:
    if hasattr(column, "flatten") and hasattr(column.type, "list_size"):
        flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
        return flat.reshape(len(column), column.type.list_size)
    return np.asarray(column.to_numpy(zero_copy_only=False))
