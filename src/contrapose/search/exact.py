"""Exact nearest-neighbor search by tiled products, in bounded memory and with fixed ties.

Every query is multiplied with every gallery vector, a tile at a time, in float32 by BLAS and its
threads. A tile keeps only what could still be among the best k: a bound on the k-th best comes from
the largest values of column groups, so that no tile is sorted. Selection is shared among as many
threads, after the product and not beside it, because BLAS waits for its slowest thread. Candidates
closer than float32 can tell are scored again in float64, pair by pair: equal vectors have equal
scores wherever they stand, and ties go to the lowest row. Galleries may be memory-mapped, float32
or float16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.cores import count_threads
from contrapose.errors import InputError, option
from contrapose.metrics import BoolArray, FloatArray, IntArray

T = TypeVar("T")
QUERY_TILE = 1536
"""Queries of a tile; few and large products keep the threads of BLAS busy."""

TILE_CELLS = 1 << 24
"""Scores of a tile, 64 MiB."""

MAX_ROWS = 1 << 15
"""Gallery vectors of a tile at the most."""

GROUP_SIZE = 16
"""Columns of a group, whose largest value tells whether it is looked into."""

MIN_BOUND_GROUPS = 8
"""Groups for each of the k best from which the bound of the first tile is taken, at the least."""

MAX_THREADS = 16
"""Threads that select, at the most."""

THREAD_CELLS = 1 << 16
"""Scores of a thread, at the least."""

MAX_SPARE = 256
"""Candidates of a query beyond k that are held before they are ranked."""

TINY = 1e-30
"""Added to the rounding error, so that a query of zeros has one too."""

SAFE_SQUARES = (1e-20, 1e30)
"""Squared lengths between these lose nothing by the range of float32."""

FEW = 4
"""Queries up to which a gallery is multiplied one by one."""

RESCORE_CELLS = 1 << 18
"""Numbers gathered at a time when candidates are scored again."""


@dataclass(frozen=True, slots=True, eq=False)
class Neighbors:
    """Nearest gallery vectors of queries, best first.

    Attributes:
        rows: (q, k) rows of the gallery; −1 where too few are left.
        scores: (q, k) inner products, float32; −inf where too few are left.
    """

    rows: IntArray
    scores: NDArray[np.float32]


def search_exact(
    queries: ArrayLike,
    gallery: FloatArray,
    k: int,
    *,
    exclude: tuple[IntArray, IntArray] | None = None,
    longest: float | None = None,
) -> Neighbors:
    """Find the k gallery vectors of largest inner product with each query.

    Args:
        queries: (q, d) vectors.
        gallery: (N, d) vectors, in memory or memory-mapped.
        k: how many; fewer where the gallery has fewer.
        exclude: query numbers and gallery rows, the i-th with the i-th, that are left out.
        longest: length that no gallery vector exceeds, 1 for unit vectors; None measures it, which
            costs one query as much as the search.

    Raises:
        InputError: k is below 1, a query is not finite, or shapes do not fit.
    """
    vectors = np.ascontiguousarray(queries, dtype=np.float32)
    if vectors.ndim != 2 or gallery.ndim != 2 or vectors.shape[1] != gallery.shape[1]:
        raise InputError(f"queries {vectors.shape} do not fit a gallery {gallery.shape}.")
    if k < 1:
        raise InputError(f"{option('k')} must be at least 1, found {k}.")
    if not np.isfinite(vectors).all():
        raise InputError("a query vector is not finite.")
    count, most = len(vectors), min(k, len(gallery))
    rows = np.full((count, most), -1, dtype=np.int64)
    scores = np.full((count, most), -np.inf, dtype=np.float32)
    if not rows.size:
        return Neighbors(rows, scores)
    numbers, left_out = _check_excluded(exclude, count, len(gallery))
    tiles = _Tiles(gallery, count, longest)
    buffer = np.empty(min(count, QUERY_TILE) * min(tiles.step, len(gallery)), dtype=np.float32)
    with _Pool(min(count_threads(), MAX_THREADS, 1 + len(buffer) // THREAD_CELLS)) as pool:
        for start in range(0, count, QUERY_TILE):
            some = vectors[start : start + QUERY_TILE]
            inside = (numbers >= start) & (numbers < start + len(some))
            excluded = numbers[inside] - start, left_out[inside]
            for first, ranked in _select(some, tiles, most, excluded, buffer, pool):
                cells = start + first + ranked.queries, _rank_within(ranked.queries)
                rows[cells], scores[cells] = ranked.rows, ranked.scores
    return Neighbors(rows, scores)


def rank_row(
    scores: FloatArray, k: int, exclude: IntArray | None = None
) -> tuple[IntArray, FloatArray]:
    """Rank one row of (N,) scores: the k best rows and their scores; ties go to the lowest row."""
    left = np.array(scores, dtype=np.float64)
    if exclude is not None and len(exclude):
        left[exclude] = -np.inf
    most = min(k, len(left))
    if not most:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    last = np.partition(left, len(left) - most)[len(left) - most]
    rows = np.flatnonzero((left >= last) & (left > -np.inf))
    rows = rows[np.lexsort((rows, -left[rows]))][:most]
    return rows, left[rows]


def multiply(queries: FloatArray, gallery: FloatArray) -> NDArray[np.float32]:
    """Multiply (q, d) queries with all (N, d) gallery vectors, float32; float16 in blocks."""
    left = np.ascontiguousarray(queries, dtype=np.float32)
    if gallery.dtype == np.float32:
        if len(left) > FEW:
            return np.asarray(left @ gallery.T)
        # For few queries BLAS reads the gallery faster as a matrix times a vector.
        return np.stack([gallery @ query for query in left])
    products = np.empty((len(left), len(gallery)), dtype=np.float32)
    step = max(1, RESCORE_CELLS // max(1, gallery.shape[1]))
    for start in range(0, len(gallery), step):
        block = np.asarray(gallery[start : start + step], dtype=np.float32)
        products[:, start : start + step] = left @ block.T
    return products


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Pairs that can be among the best: query numbers, gallery rows and scores."""

    queries: IntArray
    rows: IntArray
    scores: FloatArray

    def take(self, chosen: IntArray | BoolArray) -> _Candidates:
        """Select candidates."""
        return _Candidates(self.queries[chosen], self.rows[chosen], self.scores[chosen])

    def join(self, new: _Candidates) -> _Candidates:
        """Append candidates."""
        return _Candidates(
            np.concatenate([self.queries, new.queries]),
            np.concatenate([self.rows, new.rows]),
            np.concatenate([self.scores, new.scores]),
        )


