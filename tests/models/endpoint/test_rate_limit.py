"""When questions may be sent."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from contrapose.models.endpoint.rate_limit import RateLimit, parse_retry_after


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


def test_throttled_requests_of_one_round_count_once() -> None:
    limit, clock = paced(0)
    rounds = [limit.wait() for _ in range(16)]
    counts = []
    for number in rounds:
        limit.leave(number)
        counts.append(limit.throttle(number, 7))
    assert set(counts) == {1}
    times = []
    for _ in range(3):
        number = limit.wait()
        times.append(clock.now)
        limit.leave(number)
    assert times == pytest.approx([7, 7.05, 7.1])
    assert [limit.throttle(number, 3), limit.throttle(number, 5)] == [2, 2]
    number = limit.wait()
    assert clock.now == pytest.approx(12.1)
    limit.succeed()
    limit.leave(number)
    assert limit.throttle(number, 1) == 1


def test_a_round_counts_only_when_all_earlier_requests_are_answered() -> None:
    limit, _ = paced(0)
    accepted, first = limit.wait(), limit.wait()
    limit.leave(first)
    assert limit.throttle(first, 1) == 1
    for _ in range(3):  # the server works on one, and takes no second
        number = limit.wait()
        limit.leave(number)
        assert limit.throttle(number, 1) == 1
    limit.leave(accepted)  # it failed in the end
    number = limit.wait()
    limit.leave(number)
    assert limit.throttle(number, 1) == 2


def test_a_slot_before_a_pause_is_taken_anew() -> None:
    limit, clock = paced(60)
    limit.wait()
    number = limit.wait()
    slept = limit.sleep

    def throttled(seconds: float) -> None:
        limit.sleep = slept
        slept(seconds)
        limit.throttle(number, 30)

    limit.sleep = throttled
    assert limit.wait() == number + 1
    assert clock.now == 1 + 1 + 30


@pytest.mark.parametrize("after", [0.0, 1.0])
@pytest.mark.parametrize("rate", [0.5, 2.0, 50.0])
def test_a_bucket_of_tokens_is_obeyed(rate: float, after: float) -> None:
    """As many requests are answered as the server allows, and few are sent in vain."""
    limit, clock = paced(0)
    tokens, filled, answered, refused, worst = 2.0, 0.0, 0, 0, 0
    while answered < 500:
        number = limit.wait()
        limit.leave(number)
        tokens, filled = min(2.0, tokens + (clock.now - filled) * rate), clock.now
        if tokens >= 1:
            tokens, answered = tokens - 1, answered + 1
            limit.succeed()
        else:
            refused += 1
            worst = max(worst, limit.throttle(number, after))
    assert worst <= 3
    assert refused < 0.15 * answered
    if rate * after <= 2:  # a longer wait than for a token is the server's word
        assert clock.now < 1.6 * answered / rate


def test_back_off_doubles_to_a_limit_and_never_repeats_itself() -> None:
    whole, _ = paced(0, chance=1.0)
    half, _ = paced(0, chance=0.0)
    assert [whole.back_off(i) for i in range(4)] == [0.5, 1, 2, 4]
    assert [half.back_off(i) for i in range(4)] == [0.25, 0.5, 1, 2]
    assert whole.back_off(50) == whole.back_off(5000) == 60


def test_what_a_server_asks_for() -> None:
    assert parse_retry_after("2.5") == 2.5
    for nothing in (None, "", "soon", "-4", "inf", "nan", "9" * 400):
        assert parse_retry_after(nothing) == 0
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert parse_retry_after(later) == pytest.approx(90, abs=10)
    assert parse_retry_after("Mon, 01 Jan 2001 00:00:00 GMT") == 0


def test_the_users_rate_holds_when_the_server_throttles() -> None:
    limit, clock = paced(60)
    times = []
    for _ in range(5):
        number = limit.wait()
        times.append(clock.now)
        clock.now += 0.05
        limit.leave(number)
        limit.throttle(number, 0)
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 1


def test_a_server_that_promises_too_soon_is_waited_for_longer_and_longer() -> None:
    limit, clock = paced(0)
    for _ in range(7):
        number = limit.wait()
        limit.leave(number)
        rounds = limit.throttle(number, 0.001)
    assert rounds == 7
    assert clock.now > 30


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2, 0.3])
def test_a_share_that_is_throttled_at_any_rate_stops_nothing(share: float) -> None:
    """As by one of several machines behind an address: slower requests fare no better."""
    limit, clock = paced(0)
    rng, answered = random.Random(3), 0  # noqa: S311
    while answered < 1000:
        number = limit.wait()
        limit.leave(number)
        clock.now += 0.02
        if rng.random() < share:
            limit.throttle(number, 0)
        else:
            limit.succeed()
            answered += 1
    assert clock.now < 1500
