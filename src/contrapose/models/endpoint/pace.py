"""When the next question may be sent: a rate, pauses that the server asks for, and back-off."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class Pace:
    """Times of sending, shared by all threads that send.

    Attributes:
        rpm: questions a minute; 0 for no limit.
        clock: seconds that never go back.
        sleep: waits so many seconds.
        chance: a number in [0, 1), which keeps many clients from coming back at once.
    """

    rpm: float = 0.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    chance: Callable[[], float] = random.random
    _free: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def wait(self) -> None:
        """Wait for one's turn, and take it."""
        with self._lock:
            now = self.clock()
            turn = max(self._free, now)
            self._free = turn + (60.0 / self.rpm if self.rpm else 0.0)
        if turn > now:
            self.sleep(turn - now)

    def hold(self, seconds: float) -> None:
        """Let nobody send for so long."""
        with self._lock:
            self._free = max(self._free, self.clock() + seconds)

    def back_off(self, tried: int) -> float:
        """Seconds until the next try: twice as long each time, and never quite the same."""
        whole = min(FIRST_PAUSE * 2.0**tried, LONGEST_PAUSE)
        return whole * (0.5 + 0.5 * self.chance())


def retry_after(value: str | None) -> float:
    """Seconds that a Retry-After header asks for, as a number or as a date; 0 for none."""
    if not value:
        return 0.0
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
