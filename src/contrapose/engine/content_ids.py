"""Content ids of image files; of files that the store knows they are not computed again.

A file is known by its path, inode, size, and times of change. Whoever writes to a file, or puts
another one in its place, changes the time at which its inode was changed, which no program can set.
A file that was changed a moment ago is always read, since a second change might bear the same time.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.data import ImageRef, content_id
from contrapose.data.file_maps import map_files
from contrapose.data.forked_rows import ForkedRows, count_workers
from contrapose.data.ref_columns import FileColumn
from contrapose.data.text_columns import ID_BYTES, ContentIds, IdWords
from contrapose.engine.pair_index import PairIds
from contrapose.engine.part_origins import DamagedVectorsError
from contrapose.engine.store import AnswerTable
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.scores import Skip, unreadable_skip

FILES_PER_TASK = 32
"""Files that a thread reads in one task."""

QUICK_FILE = 1e-4
"""Seconds that a file takes which no other thread need read."""

IMAGE_FILES, CONTENT_IDS = "image files", "content ids"
"""Names of the table of content ids, in place of a model and a score."""

FILES_FOR_WORKERS = 50_000
"""Files from which other processes look at a share of them."""

NO_KEY = bytes(ID_BYTES)
"""In place of the key of a file that cannot be known."""

SETTLED_SECONDS = 2.0
"""Seconds since the last change of a file whose times tell it from any later one; the times of some
file systems are two seconds apart."""

HashedFiles = Callable[[Sequence[ImageRef], Sequence[str | Skip]], None]
"""Receives image files with their content ids, some at a time, while others are still read."""


@dataclass(frozen=True, slots=True)
class ContentIdReader:
    """Reader of the content ids of image files.

    Attributes:
        table: ids of files that were read before; None reads every file.
        adds: whether ids are added to the table.
        shard: number from 1, and count, of the shard that runs: of several, each adds a share.
        hashed: receives the files as soon as their ids are known.
    """

    table: AnswerTable | None = None
    adds: bool = False
    shard: tuple[int, int] = (1, 1)
    hashed: HashedFiles | None = None

    def content_ids(self, refs: Sequence[ImageRef]) -> Sequence[str | Skip]:
        """Content ids of files; a skip for one that cannot be read.

        Raises:
            InputError: the store cannot be read.
        """
        names: list[str | Skip | None] = [None] * len(refs)
        keys = np.zeros((0, 2), np.uint64)
        positions: IntArray = np.zeros(0, dtype=np.int64)
        if self.table is not None:
            positions, keys = _file_keys(refs)
            known, ids = _find_ids(self.table, keys)
            if len(ids) == len(refs):
                if self.hashed is not None and len(ids):
                    self.hashed(refs, ids)
                return ids
            self._note(refs, positions[known], ids, names)
        left = np.array([i for i, name in enumerate(names) if name is None], dtype=np.int64)
        rest = refs if len(left) == len(refs) else [refs[i] for i in left.tolist()]
        done = 0
        for read in map_files(content_id_or_skip, rest, quick=QUICK_FILE, size=FILES_PER_TASK):
            self._note(refs, left[done : done + len(read)], read, names)
            done += len(read)
        if self.table is not None and self.adds:
            new = np.isin(positions, left, assume_unique=True)
            self._add(positions[new], keys[new], names)
        return [name for name in names if name is not None]

    def _note(
        self,
        refs: Sequence[ImageRef],
        positions: IntArray,
        ids: Sequence[str | Skip],
        names: list[str | Skip | None],
    ) -> None:
        """Note the ids of the files at some positions, and hand them on."""
        some = positions.tolist()
        for i, name in zip(some, ids, strict=True):
            names[i] = name
        if self.hashed is not None and some:
            self.hashed([refs[i] for i in some], ids)

    def _add(self, positions: IntArray, keys: IdWords, names: Sequence[str | Skip | None]) -> None:
        """Add ids that the table does not hold; where nobody may write, they are read again."""
        ids = [names[i] for i in positions.tolist()]
        number, count = self.shard
        mine = keys[:, 0] % np.uint64(count) == number - 1
        kept = mine & np.array([isinstance(name, str) for name in ids], dtype=np.bool_)
        digits = "".join(
            name
            for name, keep in zip(ids, kept.tolist(), strict=True)
            if keep and isinstance(name, str)
        )
        if self.table is None or not digits:
            return
        words = np.frombuffer(bytes.fromhex(digits), np.uint32).reshape(-1, 4)
        pairs = np.stack([np.zeros(len(words), dtype=np.int64), np.arange(len(words))], axis=1)
        rows = PairIds.take(("",), keys[kept], pairs)
        with suppress(InputError):
            self.table.add_rows(rows, {"vector": words.astype(np.float64)})


def content_id_or_skip(ref: ImageRef) -> str | Skip:
    """Content id of an image; a skip where it cannot be read."""
    try:
        return content_id(ref)
    except InputError as error:
        return unreadable_skip(error)


def _file_keys(refs: Sequence[ImageRef]) -> tuple[IntArray, IdWords]:
    """Positions of the files that can be known, and 128-bit keys of what is known of them."""
    if os.name == "nt":  # the time of a change of the inode is that of its creation there
        return np.zeros(0, dtype=np.int64), np.zeros((0, 2), np.uint64)
    settled = time.time_ns() - int(SETTLED_SECONDS * 1e9)
    hash_span = partial(_hash_files, refs, str(Path.cwd()), settled)
    workers = count_workers(len(refs), FILES_FOR_WORKERS)
    if workers:
        digests: Any = ForkedRows(hash_span, len(refs), ID_BYTES, workers, helps=True).wait()
    else:
        digests = hash_span(0, len(refs))
    words = np.frombuffer(digests, np.uint64).reshape(-1, 2)
    positions = np.flatnonzero(words.any(axis=1))
    return positions, words[positions]


def _hash_files(refs: Sequence[ImageRef], here: str, settled: int, start: int, stop: int) -> bytes:
    """Keys of a span of files, end to end; zeros for one that cannot be known.

    Args:
        refs: the files.
        here: the folder to which paths are relative.
        settled: nanoseconds of the last change after which a file cannot be known.
        start: first position.
        stop: position after the last.
    """
    if isinstance(refs, FileColumn):
        form = _form_name(ImageRef("", refs.root))
        files: Iterable[tuple[str, str]] = zip(refs.paths(start, stop), repeat(form))
    else:
        files = (
            ("", "")
            if ref.path is None or ref.cell is not None
            else (str(ref.path), _form_name(ref))
            for ref in refs[start:stop]
        )
    return b"".join([_file_key(name, form, here, settled) for name, form in files])


def _file_key(name: str, form: str, here: str, settled: int) -> bytes:
    """Key of a file; zeros where it is not there, or was changed after `settled`."""
    try:
        stat = os.stat(name)  # noqa: PTH116 - to make a path takes longer than this
    except (OSError, ValueError):
        return NO_KEY
    changed, inode_changed = stat.st_mtime_ns, stat.st_ctime_ns
    if changed > settled or inode_changed > settled:
        return NO_KEY
    folder = "" if name.startswith(os.sep) else here
    text = f"{folder}\0{name}\0{form}\0{stat.st_ino}\0{stat.st_size}\0{changed}\0{inode_changed}"
    return hashlib.blake2b(os.fsencode(text), digest_size=ID_BYTES).digest()


def _form_name(ref: ImageRef) -> str:
    """Form that a reference gives its file, as a part of the file's key."""
    return f"{ref.crop}\0{ref.channels}\0{ref.square}"


def _find_ids(table: AnswerTable, keys: IdWords) -> tuple[BoolArray, ContentIds]:
    """Which keys the table holds, and their content ids: four numbers of 32 bits each."""
    pairs = np.stack([np.zeros(len(keys), dtype=np.int64), np.arange(len(keys))], axis=1)
    while True:
        rows = table.find(("",), ContentIds(keys), pairs)
        with suppress(DamagedVectorsError):
            values: FloatArray = table.values(rows[rows >= 0], "vector")
            words = values.astype(np.uint32).view(np.uint64).reshape(-1, 2)
            return rows >= 0, ContentIds(words)
