"""How much can be asked at once: by the memory of the device, and less when it runs out."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

MOST = 1024
"""No batch grows beyond it."""

SHARE = 0.7
"""Of the device's memory that a grown batch may fill."""

BATCHES = 8
"""Batches that a grown size leaves at the least, so that images are decoded while others are
asked."""

WORDS = ("out of memory", "can't allocate memory", "not enough memory")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes of a device: in use before a call, at its peak, and all that this program may use."""

    before: int
    peak: int
    room: int


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there is no memory left."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in WORDS)


def free() -> None:
    """Give back what is no longer needed."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def grown(size: int, usage: Usage | None, count: int) -> int:
    """The size of batches after one of `size` used so much memory: never by time, always the same.

    It doubles while the memory allows, and while enough batches are left of `count` things.
    """
    if usage is None or usage.peak <= usage.before:
        return size
    each = (usage.peak - usage.before) / size
    while may_grow(size, count) and usage.before + each * size * 2 <= SHARE * usage.room:
        size *= 2
    return size


def may_grow(size: int, count: int) -> bool:
    """Whether larger batches are to be thought of at all: small jobs are not worth a trial."""
    return size * 2 <= MOST and size * 2 * BATCHES <= count


def measured(call: Callable[[], object]) -> Usage | None:
    """What a call uses of the CUDA device that it uses most; None where there is none.

    Where there is none, the call is not made.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    cuda = torch.cuda
    devices = range(cuda.device_count())
    for device in devices:
        cuda.reset_peak_memory_stats(device)
    before = [cuda.memory_allocated(device) for device in devices]
    call()
    peaks = [cuda.max_memory_allocated(device) for device in devices]
    most = max(devices, key=lambda device: peaks[device] - before[device])
    available, _ = cuda.mem_get_info(most)
    return Usage(before[most], peaks[most], available + cuda.memory_reserved(most))


def halving(size: int, count: int, call: Callable[[slice], T]) -> Iterator[tuple[slice, T, int]]:
    """Do `count` things at most `size` at a time, and half as many whenever memory runs out.

    Yields:
        What was done, what came of it, and the size that worked.

    Raises:
        MemoryError: there is no room even for one.
    """
    start = 0
    while start < count:
        part = slice(start, min(start + size, count))
        try:
            found = call(part)
        except Exception as error:
            if not ran_out(error):
                raise
            found = None
        if found is None:  # outside the handler, which still holds what filled the memory
            if part.stop - part.start == 1:
                raise MemoryError
            size = (part.stop - part.start + 1) // 2
            free()
            continue
        yield part, found, size
        start = part.stop
