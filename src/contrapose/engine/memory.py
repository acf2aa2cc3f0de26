"""Batch size by device memory: grow it where there is room, halve it when memory runs out."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

MAX_BATCH_SIZE = 1024
"""No batch grows beyond it."""

MEMORY_SHARE = 0.7
"""Of the device's memory that a grown batch may fill."""

MIN_BATCHES = 8
"""Batches that a grown size leaves at the least, so that images are decoded while others are
asked."""

OUT_OF_MEMORY_PHRASES = ("out of memory", "can't allocate memory", "not enough memory")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Device memory in bytes: before a call, at its peak, and all that this program may use."""

    before: int
    peak: int
    room: int


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(
        word in str(error).lower() for word in OUT_OF_MEMORY_PHRASES
    )


def free_memory() -> None:
    """Collect garbage and empty the CUDA cache."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def grow_batch_size(size: int, usage: MemoryUsage | None, count: int) -> int:
    """Return the batch size that device memory allows, from the usage of one batch.

    It doubles while the memory allows, and while enough batches are left of `count` things.
    """
    if usage is None or usage.peak <= usage.before:
        return size
    each = (usage.peak - usage.before) / size
    while can_grow(size, count) and usage.before + each * size * 2 <= MEMORY_SHARE * usage.room:
        size *= 2
    return size


def can_grow(size: int, count: int) -> bool:
    """Whether a larger batch size is worth a trial for `count` items."""
    return size * 2 <= MAX_BATCH_SIZE and size * 2 * MIN_BATCHES <= count


def measure_memory(call: Callable[[], object]) -> MemoryUsage | None:
    """Run a call and measure the memory of its busiest CUDA device; None without CUDA.

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
    return MemoryUsage(before[most], peaks[most], available + cuda.memory_reserved(most))


def run_halving(
    size: int, count: int, call: Callable[[slice], T]
) -> Iterator[tuple[slice, T, int]]:
    """Process `count` items at most `size` at a time, halving whenever memory runs out.

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
            if not is_out_of_memory(error):
                raise
            found = None
        if found is None:  # outside the handler, which still holds what filled the memory
            if part.stop - part.start == 1:
                raise MemoryError
            size = (part.stop - part.start + 1) // 2
            free_memory()
            continue
        yield part, found, size
        start = part.stop
