from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from contrapose.errors import InputError
from contrapose.tune.guard import Guard, parse_guards
from contrapose.tune.report.measurement import Line


class Fake:
    """Measures what it is told to."""

    def __init__(self, *values: float, better: Any = "higher"):
        self.values, self.better = list(values), better

    def measure(self, model: Any) -> dict[str, Line]:
        return lines(self.values.pop(0), self.better)


def lines(value: float, better: Any = "higher") -> dict[str, Line]:
    return {"swaps": Line("swaps", np.array([value]), better)}


def guard(fake: Fake, before: float, drop: float | None, best: str | None = None) -> Guard:
    drops = {} if drop is None else {"swaps": drop}
    measurer: Any = fake
    model: Any = None
    return Guard(measurer, model, lines(before, fake.better), drops, best)


def test_it_stops_when_too_much_is_lost() -> None:
    it = guard(Fake(0.75, 0.79, 0.6), 0.8, 0.1)
    assert it(1) == ("", False)
    assert it(2) == ("", False)
    why, best = it(3)
    assert "swaps went from 0.800 to 0.600 by step 3" in why
    assert not best


def test_lower_may_be_better() -> None:
    it = guard(Fake(0.1, 0.6, better="lower"), 0.3, 0.1)
    assert it(1)[0] == ""
    assert it(2)[0]


def test_the_best_is_known() -> None:
    it = guard(Fake(0.5, 0.7, 0.6, 0.7, 0.8), 0.4, None, "swaps")
    assert [it(step)[1] for step in range(5)] == [True, True, False, False, True]
    low = guard(Fake(0.5, 0.3, 0.4, better="lower"), 0.4, None, "swaps")
    assert [low(step)[1] for step in range(3)] == [True, True, False]


def test_unknown_measures() -> None:
    with pytest.raises(InputError, match="did you mean swaps"):
        Guard(None, None, lines(1.0), {"swap": 0.1})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no measure 'group'"):
        Guard(None, None, lines(1.0), {}, "group")  # type: ignore[arg-type]


def test_how_guards_are_written() -> None:
    assert parse_guards(["swaps=0.02", "naming = 0"]) == {"swaps": 0.02, "naming": 0.0}
    for wrong in ("swaps", "swaps=", "swaps=x", "swaps=-1", "swaps=nan"):
        with pytest.raises(InputError, match="METRIC=DROP"):
            parse_guards([wrong])
