"""Decoder processes: images of files opened, resized and cropped outside Python's interpreter lock.

A decoder is this module as a program, `python -m contrapose.data.decoders`; it imports no torch. It
reads requests (a length of four bytes, then JSON) and writes replies (height and width of four
bytes, then the bytes of three channels). Height 0 says that it could not, and the caller then does
the work itself: so every message, limit and skip is the caller's. A decoder ends when its input
does, so that it never outlives the program that started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import IO, TYPE_CHECKING, Any

from contrapose.data.images import ImageRef, open_image
from contrapose.data.pixels import LIMIT_VARIABLE, pixel_limit
from contrapose.resize_crop import ResizeCrop

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LENGTH = struct.Struct("<I")
SHAPE = struct.Struct("<II")
PIPE_BYTES = 1 << 20
"""Size of a decoder's pipes, so that it can write a reply before the last one is read."""
DECODER_MEGAPIXELS = 16.0
"""Largest image that a decoder opens, in million pixels."""
REQUESTS_AHEAD = 2
"""Requests that a decoder has at a time: one that it works on, one that waits."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodeTask:
    """Image to decode in another process.

    Attributes:
        ref: an image of its own file.
        steps: resize and crop.
        finish: makes the result of the bytes (3, h, w).
        decode_here: makes the result in this process, when no other can.
    """

    ref: ImageRef
    steps: ResizeCrop
    finish: Callable[[NDArray[np.uint8]], Any]
    decode_here: Callable[[], Any]

    def to_request(self) -> bytes:
        """Write the request for a decoder."""
        ref = self.ref
        values = {
            "path": str((ref.path or Path()).absolute()),
            "crop": ref.crop,
            "channels": ref.channels,
            "square": ref.square,
            "steps": self.steps.to_json(),
        }
        content = json.dumps(values).encode()
        return LENGTH.pack(len(content)) + content


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
        [sys.executable, "-P", "-m", "contrapose.data.decoders"],
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
        self.sent: deque[_QueuedTask] = deque()
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
            try:
                queued = self.queue.get(block=not self.sent)
            except Empty:
                break
            if queued is None:
                for rest in self.sent:
                    rest.cancel()
                return False
            if self.closed.is_set():
                queued.future.cancel()
            elif queued.future.set_running_or_notify_cancel():
                self.sent.append(queued)
                if self.alive:
                    self.alive = _write_all(requests, queued.task.to_request())
        return True

    def _collect(self, replies: IO[bytes]) -> None:
        """Set the result of the first task that was sent; of all, when the decoder is dead."""
        array = _read_reply(replies) if self.alive else None
        self.alive = array is not None
        for _ in range(1 if self.alive else len(self.sent)):
            queued = self.sent.popleft()
            if array is not None and array.size:
                queued.resolve(partial(queued.task.finish, array))
            elif self.closed.is_set():
                queued.cancel()
            else:
                queued.resolve(queued.task.decode_here)


def _write_all(stream: IO[bytes], content: bytes) -> bool:
    """Write to a pipe; false when nobody reads it."""
    try:
        return stream.write(content) == len(content)
    except OSError:
        return False


def _read_reply(stream: IO[bytes]) -> NDArray[np.uint8] | None:
    """Read a reply (3, h, w); empty when the decoder could not, None when it is dead."""
    import numpy as np

    header = bytearray(SHAPE.size)
    if not _read_into(stream, memoryview(header)):
        return None
    array = np.empty((3, *SHAPE.unpack(header)), dtype=np.uint8)
    if array.size and not _read_into(stream, array.data.cast("B")):
        return None
    return array


def _read_into(stream: Any, view: memoryview) -> bool:
    """Fill the view from a pipe; false when it ends before."""
    while len(view):
        count = stream.readinto(view)
        if not count:
            return False
        view = view[count:]
    return True


def serve_requests(source: IO[bytes], target: IO[bytes]) -> None:
    """Answer requests until the source ends."""
    while header := source.read(LENGTH.size):
        values = json.loads(source.read(LENGTH.unpack(header)[0]))
        crop = values["crop"]
        ref = ImageRef(
            values["path"],
            Path(values["path"]),
            crop=None if crop is None else tuple(crop),
            channels=values["channels"],
            square=values["square"],
        )
        try:
            array = ResizeCrop.from_json(values["steps"]).to_bytes(open_image(ref))
        except Exception:  # the caller says what is wrong with the image
            target.write(SHAPE.pack(0, 0))
        else:
            target.write(SHAPE.pack(*array.shape[1:]))
            target.write(array.data.cast("B"))
        target.flush()


def main() -> None:
    """Be a decoder: requests on the standard input, replies on the standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started this one
    with contextlib.suppress(BrokenPipeError), os.fdopen(os.dup(1), "wb") as target:
        os.dup2(2, 1)  # whatever a library prints is no reply
        serve_requests(sys.stdin.buffer, target)


if __name__ == "__main__":
    main()
