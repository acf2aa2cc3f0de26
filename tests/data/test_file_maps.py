"""Maps over files: the same results in one thread and in several, and which of them it takes."""

from __future__ import annotations

import threading
import time

import pytest

from contrapose.data import file_maps
from contrapose.data.file_maps import map_files


def test_results_are_in_order_in_one_thread_and_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    items = list(range(100))
    alone = list(map_files(lambda item: item * item, items, quick=1.0, size=7))
    monkeypatch.setattr(file_maps, "TRIAL_SECONDS", 0.0)
    shared = list(map_files(lambda item: item * item, items, quick=0.0, size=7))
    assert alone == shared
    assert [value for task in alone for value in task] == [item * item for item in items]
    assert [len(task) for task in alone] == [7] * 14 + [2]
    assert list(map_files(abs, [], quick=1.0, size=7)) == []


def test_slow_files_are_read_in_threads_and_quick_ones_are_not() -> None:
    def read(item: int) -> int:
        time.sleep(0.002)
        return threading.get_ident()

    slow = [name for task in map_files(read, range(120), quick=1e-4, size=4) for name in task]
    assert len(set(slow)) > 1
    quick = [name for task in map_files(read, range(40), quick=1.0, size=4) for name in task]
    assert set(quick) == {threading.get_ident()}


def test_the_first_task_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_maps, "TRIAL_SECONDS", 1e-3)

    def load(item: int) -> int:
        time.sleep(0.05 if item < 4 else 0)
        return threading.get_ident()

    names = [name for task in map_files(load, range(40), quick=5e-3, size=4) for name in task]
    assert set(names) == {threading.get_ident()}


def test_a_reader_may_stop_early_and_errors_come_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_maps, "TRIAL_SECONDS", 0.0)
    seen: list[int] = []
    tasks = map_files(seen.append, range(10_000), quick=0.0, size=1)
    for _, _ in zip(range(3), tasks, strict=False):
        pass
    tasks.close()  # type: ignore[attr-defined]
    assert len(seen) < 10_000

    def fail(item: int) -> int:
        return 1 // (item - 5)

    with pytest.raises(ZeroDivisionError):
        list(map_files(fail, range(10), quick=0.0, size=1))
