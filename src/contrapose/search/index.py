"""Image index on disk: memory-mapped unit vectors, and an Arrow table of files beside them.

    INDEX/index.json              model, fingerprint, root, names and checksums of the two files,
                                  skipped images, and a digest of all this
    INDEX/vectors-N.npy           (n, d) float32, memory-mapped
    INDEX/images-N.parquet        path, size, mtime, content id; a row for each vector

An update writes files with the next number and replaces the manifest last: who reads an index sees
the old state or the new one. Paths are relative to the root and never leave it.

Opening reads the table and checks its digest. Vectors have a checksum for each block of rows, which
is compared before the block is first used, so that opening reads no vector.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.cores import count_threads
from contrapose.engine.storage import folder_name
from contrapose.errors import InputError, first_line, option, shortage_error
from contrapose.files import (
    MalformedError,
    digest,
    open_lock,
    read_bytes,
    read_json,
    read_npy,
    safe_join,
    try_lock,
    write_bytes,
    write_text,
)
from contrapose.metrics import IntArray
from contrapose.models import Model
from contrapose.search.exact import MAX_THREADS
from contrapose.search.spaces import fits_space

VERSION = 2
MANIFEST = "index.json"
LOCK = ".lock"
INDEX_FOLDER = ".contrapose"
"""Folder inside the images' folder that holds its indexes, one for each model."""

MAX_TRIES = 8
"""Updates by others that an opening may meet."""

COLUMNS = ("path", "size", "mtime", "content")

BLOCK_ROWS = 4096
"""Vectors of a block, which has one checksum: 8 MiB of 512 numbers each."""

CHECKSUM_DIGITS = 8
"""Hexadecimal digits of a checksum in the manifest."""


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
        checksums: CRC-32 of each block of `BLOCK_ROWS` vectors.
        space: of the vectors, see `models.sides.vector_space`; empty where it is unknown.
    """

    folder: Path
    root: Path
    model: str
    fingerprint: str
    vectors: NDArray[np.float32]
    table: Any
    skipped: dict[str, str] = field(default_factory=dict)
    number: int = 0
    checksums: tuple[int, ...] = ()
    _sound: set[int] = field(default_factory=set, repr=False)
    space: str = ""

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, {len(self):,} images, {self.model})"

    def check(self, rows: IntArray | None = None) -> None:
        """Compare the checksums of the vectors, or of the blocks that hold some rows.

        A block is read once: what was sound before is not read again.

        Raises:
            InputError: a vector is not what was written.
        """
        damaged = self.find_damage(rows)
        if len(damaged):
            count = "one image is" if len(damaged) == 1 else f"{len(damaged):,} images are"
            raise InputError(
                f"is a damaged index (the vectors of {count} not what was written); contrapose "
                "index makes them again.",
                file=self.folder,
            )

    def find_damage(self, rows: IntArray | None = None) -> IntArray:
        """Find the rows of all blocks, or of those that hold some rows, that are damaged."""
        count = len(self)
        blocks = range(len(self.checksums)) if rows is None else np.unique(rows // BLOCK_ROWS)
        unread = [int(block) for block in blocks if int(block) not in self._sound]
        with ThreadPoolExecutor(max(1, min(count_threads(), MAX_THREADS, len(unread)))) as pool:
            sums = list(pool.map(self._sum_block, unread))
        damaged = [np.zeros(0, dtype=np.int64)]
        for block, checksum in zip(unread, sums, strict=True):
            if checksum == self.checksums[block]:
                self._sound.add(block)
            else:
                start = block * BLOCK_ROWS
                damaged.append(np.arange(start, min(start + BLOCK_ROWS, count)))
        return np.concatenate(damaged)

    def _sum_block(self, block: int) -> int:
        return block_checksum(self.vectors[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS])

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


def block_checksum(vectors: NDArray[np.float32]) -> int:
    """CRC-32 of the bytes of (n, d) vectors, row by row."""
    return zlib.crc32(np.ascontiguousarray(vectors).data)


def default_index_folder(root: Path, model: str) -> Path:
    """Folder of a model's index of a folder of images, inside that folder."""
    return root / INDEX_FOLDER / folder_name(model)


