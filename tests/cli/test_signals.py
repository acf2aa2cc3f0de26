"""Signals end a command even where a library drops them, and let it clean up behind itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import cast
from urllib.request import urlopen

import pytest

from contrapose.cli.console import wait_for_server
from contrapose.cli.signals import WATCH_SECONDS, interrupting_signals, settle_signal
from contrapose.files.local_server import LocalServer, Routes

pytestmark = pytest.mark.skipif(
    signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL,
    reason="SIGTERM is ignored or handled where the tests run",
)


def wait() -> None:
    """Wait a minute, unless something interrupts."""
    for _ in range(600):
        time.sleep(0.1)


def signal_in_vain(number: int) -> None:
    """Raise a signal whose effect is dropped, as by a library that clears all errors."""
    with suppress(KeyboardInterrupt):
        signal.raise_signal(number)


def test_a_forked_process_has_the_usual_signals() -> None:
    program = """
import os, signal, sys, time
from contrapose.cli.signals import interrupting_signals
with interrupting_signals() as came:
    child = os.fork()
    if not child:
        signal.raise_signal(signal.SIGTERM)
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), came)
"""
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.stdout.strip() == f"{-signal.SIGTERM} []", ended


def test_a_signal_while_an_object_is_freed_is_not_lost() -> None:
    class Freed:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)
            freed.append(1)

    freed: list[int] = []

    def work() -> None:
        Freed()
        wait()

    with interrupting_signals() as came, pytest.raises(KeyboardInterrupt):
        work()
    assert (came, freed) == ([signal.SIGTERM], [1])


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_python_drops_is_raised_again(capfd: pytest.CaptureFixture[str]) -> None:
    class Referred:
        pass

    calls: list[object] = []

    def call_back(reference: object) -> None:
        calls.append(reference)
        signal.raise_signal(signal.SIGTERM)

    before = sys.unraisablehook

    def work() -> None:
        referred = Referred()
        reference = weakref.ref(referred, call_back)
        del referred
        assert calls == [reference]
        wait()

    with interrupting_signals() as came, pytest.raises(KeyboardInterrupt):
        work()
    assert came == [signal.SIGTERM]
    assert sys.unraisablehook is before
    assert capfd.readouterr().err == ""


def test_a_server_ends_after_a_signal_that_was_dropped_before_it_served() -> None:
    server = LocalServer(cast(Routes, None))
    with interrupting_signals() as came:
        signal_in_vain(signal.SIGTERM)
        wait_for_server(server, quiet=True)
        assert came == [signal.SIGTERM]
        time.sleep(3 * WATCH_SECONDS)  # and nothing is interrupted again
    with pytest.raises(OSError, match="refused"):
        urlopen(server.url)  # noqa: S310


def test_a_signal_that_was_dropped_is_raised_until_it_is_not() -> None:
    with interrupting_signals() as came:
        signal_in_vain(signal.SIGTERM)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                wait()
    assert came == [signal.SIGTERM]
    time.sleep(3 * WATCH_SECONDS)


def clean_at_last(done: list[str]) -> None:
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        time.sleep(3 * WATCH_SECONDS)
        done.append("cleaned")


def clean_after_another_error(done: list[str]) -> None:
    try:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise ValueError("a library's own error") from None
    except ValueError:
        time.sleep(3 * WATCH_SECONDS)
        done.append("cleaned")
        raise


def clean_in_a_manager(done: list[str]) -> None:
    @contextmanager
    def work() -> Iterator[None]:
        try:
            yield
        finally:
            time.sleep(3 * WATCH_SECONDS)
            done.append("cleaned")

    with work():
        signal.raise_signal(signal.SIGTERM)


def clean_in_a_generator(done: list[str]) -> None:
    def work() -> Iterator[int]:
        try:
            yield 1
            signal.raise_signal(signal.SIGTERM)
        finally:
            time.sleep(3 * WATCH_SECONDS)
            done.append("cleaned")

    list(work())


def clean_a_generator_that_is_freed(done: list[str]) -> None:
    def work() -> Iterator[int]:
        try:
            yield 1
        finally:
            time.sleep(3 * WATCH_SECONDS)
            done.append("cleaned")

    for _ in work():
        signal.raise_signal(signal.SIGTERM)


def clean_in_a_pool(done: list[str]) -> None:
    def work() -> None:
        time.sleep(3 * WATCH_SECONDS)
        done.append("cleaned")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work)
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    "work",
    [
        clean_at_last,
        clean_after_another_error,
        clean_in_a_manager,
        clean_in_a_generator,
        clean_a_generator_that_is_freed,
        clean_in_a_pool,
    ],
)
def test_what_cleans_up_is_not_interrupted_again(work: Callable[[list[str]], None]) -> None:
    done: list[str] = []
    with interrupting_signals() as came, pytest.raises((KeyboardInterrupt, ValueError)):
        work(done)
    assert (came, done) == ([signal.SIGTERM], ["cleaned"])


def test_a_signal_that_was_settled_is_not_raised_again() -> None:
    with interrupting_signals():
        signal_in_vain(signal.SIGTERM)
        settle_signal()
        time.sleep(3 * WATCH_SECONDS)
    with interrupting_signals() as came:
        assert came == []


def test_what_is_dropped_without_a_signal_is_told_as_ever() -> None:
    program = """
from contrapose.cli.signals import interrupting_signals
class Freed:
    def __del__(self):
        raise self.error
with interrupting_signals() as came:
    for Freed.error in (ValueError("first"), KeyboardInterrupt("second")):
        Freed()
print(came)
"""
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.stdout.strip() == "[]", ended
    assert "ValueError: first" in ended.stderr
    assert "KeyboardInterrupt: second" in ended.stderr


def test_a_signal_while_handlers_are_restored_leaves_no_alarm() -> None:
    program = """
import signal, time
from contextlib import suppress
from contrapose.cli import signals
original = signal.signal
def restore(number, handler):
    before = original(number, handler)
    if number == signal.SIGALRM and handler == signal.SIG_DFL:
        signal.raise_signal(signal.SIGINT)
    return before
with suppress(KeyboardInterrupt):
    with signals.interrupting_signals():
        signal.signal = restore
time.sleep(3 * signals.WATCH_SECONDS)
print("ends well")
"""
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.stdout.strip() == "ends well", ended
