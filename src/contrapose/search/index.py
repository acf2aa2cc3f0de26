"""Image index on disk: memory-mapped unit vectors, and an Arrow table of files beside them.

    INDEX/index.json              model, fingerprint, root, names of the two files, skipped images
    INDEX/vectors-N.npy           (n, d) float32, memory-mapped
    INDEX/images-N.parquet        path, size, mtime, content id; a row for each vector

An update writes files with the next number and replaces the manifest last: who reads an index sees
the old state or the new one. Paths are relative to the root and never leave it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from contrapose.engine.store import folder_name
from contrapose.errors import InputError, first_line, option
from contrapose.files import MalformedError, read_json, read_npy, safe_join, write_text
from contrapose.metrics import IntArray

VERSION = 1
MANIFEST = "index.json"
LOCK = ".lock"
INDEX_FOLDER = ".contrapose"
"""Folder inside the images' folder that holds its indexes, one for each model."""

MAX_TRIES = 8
"""Updates by others that an opening may meet."""

COLUMNS = ("path", "size", "mtime", "content")


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Index of images: unit vectors and the files they are of.

    Attributes:
        folder: where the index lies.
        root: folder that the images' paths are relative to.
        model: name of the model that made the vectors.
        fingerprint: its fingerprint.
        vectors: (n, d) memory-mapped unit vectors, float32.
        table: Arrow table: path, size, mtime, content.
        skipped: images that could not be read, with the reasons.
        number: number of the index's files; grows with every update.
    """

    folder: Path
    root: Path
    model: str
    fingerprint: str
    vectors: NDArray[np.float32]
    table: Any
    skipped: dict[str, str] = field(default_factory=dict)
    number: int = 0

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, {len(self):,} images, {self.model})"

    def path(self, row: int) -> str:
        """Path of an image, relative to the root, with `/`."""
        return str(self.table["path"][row].as_py())

    def file(self, row: int) -> Path:
        """File of an image.

        Raises:
            InputError: the table names a path outside the root.
        """
        try:
            return safe_join(self.root, self.path(row))
        except MalformedError as error:
            raise InputError(f"is damaged: {error}", file=self.folder) from None

    def find_path(self, path: str) -> int | None:
        """Row of a relative path; None where the index does not hold it."""
        rows = self._find("path", path)
        return int(rows[0]) if len(rows) else None

    def find_content(self, content: str) -> IntArray:
        """Rows of all images with this content id."""
        return self._find("content", content)

    def _find(self, column: str, value: str) -> IntArray:
        import pyarrow.compute as pc

        equal = pc.equal(self.table[column], value)
        return np.flatnonzero(equal.to_numpy(zero_copy_only=False))

    def require_model(self, fingerprint: str, name: str) -> None:
        """Refuse another model than the one that made the vectors.

        Raises:
            InputError: the fingerprint is another.
        """
        if fingerprint != self.fingerprint:
            raise InputError(
                f"is an index of {self.model}, and {name} is another model or another version of "
                f"it; index the images again with {name}.",
                file=self.folder,
            )


def default_index_folder(root: Path, model: str) -> Path:
    """Folder of a model's index of a folder of images, inside that folder."""
    return root / INDEX_FOLDER / folder_name(model)


def find_index(where: Path, fingerprint: str | None = None) -> Path:
    """Find the index folder: the folder itself, or the index inside a folder of images.

    Args:
        where: an index folder, or a folder of images that was indexed.
        fingerprint: of the model, where a folder has indexes of several.

    Raises:
        InputError: there is no index, or there are several to choose from.
    """
    if (where / MANIFEST).is_file():
        return where
    if not where.is_dir():
        raise InputError("there is no such folder.", file=where)
    inside = sorted(path.parent for path in (where / INDEX_FOLDER).glob(f"*/{MANIFEST}"))
    if not inside:
        raise InputError("has no index; make one with contrapose index.", file=where)
    if len(inside) == 1:
        return inside[0]
    manifests = {folder: _read_manifest(folder) for folder in inside}
    for folder, manifest in manifests.items():
        if manifest["fingerprint"] == fingerprint:
            return folder
    names = ", ".join(manifest["model"] for manifest in manifests.values())
    choose = "" if fingerprint is not None else f"; choose one with {option('model')}"
    raise InputError(f"has indexes of {names}{choose}.", file=where)


