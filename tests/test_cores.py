"""Cores and threads: what this process may use, also on systems that do not tell its share."""

from __future__ import annotations

import os

import pytest

from contrapose.cores import THREADS, count_cores, count_threads


def test_cores_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert count_cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert count_cores() == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert count_cores() == 1


@pytest.mark.parametrize(("given", "threads"), [("3", 3), ("0", 5), ("many", 5), ("", 5)])
def test_threads(monkeypatch: pytest.MonkeyPatch, given: str, threads: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(5)), raising=False)
    monkeypatch.setenv(THREADS, given)
    assert count_threads() == threads
    monkeypatch.delenv(THREADS)
    assert count_threads() == 5
