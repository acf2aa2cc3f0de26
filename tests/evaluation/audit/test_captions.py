"""Which examples a blind score can solve at all."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.data import Example, ImageRef
from contrapose.errors import InputError
from contrapose.evaluation.audit.captions import collect_captions, is_solvable
from contrapose.evaluation.selection import select
from contrapose.metrics import text_score
from contrapose.scores import build_frame
from tests.evaluation.audit import benchmarks

rows = st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=3)


@given(rows)
def test_solvable_is_what_some_order_of_the_captions_solves(match: list[list[bool]]) -> None:
    images = tuple(ImageRef(f"{i}.png", Path(f"{i}.png")) for i in range(len(match)))
    example = Example("x", images, ("a", "b", "c"), tuple(map(tuple, match)))
    frame = build_frame([example])
    if not any(any(row) and not all(row) for row in match):
        assert not is_solvable(frame)[0]
        return
    won = [
        text_score(np.tile(np.array(order, float), (1, len(match), 1)), frame.match).values[0]
        for order in permutations(range(3))
    ]
    assert is_solvable(frame)[0] == (max(won) == 1)


def test_captions_are_laid_where_they_came_from(tmp_path: Path) -> None:
    selection = select(str(benchmarks.longer_is_wrong(tmp_path / "a.jsonl")))
    captions, balanced = collect_captions(selection)
    assert balanced == ()
    laid = captions.by_part(np.arange(len(captions.distinct), dtype=float))[""]
    frame = captions.frames[""]
    for example, texts in zip(laid, frame.texts or (), strict=True):
        assert [captions.distinct[int(i)] for i in example] == list(texts)


def test_captions_that_change_places_are_balanced(tmp_path: Path) -> None:
    file = str(benchmarks.winograd(tmp_path / "w.jsonl"))
    captions, balanced = collect_captions(select(file))
    assert balanced == (file,)
    assert captions.distinct == ()


def test_galleries_have_nothing_to_audit(tmp_path: Path) -> None:
    selection = select("scenes", subsets=("gallery",), limit=2)
    with pytest.raises(InputError, match="no choice among a few captions"):
        collect_captions(selection)


def test_pairs_judged_one_by_one_have_nothing_to_audit(tmp_path: Path) -> None:
    file = tmp_path / "yes.jsonl"
    rows = [{"images": ["a.png"], "texts": [f"a cat {i}"], "label": i % 2} for i in range(4)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(InputError, match="no choice among a few captions"):
        collect_captions(select(str(file)))
