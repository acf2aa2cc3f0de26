from __future__ import annotations

import json

import numpy as np
import pytest

from contrapose import metrics
from contrapose.errors import InputError
from contrapose.tune.bill import Line, bill


def line(name: str, values: list[float], **more: object) -> Line:
    return Line(name, np.array(values, dtype=np.float64), **more)  # type: ignore[arg-type]


def test_verdicts() -> None:
    k = 60
    random = np.random.default_rng(0)
    noise = random.normal(size=k)
    before = {
        "up": line("up", [0.0] * k),
        "down": line("down", [1.0] * k),
        "brittle": line("brittle", [0.0] * k, better="lower"),
        "still": line("still", [0.0, 1.0] * (k // 2)),
        "score": line("score", noise.tolist(), binary=False),
    }
    after = {
        "up": line("up", [1.0] * k),
        "down": line("down", [0.0] * k),
        "brittle": line("brittle", [1.0] * k, better="lower"),
        "still": line("still", [1.0, 0.0] * (k // 2)),
        "score": line("score", (noise + 1).tolist(), binary=False),
    }
    found = bill(before, after, model="m", objective="hn", source="here")
    assert {item.name: item.verdict for item in found.items} == {
        "up": "better", "down": "worse", "brittle": "worse", "still": "no evidence",
        "score": "better",
    }  # fmt: skip
    assert found.item("up").test == "mcnemar-midp"
    assert found.item("score").test == "paired-bootstrap"
    assert found.item("score").difference == pytest.approx(1.0)
    written = json.loads(json.dumps(found.as_dict()))
    assert written["items"][1]["difference"] == -1.0


def test_the_correction_counts_all_items() -> None:
    before = {str(i): line(str(i), [0.0] * 12) for i in range(8)}
    after = {str(i): line(str(i), [1.0] * (6 if i == 0 else 0) + [0.0] * (6 if i == 0 else 12))
             for i in range(8)}  # fmt: skip
    item = bill(before, after).item("0")
    plain = metrics.mcnemar([0] * 12, [1] * 6 + [0] * 6, method="midp").p
    assert item.p == plain < 0.05
    assert item.p_holm == pytest.approx(min(1.0, 8 * plain))
    assert item.verdict == "no evidence"


def test_pictures_that_repeat_are_drawn_together() -> None:
    clusters = np.repeat(np.arange(3), 20)
    values = np.repeat([0.0, 0.0, 1.0], 20).tolist()
    found = bill(
        {"a": line("a", [0.0] * 60, clusters=clusters)}, {"a": line("a", values, clusters=clusters)}
    )
    assert found.item("a").test == "too few"
    assert found.item("a").verdict == "no evidence"
    many = np.repeat(np.arange(30), 2)
    one, other = (line("a", [v] * 60, clusters=many) for v in (0.0, 1.0))
    assert bill({"a": one}, {"a": other}).item("a").test == "paired-bootstrap"
    assert bill({"a": one}, {"a": other}).item("a").verdict == "better"


def test_other_examples_are_refused() -> None:
    with pytest.raises(InputError, match="same examples"):
        bill({"a": line("a", [1.0])}, {"a": line("a", [1.0, 0.0])})
    with pytest.raises(InputError, match="same examples"):
        bill({"a": line("a", [1.0])}, {})
