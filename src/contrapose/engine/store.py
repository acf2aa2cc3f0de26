"""Content-addressed store of scores: append-only Parquet parts, one table per model and score.

A part that has its name is complete, whenever its writer was killed; what was left under a
temporary name is never read. Names of parts sort by the order of writing, so that the newest answer
counts where something was scored again. Any number of programs may add to a table at once: each
writes parts of its own, and none is ever changed or deleted. A part whose bytes do not have the
digest in its name is named in a warning and set aside; its pairs are scored again.

    ROOT/answers/<model fingerprint>/<score>/<part>.parquet    model, score, image, text, value, …

In memory a row is packed ids and numbers, and never a Python object. A small table is held whole.
Of one that is much larger than what is asked for, only the rows of pairs that were asked for are
held; its parts are read again when others are. Vectors are read from their parts when they are
used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from contrapose.arrays import Ragged
from contrapose.engine.pair_index import PairFilter, PairIds, PairIndex, PairQuery, pack_ids
from contrapose.engine.part_files import encode_part, max_part_rows
from contrapose.engine.part_origins import (
    DamagedPartError,
    DamagedVectorsError,
    PartOrigin,
    PartVectors,
    group_rows,
    read_vectors,
    trim_memory,
    vector_shape,
)
from contrapose.engine.part_reader import PartContent, read_lists, read_parts
from contrapose.engine.row_blocks import Block, HeldRows
from contrapose.engine.storage import StorageBackend, folder_name, open_storage
from contrapose.errors import DamageWarning
from contrapose.metrics import FloatArray, IntArray
from contrapose.models.capabilities import UNSTORED

TABLE_ROWS, ROWS_PER_PAIR = 1 << 22, 4
"""Rows up to which a table is held whole, and the same for each pair that is asked for."""

MAX_SCANS, MANY_ROWS = 4, 1 << 24
"""Times that parts are read for some pairs; after that a table of so many rows is held whole."""

MAX_INDEXES = 8
"""Indexes of pairs that were asked for, which are then joined."""


@dataclass(slots=True)
class AnswerTable:
    """Answers of one model under one score name: append-only parts with an index over them.

    Attributes:
        storage: where parts are stored; None keeps them in memory alone.
        folder: the table's folder in the storage.
        model: the model's fingerprint.
        score: the score's name in the store.
        shard: the shard that adds parts, such as `2/8`; empty for none.
        rows_at_start: rows that were stored when the table was first read.
    """

    storage: StorageBackend | None
    folder: str
    model: str
    score: str
    shard: str = ""
    rows_at_start: int = 0
    _held: HeldRows = field(default_factory=HeldRows)
    _origins: list[PartOrigin] = field(default_factory=list)
    _asked: list[PairIndex] | None = None  # the pairs whose rows are held; None is all
    _scans: int = 0
    _read: bool = False

    def find(
        self, images: Sequence[str], texts: Sequence[str], pairs: IntArray | None = None
    ) -> IntArray:
        """Return the row of each pair of content ids; −1 where it has none.

        An answer that needs no image, or no text, has an empty id for it. Of a pair that was scored
        again, the newest row counts.

        Args:
            images: content ids of images.
            texts: content ids of captions.
            pairs: (p, 2) positions in them; None pairs the i-th image with the i-th caption.
        """
        if pairs is None:
            pairs = np.repeat(np.arange(len(images))[:, None], 2, axis=1)
        packed = pack_ids(images), pack_ids(texts)
        self._read_once((*packed, pairs))
        rows = self._held.find(*packed, pairs)
        if self._asked is not None:
            left = np.flatnonzero(rows < 0)
            for index in self._asked:
                left = left[index.find(*packed, pairs[left]) < 0]
            if len(left):
                self._ask(PairIds.take(*packed, pairs[left]))
                rows[left] = self._held.find(*packed, pairs[left])
        return rows

    def values(self, rows: IntArray, column: str = "value") -> FloatArray:
        """Return a column's values in these rows: (n,), or (n, d) for vectors; NaN for row −1.

        Raises:
            DamagedVectorsError: a vector is not as it was written; rows are to be found anew.
        """
        if column == "vector":
            return self._vectors(rows)
        self._read_once()
        return self._held.values(rows, column)

    def _vectors(self, rows: IntArray) -> FloatArray:
        width, dtype = vector_shape(self._origins)
        values = np.empty((len(rows), width), dtype=dtype)
        unread = np.ones(len(rows), dtype=np.bool_)

        def keep(positions: IntArray, vectors: FloatArray) -> None:
            values[positions] = vectors
            unread[positions] = False

        self.read_vectors(rows, keep)
        values[unread] = np.nan
        return values

    @property
    def vector_width(self) -> int:
        """Numbers of a vector; 0 where there is none."""
        return vector_shape(self._origins)[0]

    def read_vectors(
        self, rows: IntArray, use: Callable[[IntArray, FloatArray], None] = lambda *_: None
    ) -> None:
        """Read the vectors of rows in threads, as `part_origins.read_vectors`.

        Raises:
            DamagedVectorsError: as `values`.
        """
        damaged = read_vectors(self._origins, rows, use)
        for origin in damaged:
            origin.damaged = True
            self._set_aside(origin.name)
        if damaged and damaged[0].vectors is not None:
            self._read_all(self._filter())
            raise DamagedVectorsError(damaged[0].vectors.path)

    def lists(self, rows: IntArray, column: str) -> Ragged:
        """Read a ragged column's lists in these rows from the parts; empty where there is none.

        Raises:
            InputError: a part was damaged since it was first read.
        """
        groups = list(group_rows(self._origins, rows))
        order = np.full(len(rows), -1, dtype=np.int64)
        parts: list[Ragged] = []
        names = [origin.name for origin, _ in groups if origin.name]
        stored = read_lists(self.storage, self.folder, names, column)
        done = 0
        for origin, inside in groups:
            lists: Ragged | None = origin.lists.get(column)
            if self.storage is not None and origin.name:
                lists = next(stored)
                if lists is None:
                    raise DamagedPartError(self.storage.path(self.folder, origin.name))
            if lists is not None:
                parts.append(lists.take(rows[inside] - origin.start))
                order[inside] = done + np.arange(len(inside))
                done += len(inside)
        return Ragged.concatenate([*parts, Ragged.empty(1)]).take(order)

    def add(
        self,
        images: Sequence[str],
        texts: Sequence[str],
        columns: Mapping[str, FloatArray | Ragged],
    ) -> None:
        """Append answers as one part, or as several where vectors are many.

        Raises:
            InputError: the storage cannot be written.
        """
        self.add_rows(PairIds.of(images, texts), columns)

    def add_rows(self, ids: PairIds, columns: Mapping[str, FloatArray | Ragged]) -> None:
        """Append answers whose ids are packed already, as `add` does.

        Raises:
            InputError: the storage cannot be written.
        """
        self._read_once()
        step = max_part_rows(columns)
        for start in range(0, len(ids), step):
            if step >= len(ids):
                self._add_part(ids, columns)
                return
            rows = np.arange(start, min(start + step, len(ids)))
            some = {
                name: column.take(rows) if isinstance(column, Ragged) else column[rows]
                for name, column in columns.items()
            }
            self._add_part(ids.select(rows), some)

    def _add_part(self, ids: PairIds, columns: Mapping[str, FloatArray | Ragged]) -> None:
        plain = {n: column for n, column in columns.items() if not isinstance(column, Ragged)}
        numbers = {name: column for name, column in plain.items() if column.ndim == 1}
        vectors = next((column for column in plain.values() if column.ndim > 1), None)
        origin = PartOrigin(self.rows, len(ids), held=True)
        if self.storage is None:
            origin.lists = {
                n: column for n, column in columns.items() if isinstance(column, Ragged)
            }
            if vectors is not None:
                origin.vectors = PartVectors(None, self.folder, "", None, vectors)
        else:
            names = {"model": self.model, "score": self.score, "newest": self.newest}
            name, encoded, layout = encode_part(ids, columns, **names, shard=self.shard)
            self.storage.write(self.folder, name, encoded)
            origin.name, origin.shard = name, self.shard
            if vectors is not None:
                origin.vectors = PartVectors(self.storage, self.folder, name, layout, vectors)
        self._origins.append(origin)
        self._held.append(Block(ids, numbers, origin.start))
        trim_memory(self._origins)

    @property
    def rows(self) -> int:
        """Number of rows, with those of parts that were damaged since they were read."""
        self._read_once()
        return self._origins[-1].start + self._origins[-1].rows if self._origins else 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no row; reads no part."""
        if self._read or self.storage is None:
            return not self._origins
        return not self.storage.names(self.folder)

    @property
    def newest(self) -> str:
        """Name of the newest part that was read or written; empty where there is none."""
        self._read_once()
        return max((origin.name for origin in self._origins), default="")

    def read_new(self) -> None:
        """Read the parts that other processes have added."""
        self._read_once()
        known = {origin.name for origin in self._origins}
        if self.storage is not None:
            names = self.storage.names(self.folder)
            self._read_parts([name for name in names if name not in known], None)

    @property
    def shard_count(self) -> tuple[str, int]:
        """Newest part that a shard wrote, and of how many shards it is one; 0 for none."""
        self._read_once()
        written = ((origin.name, origin.shard) for origin in self._origins if origin.shard)
        name, shard = max(written, default=("", ""))
        count = shard.rpartition("/")[2]
        return name, int(count) if count.isdecimal() else 0

    def _read_once(self, asked: PairQuery | None = None) -> None:
        """Read the stored parts on first use, in which these pairs are asked for."""
        if self._read:
            return
        self._read = True
        if self.storage is not None:
            self._read_parts(self.storage.names(self.folder), asked)
        self.rows_at_start = self.rows

    def _read_parts(self, names: Sequence[str], asked: PairQuery | None) -> None:
        """Read parts that are new here; keep rows of asked pairs alone once they are too many."""
        most = max(TABLE_ROWS, ROWS_PER_PAIR * len(asked[2]) if asked else 0)
        wanted = self._filter()

        def current() -> PairFilter | None:
            return wanted

        for name, part in read_parts(self.storage, self.folder, names, current):
            if part is None or (part.model, part.score) != (self.model, self.score):
                self._set_aside(name, part)
                continue
            origin = PartOrigin(self.rows, part.rows, name, shard=part.shard)
            self._origins.append(origin)
            self._keep(origin, part, wanted)
            if self._asked is None and self.rows > most:
                ids = PairIds.of((), ()) if asked is None else PairIds.take(*asked)
                self._asked = [PairIndex.of(ids)]
                wanted = self._filter()
                if wanted is not None:
                    self._held.select(wanted)

    def _ask(self, ids: PairIds) -> None:
        """Read the rows of pairs that were not asked for before, or all rows where that pays."""
        index = PairIndex.of(ids)
        self._asked, self._scans = [*(self._asked or ()), index], self._scans + 1
        asked = sum(len(one.ids) for one in self._asked)
        most = MANY_ROWS if self._scans > MAX_SCANS else TABLE_ROWS
        if self.rows <= max(most, ROWS_PER_PAIR * asked):
            self._asked = None
            self._read_all(None)
            return
        self._read_again(PairFilter.of(index))
        if len(self._asked) > MAX_INDEXES:
            self._filter()

    def _read_all(self, wanted: PairFilter | None) -> None:
        """Read the rows of a filter from all parts, in place of those that are held."""
        self._held = HeldRows()
        for origin in self._origins:
            origin.held = False
        self._read_again(wanted)

    def _read_again(self, wanted: PairFilter | None) -> None:
        """Read the rows of a filter from parts whose rows are not all held."""
        stored = {
            origin.name: origin
            for origin in self._origins
            if origin.name and not origin.held and not origin.damaged
        }
        for name, part in read_parts(self.storage, self.folder, list(stored), lambda: wanted):
            if part is None:
                stored[name].damaged = True
                self._set_aside(name)
            else:
                self._keep(stored[name], part, wanted)

    def _keep(self, origin: PartOrigin, part: PartContent, wanted: PairFilter | None) -> None:
        """Keep rows of a part that was read."""
        if part.vectors is not None and origin.vectors is None:
            origin.vectors = PartVectors(self.storage, self.folder, origin.name, part.vectors)
        if wanted is not None and part.kept is None:  # read before the table was too large
            part = part.select(wanted)
        numbers = None if part.kept is None else (part.kept + origin.start).astype(np.uint32)
        self._held.append(Block(part.ids, part.columns, origin.start, numbers))

    def _filter(self) -> PairFilter | None:
        """Build the filter of all pairs that were asked for; None where all rows are held."""
        if self._asked is None:
            return None
        if len(self._asked) > 1:
            self._asked = [PairIndex.of(PairIds.concatenate([one.ids for one in self._asked]))]
        return PairFilter.of(self._asked[0])

    def _set_aside(self, name: str, part: PartContent | None = None) -> None:
        """Rename a part that is damaged, or that another table's rows are in, and warn."""
        if self.storage is None:
            return
        done = "set aside" if self.storage.set_aside(self.folder, name) else "not read"
        message = f"is a damaged part of the cache; it was {done}, and what it held is scored again"
        if part is not None:
            other = "model" if part.model != self.model else "score"
            message = f"is a part of another {other} in the cache; it was {done}, and is not used"
        warnings.warn(
            f"{self.storage.path(self.folder, name)}: {message}.", DamageWarning, stacklevel=2
        )