def open_index(folder: Path) -> Index:
    """Open an index; vectors are memory-mapped.

    Raises:
        InputError: it is not there, of another version, or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    manifest, tries = _read_manifest(folder), 0
    while True:
        try:
            vectors = read_npy(safe_join(folder, manifest["vectors"]), mapped=True)
            table = pq.read_table(safe_join(folder, manifest["images"])).combine_chunks()
            break
        except (InputError, OSError, ValueError, pa.ArrowException, MalformedError) as error:
            # A writer may have replaced the files since the manifest was read.
            before, manifest, tries = manifest, _read_manifest(folder), tries + 1
            if manifest["number"] == before["number"] or tries > MAX_TRIES:
                raise _damage_error(folder, first_line(error)) from None
    if vectors.ndim != 2 or vectors.dtype != np.float32 or len(vectors) != table.num_rows:
        raise _damage_error(folder, f"vectors {vectors.shape} for {table.num_rows} images")
    if tuple(table.column_names) != COLUMNS:
        raise _damage_error(folder, f"columns {', '.join(table.column_names)}")
    return Index(
        folder=folder,
        root=(folder / manifest["root"]).resolve(),
        model=manifest["model"],
        fingerprint=manifest["fingerprint"],
        vectors=vectors,
        table=table,
        skipped=manifest["skipped"],
        number=manifest["number"],
    )


def read_stamp(folder: Path) -> tuple[int, int, int] | None:
    """Stamp of the manifest, another one after each update; None where there is no manifest."""
    try:
        status = (folder / MANIFEST).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def write_index(
    folder: Path,
    root: Path,
    model: tuple[str, str],
    table: Mapping[str, Sequence[Any]],
    vectors: Path,
    skipped: dict[str, str],
    number: int,
) -> None:
    """Write an index's table, take over its vectors, and replace the manifest last.

    Args:
        folder: of the index.
        root: folder of the images.
        model: name and fingerprint.
        table: the columns.
        vectors: a finished `.npy` file in the folder, which is renamed.
        skipped: images without a vector, with the reasons.
        number: of the new files.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = {"vectors": f"vectors-{number}.npy", "images": f"images-{number}.parquet"}
    types = (pa.large_string(), pa.int64(), pa.int64(), pa.large_string())
    arrays = [pa.array(table[name], kind) for name, kind in zip(COLUMNS, types, strict=True)]
    temporary = folder / f".{names['images']}"
    pq.write_table(pa.table(arrays, names=list(COLUMNS)), temporary, compression="zstd")
    temporary.replace(folder / names["images"])
    vectors.replace(folder / names["vectors"])
    inside = folder.resolve().is_relative_to(root.resolve())
    where = os.path.relpath(root.resolve(), folder.resolve()) if inside else str(root.resolve())
    manifest = {
        "version": VERSION,
        "model": model[0],
        "fingerprint": model[1],
        "root": where,
        "images_count": len(table["path"]),
        "number": number,
        **names,
        "skipped": skipped,
    }
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    for old in folder.glob("*-*.*"):
        if old.name not in names.values() and old.suffix in (".npy", ".parquet"):
            old.unlink(missing_ok=True)


@contextmanager
def lock_index(folder: Path) -> Iterator[None]:
    """Hold the index's lock; a process that is killed releases it.

    Raises:
        InputError: another process holds it.
    """
    with (folder / LOCK).open("a+b") as stream:
        if not _try_lock(stream):
            raise InputError("is being written by another process; wait for it.", file=folder)
        yield


def _try_lock(stream: IO[bytes]) -> bool:
    try:
        try:
            import fcntl
        except ImportError:  # Windows
            import msvcrt

            getattr(msvcrt, "locking")(stream.fileno(), getattr(msvcrt, "LK_NBLCK"), 1)  # noqa: B009
        else:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _read_manifest(folder: Path) -> dict[str, Any]:
    manifest = read_json(folder / MANIFEST)
    kinds = {
        "version": int, "model": str, "fingerprint": str, "root": str, "number": int,
        "vectors": str, "images": str, "skipped": dict,
    }  # fmt: skip
    if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
        raise InputError("is no index, or one of another version; index again.", file=folder)
    for name, kind in kinds.items():
        if not isinstance(manifest.get(name), kind):
            raise _damage_error(folder, f"{name} is missing in {MANIFEST}")
    return manifest


def _damage_error(folder: Path, why: str) -> InputError:
    return InputError(
        f"is a damaged index ({why}); delete it and index the images again.", file=folder
    )
