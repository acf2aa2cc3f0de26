"""Decoder processes: images of files opened, resized and cropped outside Python's interpreter lock.

What a decoder (`contrapose.data.decoder`) cannot open this process opens itself, so that every
message, limit and skip is its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from math import prod
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import IO, TYPE_CHECKING, Any

from contrapose.data.decoder import LENGTH, SHAPE
from contrapose.data.images import ImageRef
from contrapose.data.pixels import LIMIT_VARIABLE, pixel_limit
from contrapose.resize_crop import ResizeCrop

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PIPE_BYTES = 1 << 20
"""Size of a decoder's pipes, so that it can write a reply before the last one is read."""
DECODER_MEGAPIXELS = 16.0
"""Largest image that a decoder opens, in million pixels."""
REQUESTS_AHEAD = 2
"""Requests that a decoder has at a time: one that it works on, one that waits."""
REQUEST_IMAGES = 4
"""Images of a request at the most. Threads that exchange many small messages would slow down the
one that calls the model: they share Python's interpreter lock."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodeTask:
    """Image to decode in another process.

    Attributes:
        ref: an image of its own file.
        steps: resize and crop.
        finish: makes the result of the bytes (3, h, w); of an image with masks (4, h, w), whose
            last channel is 255 under a mask, else 0.
        decode_here: makes the result in this process, when no other can.
        masks: masks of the image, each as packed bits, height and width.
        content: content id that the image must have; empty for any.
        model: fingerprint of the model that the image is for, in case no decoder can open it.
    """

    ref: ImageRef
    steps: ResizeCrop
    finish: Callable[[NDArray[np.uint8]], Any]
    decode_here: Callable[[], Any]
    masks: tuple[tuple[bytes, tuple[int, int]], ...] = ()
    content: str = ""
    model: str = ""

    @property
    def key(self) -> Hashable:
        """Key of the result, where the content is known."""
        return self.content, self.steps, self.masks, self.model

    @property
    def size(self) -> int:
        """Bytes of the prepared image; without a crop those of a square one."""
        sides = self.steps.crop or self.steps.resize
        height, width = (sides, sides) if isinstance(sides, int) else sides
        return (4 if self.masks else 3) * height * width

    def to_json(self) -> dict[str, Any]:
        """Describe the task to a decoder."""
        ref = self.ref
        return {
            "path": str((ref.path or Path()).absolute()),
            "crop": ref.crop,
            "channels": ref.channels,
            "square": ref.square,
            "content": self.content,
            "steps": self.steps.to_json(),
            "masks": [[b64encode(bits).decode(), *shape] for bits, shape in self.masks],
        }


@dataclass(slots=True)
class _QueuedTask:
    """Task with its future; the reply is awaited, or the task is still to be sent."""

    task: DecodeTask
    future: Future[Any] = field(default_factory=Future)

    def resolve(self, make: Callable[[], Any]) -> None:
        """Set the result, or the error that making it raises."""
        try:
            self.future.set_result(make())
        except BaseException as error:
            self.future.set_exception(error)

    def cancel(self) -> None:
        """Cancel a task that was sent."""
        self.future.set_exception(CancelledError())


class DecoderPool:
    """Decoder processes that share a queue; a thread for each sends requests and reads replies.

    A decoder that dies costs time only: its thread goes on without it. A decoder opens images of at
    most `DECODER_MEGAPIXELS`; larger ones are opened by this process, which bounds their memory.
    """

    def __init__(self, count: int):
        """Start so many processes, without waiting for them."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            LIMIT_VARIABLE: repr(min(pixel_limit() / 1e6, DECODER_MEGAPIXELS)),
        }
        self._queue: SimpleQueue[_QueuedTask | None] = SimpleQueue()
        self._closed = Event()
        self._processes = [_start_decoder(environment) for _ in range(count)]
        self._finalizer = weakref.finalize(
            self, _end_decoders, self._processes, self._queue, self._closed
        )
        self._threads = [
            Thread(target=_Feeder(process, self._queue, self._closed).run, daemon=True)
            for process in self._processes
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pids(self) -> list[int]:
        """Process ids."""
        return [process.pid for process in self._processes]

    def submit(self, task: DecodeTask) -> Future[Any]:
        """Queue a task."""
        queued = _QueuedTask(task)
        self._queue.put(queued)
        return queued.future

    def close(self) -> None:
        """End the processes; tasks that are not done are canceled."""
        self._finalizer()
        for thread in self._threads:
            thread.join()


def _start_decoder(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "contrapose.data.decoder"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        pipesize=PIPE_BYTES,
        env=environment,
    )


def _end_decoders(
    processes: Sequence[subprocess.Popen[bytes]],
    queue: SimpleQueue[_QueuedTask | None],
    closed: Event,
) -> None:
    closed.set()
    for process in processes:
        process.kill()  # it holds nothing that must be put in order
        queue.put(None)
    for process in processes:
        process.wait()


class _Feeder:
    """Thread of a decoder; does the decoder's work when that has died."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        queue: SimpleQueue[_QueuedTask | None],
        closed: Event,
    ):
        self.process, self.queue, self.closed = process, queue, closed
        self.sent: deque[list[_QueuedTask]] = deque()
        self.alive = True

    def run(self) -> None:
        """Send tasks and set their results until the queue says None."""
        requests, replies = self.process.stdin, self.process.stdout
        assert requests is not None  # noqa: S101 - opened as a pipe
        assert replies is not None  # noqa: S101 - opened as a pipe
        with requests, replies:
            while self._take(requests):
                if self.sent:
                    self._collect(replies)

    def _take(self, requests: IO[bytes]) -> bool:
        """Take tasks from the queue and send them; false at the end."""
        while len(self.sent) < REQUESTS_AHEAD:
            tasks, goes_on = self._get(block=not self.sent)
            if tasks:
                self.sent.append(tasks)
                if self.alive:
                    self.alive = _write_request(requests, [queued.task for queued in tasks])
            if not goes_on:
                for queued in (queued for request in self.sent for queued in request):
                    queued.cancel()
                return False
            if not tasks and self.sent:
                break
        return True

    def _get(self, *, block: bool) -> tuple[list[_QueuedTask], bool]:
        """Get the tasks of a request from the queue, and whether the pool goes on."""
        tasks: list[_QueuedTask] = []
        while len(tasks) < REQUEST_IMAGES:
            try:
                queued = self.queue.get(block=block and not tasks)
            except Empty:
                break
            if queued is None:
                return tasks, False
            if self.closed.is_set():
                queued.future.cancel()
            elif queued.future.set_running_or_notify_cancel():
                tasks.append(queued)
        return tasks, True

    def _collect(self, replies: IO[bytes]) -> None:
        """Set the results of the first request that was sent; of all, when the decoder is dead."""
        arrays = _read_reply(replies, len(self.sent[0])) if self.alive else None
        self.alive = arrays is not None
        for _ in range(1 if self.alive else len(self.sent)):
            tasks = self.sent.popleft()
            for number, queued in enumerate(tasks):
                array = None if arrays is None else arrays[number]
                if array is not None and array.size:
                    queued.resolve(partial(queued.task.finish, array))
                elif self.closed.is_set():
                    queued.cancel()
                else:
                    queued.resolve(queued.task.decode_here)


def _write_request(stream: IO[bytes], tasks: Sequence[DecodeTask]) -> bool:
    """Write a request to a pipe; false when nobody reads it."""
    content = json.dumps([task.to_json() for task in tasks]).encode()
    try:
        return stream.write(LENGTH.pack(len(content)) + content) == LENGTH.size + len(content)
    except OSError:
        return False


def _read_reply(stream: IO[bytes], count: int) -> list[NDArray[np.uint8]] | None:
    """Read so many images; empty where the decoder could not, None when it is dead."""
    import numpy as np

    header = bytearray(SHAPE.size * count)
    if not _read_into(stream, memoryview(header)):
        return None
    shapes = list(SHAPE.iter_unpack(header))
    ends = np.cumsum([prod(shape) for shape in shapes])
    content = np.empty(ends[-1], dtype=np.uint8)
    if content.size and not _read_into(stream, content.data):
        return None
    parts = np.split(content, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _read_into(stream: Any, view: memoryview) -> bool:
    """Fill the view from a pipe; false when it ends before."""
    while len(view):
        count = stream.readinto(view)
        if not count:
            return False
        view = view[count:]
    return True
