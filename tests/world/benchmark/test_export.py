from __future__ import annotations

import pytest

from contrapose.world.benchmark.export import lay_out
from contrapose.world.benchmark.suite import part_data


@pytest.mark.parametrize(
    ("part", "reader"),
    [
        ("location", "eqben"),
        ("swap-relation", "sugarcrepe"),
        ("order", "examples.jsonl"),
        ("hard-positives", "hard-positives-replace"),
    ],
)
def test_the_shape_of_examples_decides_the_layout(part: str, reader: str) -> None:
    assert lay_out(part, part_data(part, "balanced", 2, 0, 32)).reader == reader
