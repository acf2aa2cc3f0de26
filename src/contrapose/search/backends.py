"""Vector backends behind three verbs, add, search and count: exact arrays, and LanceDB tables.

LanceDB searches approximately, in a folder or on object storage. A copy of an index in it records
the model's fingerprint and the index's number, so that an older copy is refused, and its recall
against exact search is measured on vectors of the index itself.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError, MissingExtraError, first_line
from contrapose.metrics import FloatArray
from contrapose.search.exact import Neighbors, search_exact
from contrapose.search.index import Index

TABLE = "vectors"
METADATA = b"contrapose"

APPROXIMATE_ROWS = 100_000
"""Rows from which LanceDB builds an approximate index; below it compares every vector too."""

BATCH = 1 << 16
"""Vectors that are added at a time."""

PROBES, REFINE = 32, 10
"""Partitions that LanceDB looks into, and candidates it ranks again for each result."""

RECALL_QUERIES = 200


class VectorBackend(Protocol):
    """Vectors that can be added to, searched and counted; rows are numbered in order of adding."""

    def add(self, vectors: FloatArray) -> None:
        """Append (n, d) vectors."""

    def search(self, queries: FloatArray, k: int) -> Neighbors:
        """Find the k vectors of largest inner product with each of (q, d) queries."""

    def count(self) -> int:
        """Number of vectors."""


class ExactBackend:
    """Vectors in memory or memory-mapped, searched exactly."""

    def __init__(self, vectors: FloatArray):
        self.vectors = vectors

    def add(self, vectors: FloatArray) -> None:
        """Append vectors; memory-mapped ones are copied to memory."""
        self.vectors = np.concatenate([self.vectors, np.asarray(vectors, self.vectors.dtype)])

    def search(self, queries: FloatArray, k: int) -> Neighbors:
        """Find the nearest vectors by tiled products."""
        return search_exact(queries, self.vectors, k)

    def count(self) -> int:
        """Number of vectors."""
        return len(self.vectors)


class LanceBackend:
    """LanceDB table of vectors, in a folder or at a URL of object storage."""

    def __init__(self, url: str, table: Any):
        self.url, self.table = url, table

    def add(self, vectors: FloatArray) -> None:
        """Append vectors in batches; an approximate index is built by `build_approximate`."""
        start = self.count()
        for first in range(0, len(vectors), BATCH):
            self.table.add(_to_arrow(vectors[first : first + BATCH], start + first))

    def search(self, queries: FloatArray, k: int) -> Neighbors:
        """Find the nearest vectors; approximately where the table has an approximate index."""
        rows = np.full((len(queries), k), -1, dtype=np.int64)
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        for number, query in enumerate(np.asarray(queries, dtype=np.float32)):
            answer = (
                self.table.search(query, vector_column_name="vector")
                .distance_type("dot")
                .nprobes(PROBES)
                .refine_factor(REFINE)
                .limit(k)
                .select(["row", "_distance"])
                .to_arrow()
            )
            near = answer["row"].to_numpy()
            products = 1 - answer["_distance"].to_numpy()
            order = np.lexsort((near, -products))
            rows[number, : len(near)] = near[order]
            scores[number, : len(near)] = products[order]
        return Neighbors(rows, scores)

    def count(self) -> int:
        """Number of vectors."""
        return int(self.table.count_rows())

    def build_approximate(self) -> None:
        """Build LanceDB's inverted file with product quantization."""
        config = import_module("lancedb.index").IvfPq(distance_type="dot")
        self.table.create_index("vector", config=config)


def copy_to_lance(index: Index, url: str) -> LanceBackend:
    """Copy an index's vectors to a LanceDB table, and index them there if they are many.

    Raises:
        MissingExtraError: LanceDB is not installed.
        InputError: the table cannot be written.
    """
    database = _connect(url)
    try:
        schema_rows = _to_arrow(index.vectors[:0], 0)
        stamp = json.dumps({"fingerprint": index.fingerprint, "number": index.number})
        empty = schema_rows.replace_schema_metadata({METADATA: stamp.encode()})
        table = database.create_table(TABLE, schema=empty.schema, mode="overwrite")
        backend = LanceBackend(url, table)
        backend.add(index.vectors)
        if len(index) >= APPROXIMATE_ROWS:
            backend.build_approximate()
    except Exception as error:  # LanceDB raises nearly anything
        why = first_line(error)
        raise InputError(f"LanceDB cannot write the vectors ({why}).", file=url) from None
    return backend


def open_lance(index: Index, url: str) -> LanceBackend:
    """Open the copy of an index in LanceDB.

    Raises:
        MissingExtraError: LanceDB is not installed.
        InputError: there is no copy, or it is of another model or of an older index.
    """
    database = _connect(url)
    try:
        table = database.open_table(TABLE)
        stamp = json.loads((table.schema.metadata or {})[METADATA])
    except Exception as error:
        raise InputError(f"holds no copy of an index ({first_line(error)}).", file=url) from None
    if stamp != {"fingerprint": index.fingerprint, "number": index.number}:
        raise InputError("is a copy of another or of an older index; index again.", file=url)
    return LanceBackend(url, table)


def measure_recall(backend: VectorBackend, vectors: FloatArray, k: int = 10) -> float:
    """Share of the exact k nearest that a backend finds, for up to 200 of the vectors as queries.

    Queries are perturbed by a tenth of their length, with a fixed seed, so that they are no vector
    of the index themselves.
    """
    step = -(-len(vectors) // RECALL_QUERIES)
    queries = np.array(vectors[::step], dtype=np.float32)
    noise = np.random.default_rng(0).standard_normal(queries.shape)
    queries += (0.1 * noise / np.sqrt(queries.shape[1])).astype(np.float32)
    exact = search_exact(queries, vectors, k).rows
    other = backend.search(queries, exact.shape[1]).rows
    pairs = zip(exact.tolist(), other.tolist(), strict=True)
    return sum(len(set(right) & set(given)) for right, given in pairs) / exact.size


def _to_arrow(vectors: FloatArray, start: int) -> Any:
    import pyarrow as pa

    flat: NDArray[np.float32] = np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1)
    column = pa.FixedSizeListArray.from_arrays(pa.array(flat), vectors.shape[1])
    rows = pa.array(np.arange(start, start + len(vectors)))
    return pa.table({"row": rows, "vector": column})


def _connect(url: str) -> Any:
    try:
        lancedb = import_module("lancedb")
    except ImportError:
        raise MissingExtraError("lancedb", "lance", f"A copy of the index at {url}") from None
    try:
        return lancedb.connect(url)
    except Exception as error:
        raise InputError(f"LanceDB cannot open it ({first_line(error)}).", file=url) from None
