from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from contrapose.errors import InputError
from contrapose.tune.settings import Settings, learning_rate_factor


def test_the_rate_rises_and_falls() -> None:
    settings = Settings(steps=100, warm=0.1)
    rates = [settings.learning_rate_factor(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert all(one > other for one, other in pairwise(rates[10:]))
    assert rates[55] == pytest.approx(0.5)
    assert rates[99] < 0.001


def test_without_warm_up() -> None:
    assert Settings(steps=1, warm=0.0).learning_rate_factor(0) == 1.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"batch": 1}, "batch must be at least 2"),
        ({"rate": 0.0}, "learning rate"),
        ({"rate": float("nan")}, "learning rate"),
        ({"ema": 1.0}, "running mean"),
        ({"lora": 0}, "rank"),
        ({"warm": 1.0}, "warm-up"),
        ({"freeze": ("image", "text")}, "nothing to teach"),
        ({"batch": 4, "pieces": 5}, "cannot be cut"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Settings(**changes)


@pytest.mark.parametrize(
    ("step", "gone", "expected"),
    [
        (0, 0.0, 0.1),
        (4, 0.0, 0.5),
        (9, 0.0, 1.0),
        (10, 0.0, 1.0),
        (60, 0.0, 0.5),
        (110, 0.0, 0.0),
        (200, 0.0, 0.0),
        (35, 0.0, 0.5 + math.sqrt(0.125)),
        (35, 0.5, 0.5),
        (60, 0.2, 0.5),
        (10, 1.0, 0.0),
        (10, 3.0, 0.0),
    ],
)
def test_schedule_with_a_time_limit(step: int, gone: float, expected: float) -> None:
    assert learning_rate_factor(step, 110, 10, gone) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("warm", [0, 5, 50])
def test_rates_are_never_negative(warm: int) -> None:
    rates = [learning_rate_factor(step, 50, warm) for step in range(50)]
    assert min(rates) > 0
    assert max(rates) <= 1
