"""Rate limit of an endpoint: the user's, and the one that the server's responses teach."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
MOST_DOUBLINGS = 10
"""Doublings of the first pause after which it is longer than the longest one."""
FIRST_GAP = 0.05
"""Seconds between requests after the first response that throttles."""
LEAST_GAP = 0.001
"""Seconds between requests below which they follow each other at once."""
SLOWER, FASTER = 1.5, 0.97
"""Factors of the gap after a throttled round and after a success: 7 % of requests are throttled."""

WINDOW = 16
"""Answers and throttled rounds after which the pace is measured."""
MOST_SLOWED = 3
"""How many times slower than the best pace requests may become while the server throttles."""


@dataclass(slots=True)
class PaceCheck:
    """Check whether a wider gap between requests helps.

    A server that allows so many requests a minute answers as many of them whatever the gap. One
    that throttles a share of all requests, such as one of several machines behind an address,
    answers fewer and throttles as many: then no gap is tried again.
    """

    _begin: float = 0.0
    _answered: int = 0
    _throttled: int = 0
    _best: float = 0.0
    _trying: bool = True

    def count(self, now: float, gap: float, *, answered: bool) -> float:
        """Count an answer or a throttled round; return the gap from here on."""
        if not self._answered + self._throttled:
            self._begin = now
        self._answered += answered
        self._throttled += not answered
        seconds = max(now - self._begin, 1e-6)
        pace = self._answered / seconds
        enough = self._answered + self._throttled >= WINDOW
        if self._trying or pace * MOST_SLOWED >= self._best or not self._throttled:
            if enough:
                self._best = pace if self._trying else max(pace, self._best)
                self._trying = False
                self._answered = self._throttled = 0
        elif enough or seconds * self._best >= WINDOW:
            self._trying = True
            self._answered = self._throttled = 0
            return 0.0
        return gap


@dataclass(slots=True)
class RateLimit:
    """Rate limit shared by all threads that send requests.

    A server that throttles widens the gap between requests, and every success narrows it, so that
    requests come as fast as the server takes them. Throttled responses to requests of one round,
    which were sent before all were slowed down, count once.

    Attributes:
        rpm: requests per minute; 0 for no limit.
        clock: monotonic time in seconds.
        sleep: sleeps for so many seconds.
        chance: random number in [0, 1) for jitter.
        successes: number of requests that succeeded.
    """

    rpm: float = 0.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    chance: Callable[[], float] = random.random
    successes: int = 0
    _free: float = 0.0
    _sent: float = -math.inf
    _gap: float = 0.0
    _round: int = 0
    _throttled: int = 0
    _in_flight: list[int] = field(default_factory=list)
    _pace: PaceCheck = field(default_factory=PaceCheck)
    _lock: Lock = field(default_factory=Lock)

    def wait(self) -> int:
        """Wait for the next free slot and take it; return the number of its round.

        A slot that was taken before all requests were slowed down is taken anew. `leave` ends it.
        """
        while True:
            with self._lock:
                now, number = self.clock(), self._round
                turn = max(self._free, now)
                self._free = turn + max(self._least_gap(), self._gap)
            if turn > now:
                self.sleep(turn - now)
            with self._lock:
                if number == self._round:
                    self._sent = max(self._sent, turn)
                    self._in_flight.append(number)
                    return number

    def leave(self, number: int) -> None:
        """End a request of a round, whatever came of it."""
        with self._lock:
            self._in_flight.remove(number)

    def succeed(self) -> None:
        """Count a success, and let requests follow each other faster."""
        with self._lock:
            self.successes += 1
            self._throttled = 0
            self._gap = self._gap * FASTER if self._gap > LEAST_GAP else 0.0
            self._gap = self._pace.count(self.clock(), self._gap, answered=True)

    def throttle(self, number: int, after: float) -> int:
        """Slow all requests down after a response that asks for it.

        Args:
            number: the round of the request, which has ended.
            after: seconds that the server asks to wait; 0 where it says none.

        Returns:
            The number of throttled rounds in a row, without a success; one in which a request of an
            earlier round is still in flight, which may become a success, does not count.
        """
        with self._lock:
            free = self.clock() + after
            if number == self._round:
                self._round += 1
                self._gap = min(max(self._gap * SLOWER, FIRST_GAP), LONGEST_PAUSE)
                self._gap = self._pace.count(self.clock(), self._gap, answered=False)
                self._throttled += all(other == number for other in self._in_flight)
                again = self._throttled - 1
                pause = max(after, self.back_off(again) if again > 0 else self._gap)
                free = self._free = max(self.clock() + pause, self._sent + self._least_gap())
            self._free = max(self._free, free)
            return self._throttled

    def back_off(self, tried: int) -> float:
        """Exponential back-off with jitter, in seconds."""
        pause = min(FIRST_PAUSE * 2.0 ** min(tried, MOST_DOUBLINGS), LONGEST_PAUSE)
        return pause * (0.5 + 0.5 * self.chance())

    def _least_gap(self) -> float:
        """Seconds between requests by the user's limit."""
        return 60.0 / self.rpm if self.rpm else 0.0


def parse_retry_after(value: str | None) -> float:
    """Seconds of a Retry-After header, given as a number or a date; 0 for none."""
    if not value:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        pass
    else:
        return seconds if 0 < seconds < float("inf") else 0.0
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
