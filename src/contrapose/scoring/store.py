"""What models have answered, by content: nothing is asked twice, whatever run it was for.

A shelf holds one model's answers to one score, as Parquet parts that are only ever added. A part
is written under a temporary name and renamed, so that a part that has its name is whole; what a
killed run left under a temporary name is never read. Two programs may add to a shelf at once:
each writes parts of its own.

    FOLDER/<model fingerprint>/<score>/<part>.parquet    model, score, image, text, value, …
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.errors import InputError
from contrapose.files import write_bytes
from contrapose.metrics import FloatArray, IntArray


def default_folder() -> Path:
    """Where answers are kept when the user does not say: the platform's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "contrapose"


@dataclass(slots=True)
class Shelf:
    """One model's answers to one score.

    Attributes:
        folder: where its parts lie; None keeps them in memory alone.
        model: the model's fingerprint.
        score: the score's name in the store.
    """

    folder: Path | None
    model: str
    score: str
    _parts: list[Any] = field(default_factory=list)
    _read: bool = False

    def find(self, images: Sequence[str], texts: Sequence[str]) -> IntArray:
        """For each pair of content ids its row on the shelf; −1 where it has none.

        An answer that needs no image, or no text, stands under an empty id for it.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        table = self._table()
        if table is None:
            return np.full(len(images), -1, dtype=np.int64)
        known = pc.binary_join_element_wise(table["image"], table["text"], "/")
        wanted = pc.binary_join_element_wise(
            pa.array(images, pa.string()), pa.array(texts, pa.string()), "/"
        )
        found = pc.index_in(wanted, value_set=known)
        return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), dtype=np.int64)

    def values(self, rows: IntArray, column: str = "value") -> FloatArray:
        """A column's numbers in these rows: (n,), or (n, d) for vectors."""
        table = self._table()
        if table is None or not len(rows):
            return np.zeros(len(rows))
        taken = table[column].take(rows).combine_chunks()
        if column == "vector":
            flat = np.asarray(taken.flatten().to_numpy(zero_copy_only=False))
            return flat.reshape(len(rows), -1)
        return np.asarray(taken.to_numpy(zero_copy_only=False))

    def add(
        self, images: Sequence[str], texts: Sequence[str], columns: Mapping[str, FloatArray]
    ) -> None:
        """Put answers on the shelf, as one part.

        Raises:
            InputError: the folder cannot be written.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not len(images):
            return
        content: dict[str, Any] = {
            "model": pa.array([self.model] * len(images)).dictionary_encode(),
            "score": pa.array([self.score] * len(images)).dictionary_encode(),
            "image": pa.array(images, pa.string()),
            "text": pa.array(texts, pa.string()),
        }
        for name, values in columns.items():
            array = pa.array(np.ascontiguousarray(values).reshape(-1))
            if values.ndim > 1:
                array = pa.FixedSizeListArray.from_arrays(array, values.shape[1])
            content[name] = array
        part = pa.table(content)
        self._table()
        self._parts.append(part)
        if self.folder is None:
            return
        sink = pa.BufferOutputStream()
        pq.write_table(part, sink, compression="zstd")
        try:
            write_bytes(self.folder / f"{uuid.uuid4().hex}.parquet", sink.getvalue().to_pybytes())
        except OSError as error:
            raise _unwritable(self.folder, error) from None

    def _table(self) -> Any:
        """Everything on the shelf; None while it is empty."""
        import pyarrow as pa

        if not self._read:
            self._read = True
            self._parts = [_part(path) for path in self._files()] + self._parts
        if not self._parts:
            return None
        if len(self._parts) > 1:
            self._parts = [pa.concat_tables(self._parts)]
        return self._parts[0]

    def _files(self) -> list[Path]:
        if self.folder is None or not self.folder.is_dir():
            return []
        # Temporary names begin with a dot: parts that a killed program did not finish.
        return sorted(p for p in self.folder.glob("*.parquet") if not p.name.startswith("."))


class Store:
    """All shelves in a folder, or in memory when there is none."""

    def __init__(self, folder: Path | None = None):
        """Open a store.

        Raises:
            InputError: the folder cannot be made or written.
        """
        self.folder = folder
        self._shelves: dict[tuple[str, str], Shelf] = {}
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".{uuid.uuid4().hex}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise _unwritable(folder, error) from None

    def shelf(self, fingerprint: str, score: str) -> Shelf:
        """A model's answers to a score."""
        key = fingerprint, score
        if key not in self._shelves:
            place = None
            if self.folder is not None:
                place = self.folder / "answers" / _as_name(fingerprint) / _as_name(score)
            self._shelves[key] = Shelf(place, fingerprint, score)
        return self._shelves[key]


def _part(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        table.select(["image", "text"])
    except (pa.ArrowException, OSError, KeyError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"is a damaged part of the cache ({reason}); delete this file, and what it held is "
            "asked again.",
            file=path,
        ) from None
    return table


def _as_name(text: str) -> str:
    """A folder name for any text: readable, and different for different texts."""
    plain = re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("._")[:48]
    if plain == text:
        return plain
    return f"{plain}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"the cache folder cannot be written ({error.strerror or error}); pass --cache DIR or "
        "--no-cache.",
        file=folder,
    )