class AnswerStore:
    """Answer tables of a storage backend, or of memory when there is none."""

    def __init__(
        self, where: Path | str | None = None, *, shard: str = "", read_only: bool = False
    ):
        """Open a store in a folder, or at a URL that fsspec understands.

        Args:
            where: the folder or URL; None keeps everything in memory.
            shard: the shard that adds parts, such as `2/8`; its parts say so.
            read_only: whether nothing will be added, so that it need not be writable.

        Raises:
            InputError: the storage cannot be made or written.
            MissingExtraError: a URL, and fsspec is not installed.
        """
        self.storage = None if where is None else open_storage(where)
        self.shard = shard
        self._tables: dict[tuple[str, str], AnswerTable] = {}
        if self.storage is not None and not read_only:
            self.storage.prepare()

    def table(self, fingerprint: str, score: str) -> AnswerTable:
        """Return the answer table of a model and a score, opened once."""
        key = fingerprint, score
        if key not in self._tables:
            folder = f"answers/{folder_name(fingerprint)}/{folder_name(score)}"
            storage = None if fingerprint.startswith(UNSTORED) else self.storage
            self._tables[key] = AnswerTable(storage, folder, fingerprint, score, self.shard)
        return self._tables[key]

    def append_table(self, fingerprint: str, score: str, newest: str) -> AnswerTable:
        """Return a new table that reads nothing and appends parts behind the newest one."""
        table = self.table(fingerprint, score)
        origins = [PartOrigin(0, 0, newest)]
        return replace(table, _held=HeldRows(), _origins=origins, _asked=None, _scans=0, _read=True)
