"""Rendering engines of scenes: the built-in ray tracer, and Blender."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

from contrapose.world.benchmark.annotations import RENDERER_VERSION
from contrapose.world.blender import BlenderRenderer, require_blender
from contrapose.world.scene import Scene

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

Engine = Literal["raytracer", "blender"]
ENGINES: tuple[Engine, ...] = ("raytracer", "blender")

Drawing = tuple["Image", "NDArray[np.int8] | None"]
"""An image, and the index of the thing seen in each pixel (−1 for none) where that was asked."""


class SceneEngine(Protocol):
    """Engine that renders scenes.

    Attributes:
        name: its name.
        batch: scenes that it renders at a time.
    """

    name: Engine
    batch: int

    @property
    def version(self) -> str:
        """Version: with another one images may have other pixels."""
        ...

    def draw_scenes(self, scenes: Sequence[Scene], size: int, *, masks: bool) -> list[Drawing]:
        """Render scenes, `size` pixels wide and high."""
        ...


class RayTracer:
    """The built-in ray tracer, as an engine."""

    name: Engine = "raytracer"
    batch = 128
    version = RENDERER_VERSION

    def draw_scenes(self, scenes: Sequence[Scene], size: int, *, masks: bool) -> list[Drawing]:
        """Render scenes in one batch."""
        from PIL import Image

        from contrapose.world.render import render

        rendered = render(scenes, size)
        images = [Image.fromarray(array) for array in rendered.images.numpy()]
        indices = rendered.index.numpy() if masks else [None] * len(images)
        return list(zip(images, indices, strict=True))


class BlenderEngine:
    """Blender in a process of its own, as an engine."""

    name: Engine = "blender"
    batch = 4

    def __init__(self, renderer: BlenderRenderer):
        self.renderer = renderer

    @property
    def version(self) -> str:
        """Blender's version and the light paths per pixel."""
        return f"{self.renderer.version}, {self.renderer.samples} samples"

    def draw_scenes(self, scenes: Sequence[Scene], size: int, *, masks: bool) -> list[Drawing]:
        """Render scenes, one after another."""
        return [self.renderer.draw(scene, size, mask=masks) for scene in scenes]


def require_engine(engine: Engine) -> None:
    """Require what an engine needs, before any work.

    Raises:
        MissingExtraError: Blender is not installed.
    """
    if engine == "blender":
        require_blender()


@contextmanager
def open_engine(engine: Engine) -> Iterator[SceneEngine]:
    """Open a rendering engine.

    Raises:
        MissingExtraError: Blender is not installed.
        BlenderError: Blender cannot be started.
    """
    if engine == "raytracer":
        yield RayTracer()
        return
    with BlenderRenderer() as renderer:
        yield BlenderEngine(renderer)
