"""Plain records give what the careful reader gives, and all others are left to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.data import Example
from contrapose.data.benchmarks import own
from contrapose.data.benchmarks.plain import Plain
from contrapose.files import Collected, Record

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", " ", "a", "é", "\ud800", 0, 1, 2, -1, 0.0, True, [], ["a"], ["a", ""], ["a", 1],
     ["a", "b", "c"], ["../x"], ["/x"], {}, {"s": "t"}, {"s": ""}, {"s": 3}, {"s": ["t"]},
     [[True, False]], [[1, 0]], [[False, False]], [[True], [False]], [[0.0, 1.0]], [["x", 1]],
     [[[]]], '["a", "b"]']
)  # fmt: skip
USUAL: dict[str, Any] = {
    "id": st.sampled_from(["7", "x y"]),
    "images": st.sampled_from([["a.png"], ["a.png", "b/c.png"]]),
    "texts": st.sampled_from([["a", "b"], ["a b", "c", "d"]]),
    "right": st.sampled_from([0, 1]),
    "match": st.sampled_from([[[True, False], [False, True]], [[False, True]]]),
    "tags": st.sampled_from([{}, {"subset": "x", "kind": "y"}]),
}
FIELDS = (*USUAL, "image", "text_0", "tag_a", "other")


@st.composite
def records(draw: st.DrawFn) -> Any:
    names = draw(st.lists(st.sampled_from(FIELDS), unique=True, max_size=7))
    names += [name for name in ("images", "texts", "right") if draw(st.integers(0, 9))]
    return {
        name: draw(USUAL[name] if name in USUAL and draw(st.integers(0, 3)) else ODD)
        for name in names
    }


def read(value: Any, folder: Path) -> tuple[list[Example], list[str]]:
    problems = Collected()
    record = Record(value, folder / "f.jsonl", 1, "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "table_records", lambda *_: iter([record]))
        found = list(own._examples(folder / "f.jsonl", folder, problems))
    return found, [problem.message for problem in problems.found]


@settings(max_examples=400, deadline=None)
@given(records() | ODD)
def test_as_the_careful_reader(value: Any) -> None:
    folder = Path("folder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plain, "example", lambda self, record: None)
        careful = read(value, folder)
    assert read(value, folder) == careful
    quick = Plain(folder).example(Record(value, folder / "f.jsonl", 1, "0"))
    assert quick is None or ([quick], []) == careful


@pytest.mark.parametrize("more", [{"right": 0}, {"match": [[True, False]]},
                                  {"right": 1, "tags": {"subset": "x"}}])  # fmt: skip
def test_the_usual_is_plain(more: dict[str, Any]) -> None:
    plain = Plain(Path("folder"))
    value = json.loads(json.dumps({"images": ["a.png"], "texts": ["a", "b"], **more}))
    first, second = (plain.example(Record(value, Path("f"), i, str(i))) for i in (1, 2))
    assert first is not None
    assert second is not None
    assert first.images is second.images
    assert first.match is second.match
