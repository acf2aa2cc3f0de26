"""Signals that end a command: each one raises KeyboardInterrupt until it is handled."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

WATCH_SECONDS = 0.25
"""Seconds between two looks at whether an interrupt is still being handled."""

ENDINGS = (KeyboardInterrupt, GeneratorExit, SystemExit)


@contextmanager
def interrupting_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that it cleans up behind itself.

    A signal that is ignored, as under nohup, stays so. A forked process has the signals' usual
    effect. Python drops what is raised while it frees an object, and a library may drop any error:
    where the block goes on as if no signal had come, it is interrupted again, until the block ends
    or `settle_signal` is called.

    Yields:
        The numbers of the signals that came so far.
    """
    came: list[int] = []
    process = os.getpid()
    usual = (signal.SIG_DFL, signal.default_int_handler)
    alarm = getattr(signal, "SIGALRM", None)
    before: dict[int, Any] = {}

    def interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        came.append(number)
        if alarm in before:
            signal.setitimer(signal.ITIMER_REAL, WATCH_SECONDS, WATCH_SECONDS)
            if _is_freeing(frame):
                return
        raise KeyboardInterrupt

    def interrupt_again(number: int, frame: FrameType | None) -> None:
        if os.getpid() == process and not _is_freeing(frame) and not _is_ending(sys.exception()):
            raise KeyboardInterrupt

    def tell(dropped: sys.UnraisableHookArgs) -> None:
        if dropped.exc_type is not KeyboardInterrupt or alarm not in before or not came:
            hook(dropped)

    hook = sys.unraisablehook
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGALRM", "SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) in usual:
                handler = interrupt_again if number == alarm else interrupt
                before[number] = signal.signal(number, handler)
        sys.unraisablehook = tell
    try:
        yield came
    finally:
        sys.unraisablehook = hook
        for number, handler in reversed(before.items()):  # the alarm last: it is usually deadly
            if number == alarm:
                settle_signal()
            signal.signal(number, handler)


def settle_signal() -> None:
    """Say that the signals that came so far have had their effect."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _is_freeing(frame: FrameType | None) -> bool:
    """Whether a frame runs below a finalizer, or a callback of a weak collection.

    These should do their work to its end.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename.endswith(("weakref.py", "weakrefset.py")):
            return True
        frame = frame.f_back
    return False


def _is_ending(error: BaseException | None) -> bool:
    """Whether an error that is being handled is an interrupt, or came while one was handled."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ENDINGS):
            return True
        seen.add(id(error))
        error = error.__context__
    return False
