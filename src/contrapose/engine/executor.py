"""Executors of batched work.

An executor knows nothing of models or stores, so that another can take its place. The one on Ray
hands its workers the batches; they have copies of the model, and write parts of their own to the
shared store. The process that started the run then reads the table.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from contrapose.engine.memory import uses_cuda
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

MAX_THREADS = 16
"""Most threads that prepare inputs where the user does not say how many."""

PREFETCH = 256
"""Prepared inputs that may wait beside those of the batch being answered."""

PREFETCH_BYTES = 1 << 28
"""The same of images from decoder processes, in bytes; at least `PREFETCH` of them."""

A = TypeVar("A")
B_co = TypeVar("B_co", covariant=True)


class BatchWork(Protocol[B_co]):
    """Work that is done in batches; a batch is an array of positions in the work.

    Work some of whose inputs are images of files may have a method `decode_task(key)`, which
    describes such an image to a decoder process, and is None where `prepare` must make the input.
    Work some of whose inputs are as large as several images may have a method `input_size(key)`.
    """

    def inputs(self, batch: IntArray) -> Sequence[Hashable]:
        """List the inputs that must be prepared before a batch can be answered, each once."""

    def prepare(self, key: Any) -> Any:
        """Prepare an input (decode, preprocess). Any thread may call it."""

    def answer(self, batch: IntArray, ready: Mapping[Any, Any]) -> B_co:
        """Answer a batch whose inputs are prepared; always called by the same thread."""


Jobs = Sequence[tuple[BatchWork[A], IntArray]]
"""Batches in the order in which they are answered, each with the work that it is of."""

Keep = Callable[[BatchWork[A], A], None]
"""Receives answers, each with its work."""


class LateJobs(Protocol[B_co]):
    """Jobs without inputs that become known while others are answered.

    The next one may depend on how the last one was answered.
    """

    def is_ready(self) -> bool:
        """Whether `take` need not wait."""

    def take(self) -> tuple[BatchWork[B_co], IntArray] | None:
        """Take the next job, or None at the end."""


@runtime_checkable
class PendingAnswer(Protocol):
    """Answer that a GPU may still be computing."""

    @property
    def waits(self) -> bool:
        """Whether it is."""


class Executor(Protocol):
    """Executor of batched work."""

    def run(self, jobs: Jobs[A], keep: Keep[A], upcoming: Jobs[A] = ()) -> None:
        """Answer the batches, and pass each answer with its work to `keep`, in order.

        Args:
            jobs: the batches.
            keep: receives the answers.
            upcoming: what a later run answers; its images may be prepared meanwhile.
        """


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
        from contrapose.cores import count_cores

        cores = count_cores()
    if cores < DECODER_CORES or images < DECODER_IMAGES or not uses_cuda():
        return 0
    return min(workers or cores - 2, cores - 2, MOST_DECODERS, images // IMAGES_PER_DECODER)


@dataclass(slots=True)
class LocalExecutor:
    """Executor of this machine: worker threads prepare inputs, the calling thread answers.

    Where `count_decoders` says so, images of files are prepared by processes; the numbers are the
    same. These are started by `expect_images` and ended by `close`, or by leaving the context.

    Attributes:
        workers: threads; None is one per core, at most 16.
        ahead: prepared inputs that may wait beside those of the batch being answered.
        processes: decoder processes; None starts as many as pay.
        decoders: the processes, once they are started.
        early: images that they prepare for a later run, by the task's key.
        room: images of the size that they prepare for which there is room.
    """

    workers: int | None = None
    ahead: int = PREFETCH
    processes: int | None = None
    decoders: DecoderPool | None = field(default=None, init=False, repr=False, compare=False)
    early: dict[Hashable, Future[Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    room: int = field(default=0, init=False, repr=False, compare=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the decoder processes; later runs use threads, or start others."""
        pool, self.decoders, self.early = self.decoders, None, {}
        if pool is not None:
            pool.close()

    def count_processes(self, images: int) -> int:
        """Number of decoder processes for so many images of files."""
        return count_decoders(images, self.workers) if self.processes is None else self.processes

    def expect_images(self, images: int) -> None:
        """Start decoder processes if they pay for so many images of files, and do not wait."""
        if self.decoders is not None:
            return
        count = self.count_processes(images)
        if images and count:
            from contrapose.data.decoders import DecoderPool

            self.decoders = DecoderPool(count)

    def prepare_early(self, task: DecodeTask, held: int = 0) -> bool:
        """Let decoder processes prepare an image of a later run, if there is room beside others.

        Args:
            task: the image, whose content is known.
            held: inputs that wait already.
        """
        self.room = max(self.room, PREFETCH_BYTES // task.size)
        if self.decoders is None or not self.has_room(held):
            return False
        if task.key not in self.early:
            self.early[task.key] = self.decoders.submit(task)
        return True

    def has_room(self, held: int) -> bool:
        """Whether one more input may wait beside those that are held, and the early ones."""
        return held + len(self.early) < max(self.ahead, self.room)

    def run(
        self,
        jobs: Jobs[A],
        keep: Keep[A],
        upcoming: Jobs[A] = (),
        meanwhile: LateJobs[A] | None = None,
    ) -> None:
        """Answer the batches in order; an input that neighboring batches share is prepared once.

        An answer that a GPU is still computing is kept when the next batch has been handed to it,
        so that the GPU never waits for this program.

        Args:
            jobs: the batches.
            keep: receives the answers.
            upcoming: what a later run answers; its images may be prepared meanwhile.
            meanwhile: jobs that are answered while inputs of the others are not prepared yet, and
                when all others are answered.
        """
        pool = ThreadPoolExecutor(self.workers or min(MAX_THREADS, os.cpu_count() or 1))
        prefetcher = _Prefetcher(self, jobs, upcoming, pool)
        late: tuple[BatchWork[A], A] | None = None

        def answer(work: BatchWork[A], batch: IntArray, ready: Mapping[Any, Any]) -> None:
            nonlocal late
            result = work.answer(batch, ready)
            earlier, late = late, (work, result)
            if earlier is not None:
                keep(*earlier)
            if not isinstance(result, PendingAnswer) or not result.waits:
                late = None
                keep(work, result)

        try:
            with _one_cpu_thread():
                for number, (work, batch) in enumerate(jobs):
                    prefetcher.submit(number)
                    while meanwhile and meanwhile.is_ready() and not prefetcher.is_ready(number):
                        other = meanwhile.take()
                        if other is None:
                            break
                        answer(*other, {})
                    ready = prefetcher.take(number)
                    prefetcher.submit(number)
                    answer(work, batch, ready)
                while meanwhile and (other := meanwhile.take()) is not None:
                    answer(*other, {})
        except BaseException:
            self.early.clear()  # no later run will take them
            raise
        finally:
            prefetcher.cancel()
            pool.shutdown(cancel_futures=True)
            if late is not None:
                keep(*late)


@contextmanager
def _one_cpu_thread() -> Iterator[None]:
    """Let torch use one thread for each operation on the CPU while a GPU computes.

    Preparing images is many small operations in many threads; were each of these to start threads
    of its own, they would wait for each other longer than they compute.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not uses_cuda():
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Prefetcher:
    """Prefetcher of inputs in the order of the batches; bounded by their number and size.

    Images of upcoming batches are prepared by decoder processes alone, which outlive a run.
    """

    def __init__(
        self, owner: LocalExecutor, jobs: Jobs[Any], upcoming: Jobs[Any], pool: ThreadPoolExecutor
    ):
        self.owner, self.pool = owner, pool
        self.upcoming = (
            task
            for work, batch in upcoming
            if owner.decoders is not None and hasattr(work, "decode_task")
            for key in work.inputs(batch)
            if (task := work.decode_task(key)) is not None
        )
        self.needs: dict[int, list[tuple[int, Hashable]]] = {}
        self.held: dict[tuple[int, Hashable], Future[Any]] = {}
        self.sizes: dict[tuple[int, Hashable], int] = {}
        self.size = 0
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

    def submit(self, number: int) -> None:
        """Submit all inputs of the batch, and later ones while there is room."""
        while self.next is not None and (self.next[0] <= number or self.owner.has_room(self.size)):
            _, work, name = self.next
            self.uses[name] += 1
            if name not in self.held:
                self.held[name] = self._begin(work, name[1])
                input_size = getattr(work, "input_size", None)
                self.sizes[name] = 1 if input_size is None else input_size(name[1])
                self.size += self.sizes[name]
            self.next = next(self.queue, None)
        while self.next is None and self.owner.has_room(self.size):
            later = next(self.upcoming, None)
            if later is None or not self.owner.prepare_early(later, self.size):
                return

    def is_ready(self, number: int) -> bool:
        """Whether the batch's inputs are prepared."""
        return all(self.held[name].done() for name in self.needs.get(number, ()))

    def _begin(self, work: BatchWork[Any], key: Hashable) -> Future[Any]:
        """Let a decoder process prepare an input, or a thread."""
        decode_task = getattr(work, "decode_task", None)
        if self.owner.decoders is None or decode_task is None:
            return self.pool.submit(work.prepare, key)
        task: DecodeTask | None = decode_task(key)
        if task is None:
            return self.pool.submit(work.prepare, key)
        self.owner.room = max(self.owner.room, PREFETCH_BYTES // task.size)
        return self.owner.early.pop(task.key, None) or self.owner.decoders.submit(task)

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
                self.size -= self.sizes.pop(name)
        return ready
