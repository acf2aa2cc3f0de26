"""Rows that other processes compute: those of one process, also where these end without them."""

from __future__ import annotations

import gc
import os
import signal

import pytest

from contrapose.data.forked_rows import ForkedRows, count_workers

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def rows(start: int, stop: int) -> bytes:
    return b"".join(k.to_bytes(2, "big") for k in range(start, stop))


@pytest.mark.parametrize("helps", [False, True])
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_rows_of_other_processes(count: int, helps: bool) -> None:
    here = os.getpid()
    spans = []

    def compute(start: int, stop: int) -> bytes:
        if os.getpid() == here:
            spans.append((start, stop))
        return rows(start, stop)

    table = ForkedRows(compute, count, 2, 3, helps=helps)
    assert bytes(table.wait()) == bytes(table.wait()) == rows(0, count)
    assert len(spans) == helps


@pytest.mark.parametrize("fault", ["error", "kill"])
def test_a_process_that_ends_leaves_its_rows_to_this_one(fault: str) -> None:
    here = os.getpid()

    def compute(start: int, stop: int) -> bytes:
        if os.getpid() != here and start:
            if fault == "error":
                raise RuntimeError
            os.kill(os.getpid(), signal.SIGKILL)
        return rows(start, stop)

    assert bytes(ForkedRows(compute, 1000, 2, 3).wait()) == rows(0, 1000)


def test_where_no_process_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    assert bytes(ForkedRows(rows, 1000, 2, 3).wait()) == rows(0, 1000)


def test_forgotten_rows_leave_no_process() -> None:
    table = ForkedRows(rows, 1000, 2, 2)
    pids = [pid for pid, _ in table._started]
    del table
    gc.collect()
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_few_rows_are_computed_here() -> None:
    assert count_workers(999, 1000) == 0
    assert 0 <= count_workers(1000, 1000) <= 8
