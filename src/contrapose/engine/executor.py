"""Executors: worker threads prepare images ahead, one thread calls the model batch by batch.

An executor knows nothing of models or stores, so that another can take its place. A distributed one
would hand each machine a share of the batches; there the work has its own copy of the model, and
`keep` writes answers to the shared store, where every writer adds parts of its own. The machine
that started the run then reads the table. Nothing else need be sent back.

An executor knows nothing of models or stores, so that another can take its place. A distributed one
would hand each machine a share of the batches; there the work has its own copy of the model, and
`keep` puts answers on a shelf of the shared store, where every writer adds parts of its own. The
machine that asked then reads the shelf. Nothing else need be sent back.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from contrapose.metrics import IntArray

PREFETCH = 256
"""Pieces that lie ready beside those of the batch that is being answered."""

BatchPositions = IntArray
"""Positions in what is asked."""

A = TypeVar("A")
B_co = TypeVar("B_co", covariant=True)


class BatchWork(Protocol[B_co]):
    """Work that is done in batches."""

    def pieces(self, batch: BatchPositions) -> Sequence[Hashable]:
        """List the inputs that must be prepared before a batch can be answered, each once."""

    def prepare(self, piece: Any) -> Any:
        """Prepare an input (decode, preprocess). Any thread may call it."""

    def answer(self, batch: BatchPositions, ready: Mapping[Any, Any]) -> B_co:
        """Answer a batch whose inputs are prepared; always called by the same thread."""


class Executor(Protocol):
    """Executor of batched work."""

    def run(
        self, work: BatchWork[A], batches: Sequence[BatchPositions], keep: Callable[[A], None]
    ) -> None:
        """Answer the batches, and pass each answer to `keep` in order."""


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Executor of this machine: worker threads prepare, the calling thread answers.

    Attributes:
        workers: threads; None takes one a core, eight at the most.
        ahead: pieces that may lie ready beside those of the batch being answered.
    """

    workers: int | None = None
    ahead: int = PREFETCH

    def run(
        self, work: BatchWork[A], batches: Sequence[BatchPositions], keep: Callable[[A], None]
    ) -> None:
        """Answer the batches in order; an input that neighbors share is prepared once."""
        pool = ThreadPoolExecutor(self.workers or min(8, os.cpu_count() or 1))
        try:
            coming = _Prefetcher(work, batches, pool)
            for number, batch in enumerate(batches):
                coming.call(number, self.ahead)
                ready = coming.take(number)
                coming.call(number, self.ahead)
                keep(work.answer(batch, ready))
        finally:
            pool.shutdown(cancel_futures=True)


class _Prefetcher:
    """Prefetcher of inputs in the order of the batches; bounded by their number."""

    def __init__(
        self, work: BatchWork[Any], batches: Sequence[BatchPositions], pool: ThreadPoolExecutor
    ):
        self.work, self.pool = work, pool
        self.needs: dict[int, list[Hashable]] = {}
        self.held: dict[Hashable, Future[Any]] = {}
        self.uses: Counter[Hashable] = Counter()
        self.queue = self._in_order(batches)
        self.next = next(self.queue, None)

    def _in_order(self, batches: Sequence[BatchPositions]) -> Iterator[tuple[int, Hashable]]:
        for number, batch in enumerate(batches):
            self.needs[number] = list(self.work.pieces(batch))
            for piece in self.needs[number]:
                yield number, piece

    def call(self, number: int, ahead: int) -> None:
        """Submit all inputs of the batch, and later ones while there is room."""
        while self.next is not None and (self.next[0] <= number or len(self.held) < ahead):
            piece = self.next[1]
            self.uses[piece] += 1
            if piece not in self.held:
                self.held[piece] = self.pool.submit(self.work.prepare, piece)
            self.next = next(self.queue, None)

    def take(self, number: int) -> dict[Hashable, Any]:
        """Wait for the batch's inputs, and release those that no later batch needs."""
        pieces = self.needs.pop(number, [])
        ready = {piece: self.held[piece].result() for piece in pieces}
        for piece in pieces:
            self.uses[piece] -= 1
            if not self.uses[piece]:
                del self.held[piece], self.uses[piece]
        return ready
