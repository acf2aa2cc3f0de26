"""When questions may be sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from contrapose.models.endpoint.client import RateLimit, parse_retry_after


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def paced(rpm: float, chance: float = 1.0) -> tuple[RateLimit, Clock]:
    clock = Clock()
    return RateLimit(rpm, clock, clock.sleep, lambda: chance), clock


def test_a_rate_spaces_questions_evenly() -> None:
    pace, clock = paced(120)
    times = []
    for _ in range(4):
        pace.wait()
        times.append(clock.now)
    assert times == [0, 0.5, 1, 1.5]
    clock.now = 100
    pace.wait()
    assert clock.now == 100  # what was not sent is not saved up, nor made up for
    pace.wait()
    assert clock.now == 100.5


def test_no_rate_no_waiting() -> None:
    pace, clock = paced(0)
    for _ in range(5):
        pace.wait()
    assert clock.slept == []


def test_a_pause_holds_everybody() -> None:
    pace, clock = paced(0)
    pace.hold(7)
    pace.hold(3)
    pace.wait()
    assert clock.now == 7


def test_back_off_doubles_to_a_limit_and_never_repeats_itself() -> None:
    whole, _ = paced(0, chance=1.0)
    half, _ = paced(0, chance=0.0)
    assert [whole.back_off(i) for i in range(4)] == [0.5, 1, 2, 4]
    assert [half.back_off(i) for i in range(4)] == [0.25, 0.5, 1, 2]
    assert whole.back_off(50) == 60


def test_what_a_server_asks_for() -> None:
    assert parse_retry_after("2.5") == 2.5
    for nothing in (None, "", "soon", "-4"):
        assert parse_retry_after(nothing) == 0
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert parse_retry_after(later) == pytest.approx(90, abs=10)
    assert parse_retry_after("Mon, 01 Jan 2001 00:00:00 GMT") == 0
