"""Rows of bytes that forked processes compute into shared memory, while this one goes on."""

from __future__ import annotations

import mmap
import os
import sys
import warnings
import weakref
from collections.abc import Callable
from itertools import pairwise

import numpy as np

MAX_WORKERS = 8
"""Processes that compute the rows of one table at the most."""

ComputeSpan = Callable[[int, int], bytes]
"""Computes the rows from one to another, which is not among them; takes no lock."""


class ForkedRows:
    """Rows of the same number of bytes, of which processes compute a span each.

    A process that ends without its span leaves it to this one.
    """

    def __init__(
        self, compute: ComputeSpan, count: int, size: int, workers: int, *, helps: bool = False
    ):
        """Start the processes.

        Args:
            compute: computes the rows of a span.
            count: number of rows.
            size: bytes of a row.
            workers: number of processes, at least one.
            helps: whether this process computes a span too, as soon as it waits.
        """
        self._compute, self._size = compute, size
        self._shared = mmap.mmap(-1, max(size * count, 1))
        ends = np.linspace(0, count, workers + helps + 1).astype(int).tolist()
        spans = list(pairwise(ends))
        self._left = spans[workers:]
        self._started = [(self._fork(*span), span) for span in spans[:workers]]
        weakref.finalize(self, _wait_for_all, self._started)

    def wait(self) -> mmap.mmap:
        """All rows, end to end."""
        for span in self._left:
            self._fill(*span)
        self._left.clear()
        for pid, span in self._started:
            if not _wait_for(pid):
                self._fill(*span)
        self._started.clear()
        return self._shared

    def _fork(self, start: int, stop: int) -> int:
        """Start a process that computes a span; it runs nothing else, and exits."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads: the child takes no lock
            try:
                pid = os.fork()
            except OSError:
                return 0
        if pid:
            return pid
        status = 1
        try:
            self._fill(start, stop)
            status = 0
        finally:
            os._exit(status)

    def _fill(self, start: int, stop: int) -> None:
        self._shared[self._size * start : self._size * stop] = self._compute(start, stop)


def count_workers(count: int, least: int) -> int:
    """Processes that compute so many rows beside this one; 0 where they are fewer than `least`."""
    if count < least or sys.platform != "linux":
        return 0
    return min(len(os.sched_getaffinity(0)) - 1, MAX_WORKERS)


def _wait_for_all(started: list[tuple[int, tuple[int, int]]]) -> None:
    for pid, _ in started:
        _wait_for(pid)


def _wait_for(pid: int) -> bool:
    """Wait for a process; whether it did its work."""
    try:
        return pid > 0 and os.waitpid(pid, 0)[1] == 0
    except ChildProcessError:
        return False
