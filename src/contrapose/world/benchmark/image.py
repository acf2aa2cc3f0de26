"""Lazily rendered scene images, their index maps and region masks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from contrapose.data import Example, ImageRef
from contrapose.errors import InputError
from contrapose.world.scene import Scene

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

SIZE = 96
"""Width and height of a picture, unless another is asked for."""
RENDERER_VERSION = "1"
"""Part of a picture's name; to be raised when the renderer draws the same scene otherwise."""


@dataclass(frozen=True, slots=True)
class SceneImage:
    """Image source that renders a scene on demand, for `ImageRef.source`.

    Attributes:
        scene: what it shows.
        size: its width and height in pixels.
    """

    scene: Scene
    size: int = SIZE

    @property
    def content(self) -> str:
        """Content hash of everything that decides the pixels."""
        whole = f"{RENDERER_VERSION}|{self.size}|{self.scene.to_json()}"
        return hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Render many images, those of one size in one batch."""
        from PIL import Image

        from contrapose.world.render import render

        drawn: dict[int, Image.Image] = {}
        for size in dict.fromkeys(source.size for source in sources):
            places = [i for i, source in enumerate(sources) if source.size == size]
            arrays = render([sources[i].scene for i in places], size).images.numpy()
            drawn.update(
                (i, Image.fromarray(array)) for i, array in zip(places, arrays, strict=True)
            )
        return [drawn[i] for i in range(len(sources))]


def scene_of(ref: ImageRef) -> Scene:
    """The scene behind an image.

    Raises:
        InputError: the image is not drawn from a scene.
    """
    if not isinstance(ref.source, SceneImage):
        raise InputError(f"the image {ref.key} is not drawn from a scene.")
    return ref.source.scene


def index_maps(scenes: Sequence[Scene], size: int = SIZE) -> NDArray[np.int8]:
    """(n, size, size) index of the thing visible in each pixel; −1 for ground and sky."""
    from contrapose.world import render

    found: NDArray[np.int8] = render.index_maps(render.pack(scenes), size).numpy()
    return found


def regions(example: Example, image: int = 0, size: int = SIZE) -> NDArray[np.bool_]:
    """(k, size, size) masks of the visible things of one of an example's images, in scene order.

    `contrapose.world.benchmark.mentioned` says which of them a caption speaks of.

    Raises:
        InputError: the image is not drawn from a scene.
    """
    scene = scene_of(example.images[image])
    index = index_maps([scene], size)[0]
    import numpy as np

    masks: NDArray[np.bool_] = index[None] == np.arange(len(scene.things))[:, None, None]
    return masks
