"""Random scenes for the caption tests: few things, often alike, sometimes piled up."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from contrapose.world.scene import (
    COLORS,
    FLAT_TOPS,
    MATERIALS,
    PATTERNS,
    SHAPES,
    SIZES,
    Camera,
    Scene,
    Thing,
)

_places = st.floats(-2.5, 2.5, allow_nan=False)


@st.composite
def scenes(draw: st.DrawFn, least: int = 1) -> Scene:
    things: list[Thing] = []
    for index in range(draw(st.integers(least, 5))):
        thing = Thing(
            draw(st.sampled_from(SHAPES)),
            draw(st.sampled_from(tuple(COLORS))),
            draw(st.sampled_from(MATERIALS)),
            draw(st.sampled_from(tuple(SIZES))),
            draw(st.sampled_from(PATTERNS)),
            draw(_places),
            draw(_places),
        )
        if draw(st.booleans()) and things:
            alike = draw(st.sampled_from(things))
            thing = replace(thing, shape=alike.shape, size=alike.size, material=alike.material)
            if draw(st.booleans()):
                thing = replace(thing, color=alike.color, pattern=alike.pattern)
        free = [
            i
            for i in range(index)
            if things[i].shape in FLAT_TOPS and all(other.on != i for other in things)
        ]
        if draw(st.booleans()) and free:
            below = draw(st.sampled_from(free))
            thing = replace(thing, x=things[below].x, y=things[below].y, on=below)
        things.append(thing)
    return Scene(tuple(things), Camera(turn=draw(st.floats(-0.4, 0.4))))


seeds = st.integers(0, 2**32 - 1)
