from __future__ import annotations

from contrapose.data.groups import Groups
from contrapose.world.benchmark import groups_of, scene_groups


def said(text: str, groups: Groups) -> dict[str, list[str]]:
    return {name: [text[a:b] for a, b in spans] for name, spans in groups.items()}


def test_captions_of_the_world_are_read_by_their_grammar() -> None:
    text = "a striped ball in front of a cyan metallic pyramid"
    assert said(text, groups_of(text)) == {
        "O": ["ball", "pyramid"],
        "R": ["in front of"],
        "A": ["striped", "cyan", "metallic"],
    }
    shuffled = "ball cyan a striped pyramid"
    assert said(shuffled, scene_groups(shuffled)) == {
        "O": ["ball", "pyramid"],
        "A": ["cyan", "striped"],
    }


def test_others_by_their_parts_of_speech() -> None:
    text = "a small dog sits on two red chairs"
    assert said(text, groups_of(text)) == {
        "O": ["dog", "chairs"],
        "R": ["sits", "on"],
        "A": ["small", "two", "red"],
    }
