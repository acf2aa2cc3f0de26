"""Executors of batched work, and device memory as the limit of a batch.

An executor knows nothing of models or stores, so that another can take its place. The one on Ray
hands its workers the batches; they have copies of the model, and write parts of their own to the
shared store. The process that started the run then reads the table.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from contrapose.errors import InputError
from contrapose.metrics import IntArray

if TYPE_CHECKING:
    from contrapose.data.decoders import DecoderPool, DecodeTask

PROCESSES_VARIABLE = "CONTRAPOSE_DECODERS"
"""Environment variable of the number of decoder processes; 0 decodes in threads."""

DECODER_CORES = 4
"""Fewest cores with which decoder processes are started."""

DECODER_IMAGES = 256
"""Fewest images for which they are started."""

IMAGES_PER_DECODER = 32
"""Images for which one more of them pays."""

MOST_DECODERS = 16

ENOUGH_IMAGES = max(DECODER_IMAGES, IMAGES_PER_DECODER * MOST_DECODERS)
"""Images from which on their number changes nothing."""

PREFETCH = 256
"""Prepared inputs that may wait beside those of the batch being answered."""

A = TypeVar("A")
B_co = TypeVar("B_co", covariant=True)


class BatchWork(Protocol[B_co]):
    """Work that is done in batches; a batch is an array of positions in the work."""

    def inputs(self, batch: IntArray) -> Sequence[Hashable]:
        """List the inputs that must be prepared before a batch can be answered, each once."""

    def prepare(self, key: Any) -> Any:
        """Prepare an input (decode, preprocess). Any thread may call it."""

    def answer(self, batch: IntArray, ready: Mapping[Any, Any]) -> B_co:
        """Answer a batch whose inputs are prepared; always called by the same thread."""


@runtime_checkable
class DecodeWork(Protocol):
    """Work some of whose inputs are images that decoder processes can prepare."""

    def decode_task(self, key: Any) -> DecodeTask | None:
        """Describe the image of an input; None where `prepare` must make it."""


Jobs = Sequence[tuple[BatchWork[A], IntArray]]
"""Batches in the order in which they are answered, each with the work that it is of."""


class Executor(Protocol):
    """Executor of batched work."""

    def run(self, jobs: Jobs[A], keep: Callable[[BatchWork[A], A], None]) -> None:
        """Answer the batches, and pass each answer with its work to `keep`, in order."""


def count_decoders(images: int, workers: int | None = None, cores: int | None = None) -> int:
    """Number of decoder processes that pay for so many images; 0 where threads do as well.

    They pay beside a GPU, whose calls and the threads would wait for each other at Python's
    interpreter lock. The environment variable `PROCESSES_VARIABLE` overrules it.

    Args:
        images: images of files to prepare.
        workers: most processes; None takes all cores but two.
        cores: cores of this machine; None counts those that this program may use.

    Raises:
        InputError: the environment variable is no number.
    """
    text = os.environ.get(PROCESSES_VARIABLE, "").strip()
    if text:
        if not text.isdecimal():
            raise InputError(f"{PROCESSES_VARIABLE} must be a number from 0 on, found {text!r}.")
        return min(int(text), images)
    if cores is None:
        affinity = getattr(os, "sched_getaffinity", None)  # not on every system
        cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    if cores < DECODER_CORES or images < DECODER_IMAGES or not _uses_cuda():
        return 0
    return min(workers or cores - 2, cores - 2, MOST_DECODERS, images // IMAGES_PER_DECODER)


@dataclass(slots=True)
class LocalExecutor:
    """Executor of this machine: worker threads prepare inputs, the calling thread answers.

    Where `count_decoders` says so, images of files are prepared by processes; the numbers are the
    same. These are started by `expect_images` and ended by `close`, or by leaving the context.

    Attributes:
        workers: threads; None is one per core, at most eight.
        ahead: prepared inputs that may wait beside those of the batch being answered.
        processes: decoder processes; None starts as many as pay.
        decoders: the processes, once they are started.
    """

    workers: int | None = None
    ahead: int = PREFETCH
    processes: int | None = None
    decoders: DecoderPool | None = field(default=None, init=False, repr=False, compare=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the decoder processes; later runs use threads, or start others."""
        pool, self.decoders = self.decoders, None
        if pool is not None:
            pool.close()

    def expect_images(self, images: int) -> None:
        """Start decoder processes if they pay for so many images of files, and do not wait."""
        if self.decoders is not None:
            return
        count = count_decoders(images, self.workers) if self.processes is None else self.processes
        if images and count:
            from contrapose.data.decoders import DecoderPool

            self.decoders = DecoderPool(count)

    def run(self, jobs: Jobs[A], keep: Callable[[BatchWork[A], A], None]) -> None:
        """Answer the batches in order; an input that neighboring batches share is prepared once."""
        pool = ThreadPoolExecutor(self.workers or min(8, os.cpu_count() or 1))
        prefetcher = _Prefetcher(jobs, pool, self.decoders)
        try:
            with _one_cpu_thread():
                for number, (work, batch) in enumerate(jobs):
                    prefetcher.submit(number, self.ahead)
                    ready = prefetcher.take(number)
                    prefetcher.submit(number, self.ahead)
                    keep(work, work.answer(batch, ready))
        finally:
            prefetcher.cancel()
            pool.shutdown(cancel_futures=True)


