"""Device memory as the limit of a batch."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_BATCH_SIZE = 1024
"""No batch with images grows beyond it."""

MAX_CAPTIONS = 4096
"""No batch of captions alone grows beyond it."""

MEMORY_SHARE = 0.7
"""Share of the device's memory that a grown batch may fill."""

MIN_BATCHES = 8
"""Batches with images that a grown size leaves at the least, so that images are decoded while
others are scored; of captions alone a quarter."""

OUT_OF_MEMORY_PHRASES = ("out of memory", "can't allocate memory", "not enough memory")


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


def uses_cuda() -> bool:
    """Whether this program uses a CUDA device already."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()


def free_memory() -> None:
    """Collect garbage and empty the CUDA cache."""
    gc.collect()
    if uses_cuda():
        sys.modules["torch"].cuda.empty_cache()


def grow_batch_size(
    size: int, usage: MemoryUsage | None, count: int, *, images: bool = True
) -> int:
    """Return the batch size that device memory allows, from the usage of one batch.

    It doubles while the memory allows, and while enough batches are left of `count` items.
    """
    if usage is None or usage.peak <= usage.before:
        return size
    item = (usage.peak - usage.before) / size
    while (
        can_grow(size, count, images=images)
        and usage.before + item * size * 2 <= MEMORY_SHARE * usage.room
    ):
        size *= 2
    return size


def can_grow(size: int, count: int, *, images: bool = True) -> bool:
    """Whether a larger batch size is worth a trial for `count` items, with images or without."""
    most = MAX_BATCH_SIZE if images else MAX_CAPTIONS
    fewest = MIN_BATCHES if images else max(1, MIN_BATCHES // 4)
    return size * 2 <= most and size * 2 * fewest <= count


def measure_memory(call: Callable[[], object]) -> MemoryUsage | None:
    """Run a call and measure the memory of its busiest CUDA device.

    Without CUDA the call is not made, and the result is None.
    """
    if not uses_cuda():
        return None
    cuda: Any = sys.modules["torch"].cuda
    devices = range(cuda.device_count())
    for device in devices:
        cuda.reset_peak_memory_stats(device)
    before = [cuda.memory_allocated(device) for device in devices]
    call()
    peaks = [cuda.max_memory_allocated(device) for device in devices]
    busiest = max(devices, key=lambda device: peaks[device] - before[device])
    available, _ = cuda.mem_get_info(busiest)
    return MemoryUsage(before[busiest], peaks[busiest], available + cuda.memory_reserved(busiest))
