from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.build.video.graph import (
    GraphObject,
    choose_frames,
    describe_object,
    differ,
    pair_graph,
    parse_template,
    read_graph,
)
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems


def thing(number: int, attention: str, spatial: str, contact: str) -> GraphObject:
    return GraphObject(
        "a.mp4", f"{number:06d}", number, "pillow",
        *(frozenset(text.split()) for text in (attention, spatial, contact)),
    )  # fmt: skip


def entry(**fields: Any) -> dict[str, Any]:
    return {
        "class": "pillow",
        "bbox": [1, 2, 3, 4],
        "visible": True,
        "attention_relationship": ["looking_at"],
        "spatial_relationship": ["behind"],
        "contacting_relationship": ["carrying"],
        "metadata": {"tag": "a.mp4/pillow/000001", "set": "train"},
        **fields,
    }


def write(path: Path, frames: object) -> Path:
    path.write_text(json.dumps(frames), encoding="utf-8")
    return path


def test_caption_is_the_papers() -> None:
    caption = describe_object(thing(1, "looking_at", "behind", "carrying"))
    assert caption == "The person is carrying the pillow which is behind him/her."
    caption = describe_object(thing(1, "not_looking_at", "in_front_of", "not_contacting"))
    assert caption == "The person is not looking at the pillow which is in front of him/her."


def test_caption_of_several_relationships() -> None:
    both = thing(1, "unsure", "in beneath", "holding touching")
    text = "The person is holding and touching the pillow which is beneath and around him/her."
    assert describe_object(both) == text
    assert describe_object(thing(1, "unsure", "in", "not_contacting")) is None


def test_template() -> None:
    template = parse_template("a {object} is {spatial} a ball")
    assert describe_object(thing(1, "", "behind", ""), template) == "a pillow is behind a ball"
    for wrong in (
        "no slot", "{unknown}", "{object.__class__}", "{object[0]}", "{0}", "{}", "{object",
        "{object!r}", "{object:>99999999}",
    ):  # fmt: skip
        with pytest.raises(InputError, match="template"):
            parse_template(wrong)


def test_two_of_three_relationships() -> None:
    first = thing(1, "looking_at", "behind", "holding")
    assert differ(first, thing(2, "not_looking_at", "above", "holding"))
    assert differ(first, thing(2, "not_looking_at", "above", "touching"))
    assert not differ(first, thing(2, "looking_at", "above", "holding"))
    # the caption of one would still be true of the other
    assert not differ(first, thing(2, "not_looking_at", "behind above", "holding touching"))


@settings(max_examples=60, deadline=None)
@given(
    states=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("cd"), st.sampled_from("ef")),
        max_size=12,
    )
)
def test_the_frame_after_a_chosen_one_is_skipped(states: list[tuple[str, str, str]]) -> None:
    things = [thing(i + 1, *state) for i, state in enumerate(states)]
    pairs = [(a.number, b.number) for a, b in choose_frames(things)]
    assert all(differ(things[a - 1], things[b - 1]) and a < b for a, b in pairs)
    by_first: dict[int, list[int]] = {}
    for a, b in pairs:
        by_first.setdefault(a, []).append(b)
    for seconds in by_first.values():
        assert all(later - earlier > 1 for earlier, later in pairwise(seconds))
    firsts = sorted(by_first)
    assert all(later - earlier > 1 for earlier, later in pairwise(firsts))
    # no pair that the rule allows is missing
    if things and any(differ(things[0], other) for other in things[1:]):
        first = next(o.number for o in things[1:] if differ(things[0], o))
        assert by_first[1][0] == first


def test_read_and_pair(tmp_path: Path) -> None:
    other = entry(attention_relationship=["not_looking_at"], spatial_relationship=["above"])
    frames = {
        "a.mp4/000001.png": [entry(), entry(**{"class": "cup/glass/bottle", "visible": False})],
        "a.mp4/000009.png": [other, entry(**{"class": "cup/glass/bottle"})],
        "a.mp4/000017.png": [other | {"contacting_relationship": None}],
        "b.mp4/000001.png": [entry(spatial_relationship=None)],
    }
    objects, counts = read_graph(write(tmp_path / "g.json", frames), StrictProblems())
    assert counts == {
        "frames": 4, "objects": 6, "visible objects": 5, "objects with relationships": 4,
    }  # fmt: skip
    candidates = pair_graph(objects)
    pairs, before = candidates["a.mp4"]
    assert before == {"two of three relationships differ": 1, "different captions": 1}
    (pair,) = pairs
    assert [moment.key for moment in pair.moments] == ["000001", "000009"]
    assert [moment.number for moment in pair.moments] == [0, 8]
    assert pair.group == ("pillow",)


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ({}, "no frames"),
        ({"a.mp4/000001.png": []}, "no relationship"),
        ({"a.mp4/000001.png": [entry(visible=False)]}, "no relationship"),
        ({"a.mp4": []}, "VIDEO/NUMBER"),
        ({"a.mp4/x.png": []}, "VIDEO/NUMBER"),
        ({"a.mp4/000000.png": []}, "VIDEO/NUMBER"),
        ({"a.mp4/000001.png": {}}, "list of objects"),
        ({"a.mp4/000001.png": [3]}, "expected an object"),
        ({"a.mp4/000001.png": [{"bbox": None}]}, "class"),
        ({"a.mp4/000001.png": [entry(spatial_relationship=3)]}, "list of texts"),
    ],
)
def test_wrong_graphs(tmp_path: Path, frames: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_graph(write(tmp_path / "g.json", frames), StrictProblems())


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "object_bbox_and_relationship.pkl"
    path.write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(InputError, match="pickle"):
        read_graph(path, ProblemList())
