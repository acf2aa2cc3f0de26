"""Maps over files: in one thread while they are quick, in several where they take long.

Small files that the system holds in memory are read in less time than threads need to take turns
at Python's interpreter; files of a slow disk, and large ones, keep many threads busy.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from contrapose.data.images import IMAGE_WORKERS

S = TypeVar("S")
T = TypeVar("T")

TRIAL_SECONDS = 0.02
"""Seconds of work over which the time of a file is the mean: a processor that is busy with
something else for a moment says nothing."""

TASKS_AHEAD = 4
"""Tasks of each thread that are read ahead of the one that is used."""


def map_files(
    function: Callable[[S], T], items: Sequence[S], *, quick: float, size: int
) -> Iterator[list[T]]:
    """Map a function over files, or what refers to them, and yield the results task by task.

    The first task is not timed: it loads the modules that the others use.

    Args:
        function: reads one of them.
        items: the files, in order.
        quick: seconds of a file which no other thread need read.
        size: number of files of a task.
    """
    tasks = [items[k : k + size] for k in range(0, len(items), size)]
    seconds, count = 0.0, 0
    for number, task in enumerate(tasks):
        start = time.perf_counter()
        results = list(map(function, task))
        if number:
            seconds, count = seconds + time.perf_counter() - start, count + len(task)
        yield results
        if seconds >= TRIAL_SECONDS:
            if seconds > quick * count:
                yield from _map_threads(function, tasks[number + 1 :])
                return
            seconds, count = 0.0, 0


def _map_threads(function: Callable[[S], T], tasks: Sequence[Sequence[S]]) -> Iterator[list[T]]:
    """Map a function over tasks in threads, some tasks ahead of the one that is used."""

    def work(task: Sequence[S]) -> list[T]:
        return list(map(function, task))

    with ThreadPoolExecutor(IMAGE_WORKERS) as pool:
        ahead: deque[Future[list[T]]] = deque()
        try:
            for task in tasks:
                ahead.append(pool.submit(work, task))
                if len(ahead) >= IMAGE_WORKERS * TASKS_AHEAD:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