def find_index(where: Path, model: Model | None = None) -> Path:
    """Find the index folder: the folder itself, or the index inside a folder of images.

    Args:
        where: an index folder, or a folder of images that was indexed.
        model: where a folder has indexes of several: the one that made the index, or a text encoder
            of its space.

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
        if model is not None and manifest["fingerprint"] == model.fingerprint:
            return folder
    for folder, manifest in manifests.items():
        facts = (manifest[key] for key in ("fingerprint", "space", "model"))
        if model is not None and fits_space(model, *facts):
            return folder
    names = ", ".join(manifest["model"] for manifest in manifests.values())
    choose = "" if model is not None else f"; choose one with {option('model')}"
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
            root = (folder / manifest["root"]).resolve()
            vectors = read_npy(safe_join(folder, manifest["vectors"]), mapped=True)
            content = read_bytes(safe_join(folder, manifest["images"]))
            if digest(content) != manifest["images_digest"]:
                raise MalformedError("the list of images is not what was written")
            table = pq.read_table(pa.BufferReader(content)).combine_chunks()
            break
        except (InputError, OSError, ValueError, pa.ArrowException, MalformedError) as error:
            if short := shortage_error(error, folder):
                raise short from None
            # A writer may have replaced the files since the manifest was read.
            before, manifest, tries = manifest, _read_manifest(folder), tries + 1
            if manifest["number"] == before["number"] or tries > MAX_TRIES:
                raise _damage_error(folder, first_line(error)) from None
    if vectors.ndim != 2 or vectors.dtype != np.float32 or len(vectors) != table.num_rows:
        raise _damage_error(folder, f"vectors {vectors.shape} for {table.num_rows} images")
    if tuple(table.column_names) != COLUMNS:
        raise _damage_error(folder, f"columns {', '.join(table.column_names)}")
    checksums = _parse_checksums(folder, manifest["checksums"])
    if len(checksums) != -(-len(vectors) // BLOCK_ROWS):
        raise _damage_error(folder, f"{len(checksums)} checksums of {len(vectors)} vectors")
    return Index(
        folder=folder,
        root=root,
        model=manifest["model"],
        fingerprint=manifest["fingerprint"],
        vectors=vectors,
        table=table,
        skipped=manifest["skipped"],
        number=manifest["number"],
        checksums=checksums,
        space=manifest["space"],
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
    model: tuple[str, str, str],
    table: Mapping[str, Sequence[Any]],
    vectors: tuple[Path, Sequence[int]],
    skipped: dict[str, str],
    number: int,
) -> None:
    """Write an index's table, take over its vectors, and replace the manifest last.

    Args:
        folder: of the index.
        root: folder of the images.
        model: name, fingerprint, and space of the vectors.
        table: the columns.
        vectors: a finished `.npy` file in the same file system, which is renamed, and its
            checksums.
        skipped: images without a vector, with the reasons.
        number: of the new files.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = {"vectors": f"vectors-{number}.npy", "images": f"images-{number}.parquet"}
    types = (pa.large_string(), pa.int64(), pa.int64(), pa.large_string())
    arrays = [pa.array(table[name], kind) for name, kind in zip(COLUMNS, types, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, names=list(COLUMNS)), sink, compression="zstd")
    content = sink.getvalue().to_pybytes()
    inside = folder.resolve().is_relative_to(root.resolve())
    where = os.path.relpath(root.resolve(), folder.resolve()) if inside else str(root.resolve())
    manifest = {
        "version": VERSION,
        "model": model[0],
        "fingerprint": model[1],
        "space": model[2],
        "root": where,
        "images_count": len(table["path"]),
        "number": number,
        **names,
        "images_digest": digest(content),
        "checksums": "".join(f"{checksum:0{CHECKSUM_DIGITS}x}" for checksum in vectors[1]),
        "skipped": skipped,
    }
    manifest["digest"] = _manifest_digest(manifest)
    write_bytes(folder / names["images"], content)
    vectors[0].replace(folder / names["vectors"])
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    with suppress(OSError):  # the index is written, whatever becomes of the old files
        for old in folder.iterdir():
            if FILE_NAME.fullmatch(old.name) and old.name not in names.values():
                old.unlink(missing_ok=True)


FILE_NAME = re.compile(r"vectors-\d+\.npy|images-\d+\.parquet")
"""Names of an index's files."""


@contextmanager
def lock_index(folder: Path) -> Iterator[None]:
    """Hold the index's lock; a process that is killed releases it.

    Raises:
        InputError: another process holds it, or it is a symbolic link.
    """
    with open_lock(folder / LOCK) as stream:
        if not try_lock(stream):
            raise InputError("is being written by another process; wait for it.", file=folder)
        yield


def _read_manifest(folder: Path) -> dict[str, Any]:
    manifest = read_json(folder / MANIFEST)
    kinds = {
        "version": int, "model": str, "fingerprint": str, "root": str, "number": int,
        "vectors": str, "images": str, "images_digest": str, "checksums": str, "skipped": dict,
        "space": str,
    }  # fmt: skip
    if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
        raise InputError(
            "is no index, or one of another version; delete it and index the images again.",
            file=folder,
        )
    manifest.setdefault("space", "")
    for name, kind in kinds.items():
        if not isinstance(manifest.get(name), kind):
            raise _damage_error(folder, f"{name} is missing in {MANIFEST}")
    if manifest.pop("digest", None) != _manifest_digest(manifest):
        raise _damage_error(folder, f"{MANIFEST} is not what was written")
    return manifest


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    return digest(json.dumps(manifest, sort_keys=True).encode())


def _parse_checksums(folder: Path, text: str) -> tuple[int, ...]:
    """Checksums of a manifest.

    Raises:
        InputError: they are no hexadecimal numbers.
    """
    try:
        content = bytes.fromhex(text)
        return tuple(np.frombuffer(content, dtype=">u4").tolist())
    except ValueError:
        raise _damage_error(folder, "checksums that are none") from None


def _damage_error(folder: Path, why: str) -> InputError:
    return InputError(
        f"is a damaged index ({why}); delete it and index the images again.", file=folder
    )
