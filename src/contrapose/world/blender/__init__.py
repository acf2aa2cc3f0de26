"""Renderer of scenes by Blender's path tracer Cycles: the same values as the ray tracer takes.

    with BlenderRenderer() as renderer:
        image, index = renderer.draw(scene, 224, mask=True)

The package `bpy` is Blender as a Python module; it runs in a process of its own. An image depends
on its scene, the size, the samples and Blender's version.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from contrapose.errors import ContraposeError, MissingExtraError
from contrapose.world.blender.worker import MASK_STEP
from contrapose.world.scene import Scene

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

SAMPLES = 32
"""Light paths per pixel; a denoiser takes away the noise that they leave."""


class BlenderError(ContraposeError):
    """Blender failed, or its process ended."""


def require_blender() -> None:
    """Require the package `bpy`, without loading it.

    Raises:
        MissingExtraError: it is not installed.
    """
    if find_spec("bpy") is None:
        raise MissingExtraError(
            "bpy", "blender", "Rendering with Blender (there are packages for Python 3.11 only)"
        )


class BlenderRenderer:
    """Blender in a process of its own, which renders one scene at a time.

    Attributes:
        samples: light paths per pixel.
        version: Blender's version.
    """

    def __init__(self, samples: int = SAMPLES):
        require_blender()
        self.samples = samples
        self.version = ""
        self._folder = tempfile.TemporaryDirectory(prefix="contrapose-blender-")
        self._log: IO[bytes] = (Path(self._folder.name) / "log.txt").open("w+b")
        self._process = subprocess.Popen(  # noqa: S603 - this program
            [sys.executable, "-m", "contrapose.world.blender.worker", self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def __enter__(self) -> Self:
        try:
            self.version = str(self._read_answer()["version"])
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and remove its files."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process.terminate()  # also in the midst of an image
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()
        self._folder.cleanup()

    def draw(
        self, scene: Scene, size: int, *, mask: bool = False
    ) -> tuple[Image, NDArray[np.int8] | None]:
        """Render a scene.

        Args:
            scene: the scene.
            size: width and height in pixels.
            mask: also render which thing is seen through the middle of each pixel.

        Returns:
            The image, and (size, size) index of the thing in each pixel, −1 for ground and sky;
            None without `mask`.

        Raises:
            BlenderError: Blender failed.
        """
        folder = Path(self._folder.name)
        files = {"image": str(folder / "image.png")}
        if mask:
            files["mask"] = str(folder / "mask.png")
        self._ask({"scene": scene.to_json(), "size": size, "samples": self.samples, **files})
        image = _open_copy(files["image"])
        return image, _decode_mask(_open_copy(files["mask"])) if mask else None

    def _ask(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was opened as a pipe
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None
        self._read_answer()

    def _read_answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - it was opened as a pipe
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BlenderError(f"Blender failed ({answer['error']}).")
        return answer

    def _ended(self) -> BlenderError:
        status = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        return BlenderError(f"Blender's process ended with status {status} ({last}).")


def _open_copy(file: str) -> Image:
    """Image of a file that is overwritten by the next one."""
    from PIL import Image

    with Image.open(file) as image:
        return image.convert("RGB")


def _decode_mask(image: Image) -> NDArray[np.int8]:
    """Index map of a rendering in which every thing has one red value."""
    import numpy as np

    red = np.asarray(image, dtype=np.int16)[..., 0]
    if (red % MASK_STEP).any():
        raise BlenderError("Blender's index map has colors between those of two things.")
    return (red // MASK_STEP - 1).astype(np.int8)