@contextmanager
def _one_cpu_thread() -> Iterator[None]:
    """Let torch use one thread for each operation on the CPU while a GPU computes.

    Preparing images is many small operations in many threads; were each of these to start threads
    of its own, they would wait for each other longer than they compute.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not _uses_cuda():
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Prefetcher:
    """Prefetcher of inputs in the order of the batches; bounded by their number."""

    def __init__(self, jobs: Jobs[Any], pool: ThreadPoolExecutor, decoders: DecoderPool | None):
        self.pool, self.decoders = pool, decoders
        self.needs: dict[int, list[tuple[int, Hashable]]] = {}
        self.held: dict[tuple[int, Hashable], Future[Any]] = {}
        self.uses: Counter[tuple[int, Hashable]] = Counter()
        self.queue = self._list_inputs(jobs)
        self.next = next(self.queue, None)

    def _list_inputs(
        self, jobs: Jobs[Any]
    ) -> Iterator[tuple[int, BatchWork[Any], tuple[int, Hashable]]]:
        for number, (work, batch) in enumerate(jobs):
            self.needs[number] = [(id(work), key) for key in work.inputs(batch)]
            for name in self.needs[number]:
                yield number, work, name

    def submit(self, number: int, ahead: int) -> None:
        """Submit all inputs of the batch, and later ones while there is room."""
        while self.next is not None and (self.next[0] <= number or len(self.held) < ahead):
            _, work, name = self.next
            self.uses[name] += 1
            if name not in self.held:
                self.held[name] = self._begin(work, name[1])
            self.next = next(self.queue, None)

    def _begin(self, work: BatchWork[Any], key: Hashable) -> Future[Any]:
        """Let a decoder process prepare an input, or a thread."""
        if self.decoders is not None and isinstance(work, DecodeWork):
            task = work.decode_task(key)
            if task is not None:
                return self.decoders.submit(task)
        return self.pool.submit(work.prepare, key)

    def cancel(self) -> None:
        """Cancel what has not begun."""
        for future in self.held.values():
            future.cancel()

    def take(self, number: int) -> dict[Hashable, Any]:
        """Wait for the batch's inputs, and release those that no later batch needs."""
        names = self.needs.pop(number, [])
        ready = {name[1]: self.held[name].result() for name in names}
        for name in names:
            self.uses[name] -= 1
            if not self.uses[name]:
                del self.held[name], self.uses[name]
        return ready


MAX_BATCH_SIZE = 1024
"""No batch grows beyond it."""

MEMORY_SHARE = 0.7
"""Share of the device's memory that a grown batch may fill."""

MIN_BATCHES = 8
"""Batches that a grown size leaves at the least, so that images are decoded while others are
scored."""

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


def _uses_cuda() -> bool:
    """Whether this program uses a CUDA device already."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()


def free_memory() -> None:
    """Collect garbage and empty the CUDA cache."""
    gc.collect()
    if _uses_cuda():
        sys.modules["torch"].cuda.empty_cache()


def grow_batch_size(size: int, usage: MemoryUsage | None, count: int) -> int:
    """Return the batch size that device memory allows, from the usage of one batch.

    It doubles while the memory allows, and while enough batches are left of `count` items.
    """
    if usage is None or usage.peak <= usage.before:
        return size
    item = (usage.peak - usage.before) / size
    while can_grow(size, count) and usage.before + item * size * 2 <= MEMORY_SHARE * usage.room:
        size *= 2
    return size


def can_grow(size: int, count: int) -> bool:
    """Whether a larger batch size is worth a trial for `count` items."""
    return size * 2 <= MAX_BATCH_SIZE and size * 2 * MIN_BATCHES <= count


def measure_memory(call: Callable[[], object]) -> MemoryUsage | None:
    """Run a call and measure the memory of its busiest CUDA device.

    Without CUDA the call is not made, and the result is None.
    """
    if not _uses_cuda():
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
