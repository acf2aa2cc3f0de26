"""A scene as a value: written and read, edited one slot at a time, refused when it cannot be."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.world.scene import (
    COLORS,
    DEPTH_MARGIN,
    FLAT_TOPS,
    OPPOSITE,
    RELATIONS,
    SHAPES,
    SIDE_MARGIN,
    Camera,
    Ground,
    Relation,
    Scene,
    Thing,
    camera_position,
    holds,
    relations_between,
)
from tests.world.captions.strategies import scenes

CUBE = Thing("cube", "red", "metal", "large", "plain", -1.0, 0.5)
BALL = Thing("ball", "blue", "rubber", "small", "striped", 1.5, 0.0)
PILE = Scene(
    (
        BALL,
        CUBE,
        replace(CUBE, shape="cylinder", size="medium", on=1),
        replace(CUBE, shape="cone", size="small", on=2),
    )
)


@given(scenes())
def test_json_round_trip(scene: Scene) -> None:
    text = scene.to_json()
    assert "\n" not in text
    assert Scene.from_json(text) == scene
    assert Scene.from_json(text).to_json() == text


def test_equal_scenes_have_equal_text() -> None:
    whole, signed = (Scene((replace(BALL, x=number),)) for number in (0, -0.0))
    scene = Scene((replace(BALL, x=0.0),))
    assert whole == signed == scene
    assert whole.to_json() == signed.to_json() == scene.to_json()
    assert Scene((BALL,)).to_json() != scene.to_json()


@given(scenes(), st.data())
def test_an_edit_changes_one_slot_alone(scene: Scene, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(scene.things) - 1))
    slot, value = data.draw(
        st.one_of(
            st.tuples(st.just("color"), st.sampled_from(tuple(COLORS))),
            st.tuples(st.just("x"), st.floats(-2, 2)),
        )
    )
    before = asdict(scene)
    after = asdict(scene.edit_thing(index, **{slot: value}))
    assert after["things"][index][slot] == value
    after["things"][index][slot] = before["things"][index][slot]
    assert after == before


def test_heights_add_up_in_a_pile() -> None:
    feet = [PILE.foot(i) for i in range(4)]
    assert feet == pytest.approx([0.0, 0.0, 1.6 * 0.76, 1.6 * 0.76 + 2 * 0.52])
    lower = PILE.edit_thing(1, size="medium")
    assert lower.foot(3) == pytest.approx(1.6 * 0.52 + 2 * 0.52)
    heights = [replace(BALL, size="large", shape=shape).height for shape in ("dome", "pill")]
    assert heights == [0.76, 0.76]


@given(scenes(least=2), st.data())
def test_removing_a_thing_keeps_the_piles(scene: Scene, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(scene.things) - 1))
    if any(thing.on == index for thing in scene.things):
        with pytest.raises(InputError, match="stands on this thing"):
            scene.without(index)
        return
    left = scene.without(index)
    left.check()
    kept = [i for i in range(len(scene.things)) if i != index]
    for new, old in enumerate(kept):
        on = scene.things[old].on
        assert left.things[new] == replace(
            scene.things[old], on=None if on is None else kept.index(on)
        )
        assert left.foot(new) == scene.foot(old)
    assert replace(left, things=()) == replace(scene, things=())


def test_indices_follow_a_removed_thing() -> None:
    assert [thing.on for thing in PILE.without(0).things] == [None, 0, 1]
    assert PILE.without(3).things == PILE.things[:3]


@pytest.mark.parametrize("slot", ["shape", "color", "material", "size", "pattern"])
def test_unknown_words_are_refused(slot: str) -> None:
    with pytest.raises(InputError, match=r"'odd' is not one of \w+, "):
        PILE.edit_thing(3, **{slot: "odd"}).check()


@pytest.mark.parametrize(
    ("scene", "sentence"),
    [
        (Scene(()), "1 to 5 things, not 0"),
        (Scene((BALL,) * 6), "1 to 5 things, not 6"),
        (Scene((BALL, replace(BALL, on=0))), "thing 1 cannot stand on thing 0"),
        (Scene((replace(BALL, on=1), CUBE)), "thing 0 cannot stand on thing 1"),
        (Scene((replace(CUBE, on=0),)), "thing 0 cannot stand on thing 0"),
        (Scene((CUBE, replace(BALL, on=-1))), "thing 1 cannot stand on thing -1"),
        (Scene((replace(BALL, x=float("nan")),)), "must be finite"),
        (Scene((BALL,), Camera(view=float("inf"))), "must be finite"),
        (Scene((BALL,), ground=Ground(tiles=float("nan"))), "must be finite"),
    ],
)
def test_invalid_scenes_are_refused(scene: Scene, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        scene.check()


@pytest.mark.parametrize("shape", SHAPES)
def test_only_flat_things_carry_others(shape: str) -> None:
    scene = Scene((CUBE, replace(BALL, on=0))).edit_thing(0, shape=shape)
    if shape in FLAT_TOPS:
        scene.check()
    else:
        with pytest.raises(InputError, match="cannot stand on"):
            scene.check()


def _set(*place: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(value: Any) -> None:
        for each in place[:-1]:
            value = value[each]
        value[place[-1]] = to

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("things", to=[]),
        _set("things", to=5),
        _set("things", to=["ball"]),
        _set("things", 0, "x", to="far"),
        _set("things", 0, "x", to=None),
        _set("things", 0, "x", to=10**400),
        _set("things", 0, "x", to=float("nan")),
        _set("things", 0, "color", to=["red"]),
        _set("things", 0, "taste", to="sweet"),
        _set("things", 3, "on", to="cube"),
        _set("things", 3, "on", to=0.5),
        _set("camera", to=[]),
        _set("camera", "zoom", to=2.0),
        _set("light", to=None),
        _set("ground", "color", to=[0.5, 0.5]),
        _set("ground", "sky", to="blue"),
        lambda value: value.pop("ground"),
    ],
)
def test_invalid_json_is_refused(change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(PILE.to_json())
    change(value)
    with pytest.raises(InputError):
        Scene.from_json(json.dumps(value))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"scene"', "{}", "[" * 100_000])
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a scene"):
        Scene.from_json(text)


@given(st.text())
def test_any_text_is_a_scene_or_refused(text: str) -> None:
    with pytest.raises(InputError):
        Scene.from_json(text)


THING = Thing("cube", "red", "metal", "large", "plain", 0.0, 0.0)


def two(x: float, y: float, turn: float = 0.0) -> Scene:
    """One thing in the middle, another at (x, y)."""
    return Scene((THING, replace(THING, x=x, y=y)), Camera(turn=turn))


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (0.0, 0.0, ()),
        (SIDE_MARGIN, 0.0, ("left of",)),
        (SIDE_MARGIN - 0.01, 0.0, ()),
        (-SIDE_MARGIN, 0.0, ("right of",)),
        (0.01 - SIDE_MARGIN, 0.0, ()),
        (0.0, DEPTH_MARGIN, ("in front of",)),
        (0.0, DEPTH_MARGIN - 0.01, ()),
        (0.0, -DEPTH_MARGIN, ("behind",)),
        (0.0, 0.01 - DEPTH_MARGIN, ()),
        (1.0, -1.0, ("left of", "behind")),
    ],
)
def test_margins(x: float, y: float, expected: tuple[Relation, ...]) -> None:
    assert relations_between(two(x, y), 0, 1) == expected


@given(scenes(least=2))
def test_opposites(scene: Scene) -> None:
    count = len(scene.things)
    for first in range(count):
        for second in range(count):
            for relation in RELATIONS:
                if first != second and holds(scene, first, relation, second):
                    assert not holds(scene, first, OPPOSITE[relation], second)
                    assert holds(scene, second, OPPOSITE[relation], first)


@given(scenes())
def test_nothing_stands_in_a_relation_to_itself(scene: Scene) -> None:
    assert all(relations_between(scene, i, i) == () for i in range(len(scene.things)))


def test_opposite_is_its_own_inverse() -> None:
    assert set(OPPOSITE) == set(RELATIONS)
    assert all(OPPOSITE[other] == each != other for each, other in OPPOSITE.items())


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (0.0, ("left of",)),
        (math.pi / 2, ("behind",)),
        (math.pi, ("right of",)),
        (-math.pi / 2, ("in front of",)),
    ],
)
def test_the_camera_decides(turn: float, expected: tuple[Relation, ...]) -> None:
    assert relations_between(two(1.0, 0.0, turn), 0, 1) == expected


def test_a_small_turn_can_bring_doubt() -> None:
    """At the margin straight ahead, and within it when the camera has gone around a little."""
    assert holds(two(0.8, 0.0), 0, "left of", 1)
    assert not holds(two(0.8, 0.0, 0.5), 0, "left of", 1)
    assert holds(two(0.8, 0.5, 0.5), 0, "left of", 1)


@given(scenes())
def test_camera_axes_keep_distances(scene: Scene) -> None:
    for i, thing in enumerate(scene.things):
        assert math.hypot(*camera_position(scene, i)) == pytest.approx(math.hypot(thing.x, thing.y))


def test_piles() -> None:
    """Neighbors in a pile are on and under each other; beyond that nothing is said within it."""
    scene = Scene(
        (
            THING,
            replace(THING, on=0),
            replace(THING, shape="ball", on=1),
            replace(THING, x=2.0, y=0.0),
        )
    )
    assert relations_between(scene, 1, 0) == ("on top of",)
    assert relations_between(scene, 0, 1) == ("under",)
    assert relations_between(scene, 2, 1) == ("on top of",)
    assert relations_between(scene, 2, 0) == ()
    assert [relations_between(scene, i, 3) for i in range(3)] == [("left of",)] * 3


def test_things_of_one_pile_are_never_beside_each_other() -> None:
    """Even where their places differ, as after an edit."""
    scene = Scene((THING, replace(THING, on=0, x=2.0, y=2.0)))
    assert relations_between(scene, 1, 0) == ("on top of",)