class _Pool:
    """Threads that share the work on a tile; the calling thread is one of them."""

    def __init__(self, threads: int):
        self.threads = threads
        self._others = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._others is not None:
            self._others.shutdown()

    def run(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Run calls, at most as many as there are threads; their results in order."""
        if self._others is None:
            return [call() for call in calls]
        waiting = [self._others.submit(call) for call in calls[1:]]
        return [calls[0](), *(future.result() for future in waiting)]

    def split(self, count: int) -> list[slice]:
        """Split `count` rows among the threads."""
        step = -(-count // self.threads)
        return [slice(start, min(start + step, count)) for start in range(0, count, step)]


class _Tiles:
    """Tiles of a gallery in float32, with the length of the longest vector so far."""

    def __init__(self, gallery: FloatArray, queries: int, longest: float | None):
        self.gallery, self.given = gallery, longest
        self.step = min(MAX_ROWS, max(GROUP_SIZE, TILE_CELLS // min(queries, QUERY_TILE)))
        self.longest: list[float] = []

    def iterate(self, pool: _Pool) -> Iterator[tuple[int, NDArray[np.float32], float]]:
        """Start, vectors and longest length of every tile."""
        for number, start in enumerate(range(0, len(self.gallery), self.step)):
            block = np.asarray(self.gallery[start : start + self.step], dtype=np.float32)
            if self.given is not None:
                # Unit vectors in float32 or float16 may be longer by rounding.
                self.longest.append(1.01 * self.given)
            elif number == len(self.longest):
                calls = [partial(_measure_lengths, block[part]) for part in pool.split(len(block))]
                longest = max(float(lengths.max()) for lengths in pool.run(calls))
                self.longest.append(max([longest, *self.longest[-1:]]))
            yield start, block, self.longest[number]


def _measure_lengths(vectors: NDArray[np.float32]) -> FloatArray:
    """Bound the lengths of (n, d) vectors from above, by float32 where its range allows."""
    squares = np.vecdot(vectors, vectors).astype(np.float64)
    outside = np.flatnonzero(~((squares > SAFE_SQUARES[0]) & (squares < SAFE_SQUARES[1])))
    squares[outside] = (vectors[outside].astype(np.float64) ** 2).sum(axis=1)
    return np.asarray(np.sqrt(squares) * (1 + 2.0**-24 * vectors.shape[1]))


class _Selection:
    """Selection of what can be among the best k of each of some queries."""

    def __init__(self, queries: NDArray[np.float32], k: int, exclude: tuple[IntArray, IntArray]):
        self.queries, self.k, self.exclude = queries, k, exclude
        count, width = queries.shape
        # Two float32 products of d terms can be wrong by this much, times the gallery's lengths.
        self.rounding = 2.0**-23 * width * _measure_lengths(queries)
        self.slack = np.zeros(count, dtype=np.float32)
        self.best = np.full((count, k), -np.inf, dtype=np.float32)
        none = np.zeros(0, np.int64)
        self.held = _Candidates(none, none, np.zeros(0, np.float32))

    def add(
        self, scores: NDArray[np.float32], start: int, longest: float, gallery: FloatArray
    ) -> None:
        """Select from the scores of gallery rows from `start` on; changes the scores."""
        inside = (self.exclude[1] >= start) & (self.exclude[1] < start + scores.shape[1])
        scores[self.exclude[0][inside], self.exclude[1][inside] - start] = -np.inf
        self.slack = (self.rounding * longest + TINY).astype(np.float32)
        new = self._select(scores, start)
        self.held = self.held.join(new)
        if start + scores.shape[1] < len(gallery):
            self.best = _merge_best(self.best, new)
            bound = self.best[:, -1] - self.slack
            self.held = self.held.take(self.held.scores > bound[self.held.queries])
        if len(self.held.rows) > len(self.queries) * (self.k + MAX_SPARE):
            self.held = self.rank(gallery)

    def _select(self, scores: NDArray[np.float32], start: int) -> _Candidates:
        """Select by the largest value of each group of columns; few groups are looked into."""
        count, columns = scores.shape
        groups = columns // GROUP_SIZE
        flat = scores.reshape(-1)
        maxima = scores[:, : groups * GROUP_SIZE].reshape(count, GROUP_SIZE, groups).max(axis=1)
        bound = self.best[:, -1]
        if start == 0 and groups >= self.k:
            bound = _bound_best(maxima, self.k)
        bound = bound - self.slack
        number, group = np.divmod(np.flatnonzero(maxima > bound[:, None]), max(1, groups))
        index = (number * columns + group)[:, None] + np.arange(GROUP_SIZE) * groups
        index = index[flat[index] > bound[number, None]]
        if columns > groups * GROUP_SIZE:
            rest = np.nonzero(scores[:, groups * GROUP_SIZE :] > bound[:, None])
            index = np.concatenate([index, rest[0] * columns + groups * GROUP_SIZE + rest[1]])
        queries, rows = np.divmod(index, columns)
        return _Candidates(queries, rows + start, flat[index])

    def rank(self, gallery: FloatArray) -> _Candidates:
        """Rank what is held: the k best candidates of each query, best first.

        Those that are closer to a neighbor than float32 can tell are scored again.
        """
        chosen = self.held.take(_order_by_score(self.held.queries, self.held.scores))
        number, rows, scores = chosen.queries, chosen.rows, chosen.scores.astype(np.float64)
        close = (number[1:] == number[:-1]) & (scores[:-1] - scores[1:] <= self.slack[number[1:]])
        unsure = np.zeros(len(number), dtype=np.bool_)
        unsure[1:] = close
        unsure[:-1] |= close
        again = np.flatnonzero(unsure)
        scores[again] = _score_pairs(self.queries, gallery, number[again], rows[again])
        order = np.arange(len(number))
        # Runs of close scores stay where they are; inside a run the exact scores decide.
        run = np.cumsum(~np.concatenate([[False], close]))[again]
        order[again] = again[np.lexsort((rows[again], -scores[again], run))]
        order = order[_rank_within(number) < self.k]
        return _Candidates(number[order], rows[order], scores[order])


def _select(
    queries: NDArray[np.float32],
    tiles: _Tiles,
    k: int,
    exclude: tuple[IntArray, IntArray],
    buffer: NDArray[np.float32],
    pool: _Pool,
) -> list[tuple[int, _Candidates]]:
    """Select the k best tile by tile; the first query of each thread, with what it ranked."""
    selections = []
    for part in pool.split(len(queries)):
        inside = (exclude[0] >= part.start) & (exclude[0] < part.stop)
        excluded = exclude[0][inside] - part.start, exclude[1][inside]
        selections.append((part, _Selection(queries[part], k, excluded)))
    for start, block, longest in tiles.iterate(pool):
        scores = buffer[: len(queries) * len(block)].reshape(len(queries), -1)
        np.matmul(queries, block.T, out=scores)
        rest = start, longest, tiles.gallery
        pool.run([partial(selection.add, scores[part], *rest) for part, selection in selections])
    ranked = pool.run([partial(selection.rank, tiles.gallery) for _, selection in selections])
    return [(part.start, some) for (part, _), some in zip(selections, ranked, strict=True)]


def _bound_best(maxima: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """Lower bound on the k-th best of each row, the k-th of the largest of fewer, larger groups."""
    count, groups = maxima.shape
    size = groups // (MIN_BOUND_GROUPS * k)
    if size > 1:
        groups //= size
        maxima = maxima[:, : groups * size].reshape(count, size, groups).max(axis=1)
    return np.asarray(np.partition(maxima, groups - k, axis=1)[:, groups - k])


def _merge_best(best: NDArray[np.float32], new: _Candidates) -> NDArray[np.float32]:
    """Merge new scores into the k best of each query, which come in falling order."""
    count, k = best.shape
    if not len(new.rows):
        return best
    order = np.argsort(new.queries, kind="stable")
    number = new.queries[order]
    rank = _rank_within(number)
    wide = np.full((count, k + int(rank.max()) + 1), -np.inf, dtype=np.float32)
    wide[:, :k] = best
    wide[number, k + rank] = new.scores[order]
    return np.asarray(-np.sort(np.partition(-wide, k - 1, axis=1)[:, :k], axis=1))


def _order_by_score(queries: IntArray, scores: FloatArray) -> IntArray:
    """Order by query, then by falling float32 score; equal ones in any order."""
    bits = scores.astype(np.float32).view(np.int32)
    rising = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int64)
    return np.asarray(np.argsort((queries << 32) - rising))


def _rank_within(queries: IntArray) -> IntArray:
    """Position of each candidate among those of its query; queries are in rising order."""
    sizes = np.bincount(queries)
    return np.asarray(np.arange(len(queries)) - np.repeat(np.cumsum(sizes) - sizes, sizes))


def _score_pairs(
    queries: NDArray[np.float32], gallery: FloatArray, numbers: IntArray, rows: IntArray
) -> NDArray[np.float64]:
    """Score pairs in float64.

    Products of float32 numbers are exact in float64, and every pair is summed in the same order:
    equal vectors get equal scores.
    """
    exact = np.empty(len(rows))
    step = max(1, RESCORE_CELLS // queries.shape[1])
    for start in range(0, len(exact), step):
        part = slice(start, start + step)
        right = np.asarray(gallery[rows[part]], dtype=np.float32)
        exact[part] = np.multiply(queries[numbers[part]], right, dtype=np.float64).sum(axis=1)
    return exact


def _check_excluded(
    exclude: tuple[IntArray, IntArray] | None, count: int, size: int
) -> tuple[IntArray, IntArray]:
    numbers, rows = (np.asarray(part, dtype=np.int64) for part in exclude or ((), ()))
    fits = numbers.shape == rows.shape and numbers.ndim == 1
    if not fits or (len(rows) and not 0 <= rows.min() <= rows.max() < size):
        raise InputError("rows to leave out do not fit the gallery.")
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < count:
        raise InputError("rows to leave out name a query that is not there.")
    return numbers, rows
