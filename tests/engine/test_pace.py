"""Paces of scoring: kept beside the scores, read for estimates, and never invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contrapose.data import registry
from contrapose.engine import AnswerStore, pace
from contrapose.engine.pace import ESTIMATE, PLAN, PaceBook, PaceClock, estimate_work
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.models.function import FunctionModel
from tests.fakes import Fake, Tower, choices, made, pairs
from tests.special_files import SPECIAL_FILES, make_special_file


class Clock:
    """Time that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("contrapose.engine.pace.time.monotonic", found.monotonic)
    return found


def run_batches(book: PaceBook, clock: Clock, total: int = 1000) -> list[str]:
    """Sentences of a request of 10 batches, the first of which takes a minute, the others 2 s."""
    said: list[str] = []
    one = PaceClock(book, lambda what, done, _: said.append(what) if done else None, "itc", total)
    one.begin()
    for number in range(10):
        clock.now += 2 if number else 60
        one.add((number + 1) * total // 10)
    one.finish()
    return said


def test_time_of_other_work_is_left_out(tmp_path: Path, clock: Clock) -> None:
    book = PaceBook(AnswerStore(tmp_path), Tower(), None)
    one = PaceClock(book, None, "itc", 300)
    one.exclude(1000.0)  # before its first batch, when nothing is measured yet
    for number in range(3):
        clock.now += 2
        one.add((number + 1) * 100)
        clock.now += 5
        one.exclude(5.0)  # after the last batch too
    one.finish()
    assert book.find("itc") == pytest.approx(2 / 100)


def test_estimates_come_from_batches_and_then_from_earlier_runs(
    tmp_path: Path, clock: Clock
) -> None:
    book = PaceBook(AnswerStore(tmp_path), Tower(), None)
    assert book.find("itc") is None
    first = run_batches(book, clock)
    assert first == ["estimate: itc: about 10 s for 700 more, from the first 3 batches"]
    assert book.find("itc") == pytest.approx(2 / 100)  # without the warm-up
    (again,) = run_batches(PaceBook(AnswerStore(tmp_path), Tower(), None), clock, 10_000)
    assert again.startswith("estimate: itc: about 3 min for 10,000, at the pace of an earlier run")
    for other in (
        PaceBook(AnswerStore(tmp_path), Tower(), 8),
        PaceBook(AnswerStore(tmp_path), Tower(fingerprint="other"), None),
        PaceBook(AnswerStore(None), Tower(), None),
    ):
        assert other.find("itc") is None
    seconds, unknown = estimate_work(book, {"itc": 50, "lm": 3, "itm": 0})
    assert seconds == pytest.approx(50 * (book.find("itc") or 0))
    assert unknown == ["lm"]
    assert len(run_batches(PaceBook(AnswerStore(None), Tower(), None), clock)) == 1


def test_short_work_is_neither_said_nor_kept(tmp_path: Path, clock: Clock) -> None:
    book = PaceBook(AnswerStore(tmp_path), Tower(), None)
    book.record("itc", 0.4, 100)
    book.record("itc", 5.0, 0)
    assert book.find("itc") is None
    book.record("itc", 5.0, 1_000_000)
    assert not [line for line in run_batches(book, clock, 100) if "earlier" in line]


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"x": 3}', b"\xff", b"null", b"[" * 100_000])
def test_a_damaged_file_costs_nothing_but_the_estimate(tmp_path: Path, content: bytes) -> None:
    book = PaceBook(AnswerStore(tmp_path), Tower(), None)
    (tmp_path / "paces").mkdir()
    (tmp_path / "paces" / book.name).write_bytes(content)
    assert book.find("itc") is None
    book.record("itc", 5.0, 10)
    assert book.find("itc") == 0.5
    values: tuple[Any, ...] = ("soon", 10**400, [], None, -1.0, float("nan"))
    for value in values:
        (tmp_path / "paces" / book.name).write_text(json.dumps({f"itc, {book.place}": value}))
        assert book.find("itc") is None


@pytest.mark.parametrize("kind", SPECIAL_FILES)
def test_what_is_no_file_is_ignored(tmp_path: Path, kind: str) -> None:
    book = PaceBook(AnswerStore(tmp_path), Tower(), None)
    (tmp_path / "paces").mkdir()
    make_special_file(tmp_path / "paces" / book.name, kind)
    assert book.find("itc") is None
    book.record("itc", 5.0, 10)


def test_models_without_a_fingerprint_have_no_pace(tmp_path: Path) -> None:
    book = PaceBook(AnswerStore(tmp_path), FunctionModel(lambda image, text: 0.0), None)
    book.record("itm", 5.0, 10)
    assert book.find("itm") is None
    assert not (tmp_path / "paces").exists()


def test_the_plan_has_an_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"two": made("two", "pairs", "2 × 2", pairs()),
             "one": made("one", "choice", "1 × 3", choices())}  # fmt: skip
    monkeypatch.setattr(registry, "_plugins", lambda: known)
    monkeypatch.setattr(pace, "LEAST_TIME", 0.0)
    monkeypatch.setattr(pace, "SHORTEST", 0.0)

    def labels(scores: tuple[str, ...], cache: Path | None) -> list[str]:
        said: list[str] = []
        request = EvalRequest(("two", "one"), scores, resamples=100, cache=cache, batch_size=1)
        evaluate_models([Fake()], request, progress=lambda what, *_: said.append(what))
        return list(dict.fromkeys(said))

    first = labels(("itc",), tmp_path)
    assert "no earlier run tells" in next(label for label in first if label.startswith(PLAN))
    found = [label for label in first if label.startswith(ESTIMATE)]
    assert all("fake on" in label for label in found)
    assert any("itc: images" in label and "first 3 batches" in label for label in found)
    again = labels(("itc", "itm"), tmp_path)
    plan = next(label for label in again if label.startswith(PLAN))
    assert plan.endswith("less than 10 s at the pace of earlier runs, and itm besides")
    assert not any("itc" in label for label in again if label.startswith(ESTIMATE))
    assert "no earlier run tells" in next(x for x in labels(("itc",), None) if x.startswith(PLAN))
