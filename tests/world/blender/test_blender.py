"""Blender against the ray tracer; most tests are skipped where bpy is not installed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contrapose.world.blender as blender
from contrapose.errors import MissingExtraError
from contrapose.world.blender import BlenderError, BlenderRenderer, require_blender
from contrapose.world.render import render
from contrapose.world.scene import SHAPES, Scene, Thing

needs_blender = pytest.mark.skipif(find_spec("bpy") is None, reason="bpy is not installed")
SIZE = 64


def one_thing(**slots: Any) -> Scene:
    thing = Thing("cube", "red", "rubber", "large", "plain", 0.2, 0.1, 0.4)
    return Scene((replace(thing, **slots),))


@pytest.fixture(scope="module")
def renderer() -> Iterator[BlenderRenderer]:
    with BlenderRenderer(samples=4) as one:
        yield one


def test_a_missing_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blender, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"Python 3.11.*bpy.*\[blender\]"):
        require_blender()
    with pytest.raises(MissingExtraError):
        BlenderRenderer()


@pytest.mark.skipif(find_spec("bpy") is not None, reason="bpy is installed")
def test_a_blender_that_cannot_be_loaded_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blender, "require_blender", lambda: None)
    with pytest.raises(BlenderError, match="No module named 'bpy'"), BlenderRenderer():
        pass


@needs_blender
def test_masks_are_those_of_the_ray_tracer(renderer: BlenderRenderer) -> None:
    things = tuple(
        Thing(shape, "green", "rubber", "medium", "plain", x, y, 0.7 * x)
        for shape, x, y in zip(
            SHAPES[:5], (-1.6, -0.6, 0.5, 1.6, 0.0), (0.5, -0.8, 0.6, -0.5, 1.9), strict=True
        )
    )
    rest = tuple(
        Thing(shape, "green", "rubber", "large", "plain", x, 0.0)
        for shape, x in zip(SHAPES[5:], (-1.2, 1.1), strict=True)
    )
    for scene in (Scene(things), Scene(rest)):
        _, index = renderer.draw(scene, 2 * SIZE, mask=True)
        expected = render([scene], 2 * SIZE).index[0].numpy()
        assert index is not None
        for thing in range(len(scene.things)):
            ours, theirs = index == thing, expected == thing
            assert (ours & theirs).sum() / (ours | theirs).sum() > 0.99


@needs_blender
def test_an_image_depends_on_its_scene_alone(renderer: BlenderRenderer) -> None:
    scene = one_thing(pattern="checkered", material="metal")
    first, none = renderer.draw(scene, SIZE)
    assert none is None
    renderer.draw(one_thing(shape="pill", color="blue"), 2 * SIZE, mask=True)
    again, _ = renderer.draw(scene, SIZE)
    assert np.array_equal(np.asarray(first), np.asarray(again))


@needs_blender
@pytest.mark.parametrize(
    "slots", [{"color": "green"}, {"material": "metal"}, {"pattern": "striped"}]
)
def test_a_changed_slot_is_seen_in_the_thing_alone(
    renderer: BlenderRenderer, slots: dict[str, str]
) -> None:
    one, index = renderer.draw(one_thing(), SIZE, mask=True)
    other, _ = renderer.draw(one_thing(**slots), SIZE)
    assert index is not None
    difference = np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)).max(axis=2)
    inside = index == 0
    assert difference[inside].mean() > 10
    assert difference[~inside].mean() < 2


@needs_blender
def test_colors_are_near_those_of_the_ray_tracer(renderer: BlenderRenderer) -> None:
    scene = one_thing(shape="ball", color="orange")
    image, index = renderer.draw(scene, SIZE, mask=True)
    rendered = render([scene], SIZE)
    assert index is not None
    for region in (index == 0, index == -1):
        ours = np.asarray(image, dtype=float)[region].mean(axis=0)
        theirs = rendered.images[0].numpy().astype(float)[region].mean(axis=0)
        assert np.abs(ours - theirs).max() < 40


@needs_blender
def test_a_process_that_was_killed_is_said() -> None:
    with BlenderRenderer() as one:
        os.kill(one._process.pid, signal.SIGKILL)
        with pytest.raises(BlenderError, match="ended"):
            one.draw(one_thing(), SIZE)


@needs_blender
def test_nothing_is_left_when_the_program_ends(tmp_path: Path) -> None:
    code = (
        "import os; from contrapose.world.blender import BlenderRenderer\n"
        "with BlenderRenderer(): os._exit(9)"  # as if it were killed
    )
    paths = os.pathsep.join(filter(None, sys.path))
    variables = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", code], env=variables, check=False)  # noqa: S603
    for _ in range(200):
        if not any(tmp_path.glob("contrapose-*")):
            break
        time.sleep(0.05)
    assert not any(tmp_path.glob("contrapose-*"))
