"""Images as people give them in Python: a path, an image of Pillow, or a reference."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from contrapose.data.benchmarks.user_videos import is_video_name
from contrapose.data.images import ImageRef, bytes_id
from contrapose.data.pixels import gray_to_rgb, to_rgb
from contrapose.data.video_clips import VideoRef
from contrapose.files import MalformedError, local_path

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class PixelImage:
    """Image source: pixels in memory; equal pixels are one image.

    Attributes:
        content: content id of the pixels.
        image: the image, RGB.
    """

    content: str
    image: Image = field(compare=False, repr=False)

    @classmethod
    def of(cls, image: Image) -> Self:
        """Copy an image, upright by its EXIF tag and as RGB, as that of a file is opened."""
        from PIL import ImageOps

        upright = ImageOps.exif_transpose(image)
        gray = upright.mode[0] in "IF"
        pixels = (gray_to_rgb(upright, deep=False) if gray else to_rgb(upright)).copy()
        return cls(bytes_id(pixels.tobytes(), (0, 0, *pixels.size)), pixels)

    @property
    def pixels(self) -> int:
        """Number of pixels, by which the engine bounds how many copies it holds."""
        return self.image.width * self.image.height

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Copies of the images."""
        return [source.image.copy() for source in sources]


def to_image_refs(given: Any) -> tuple[ImageRef, ...]:
    """References to images; a single path or image is one of them.

    Raises:
        MalformedError: one of them is neither a path, nor an image of Pillow, nor a reference.
    """
    from PIL.Image import Image

    one = isinstance(given, str | os.PathLike | Image) or not isinstance(given, Iterable)
    return tuple(_to_image_ref(image) for image in ((given,) if one else given))


def _to_image_ref(image: Any) -> ImageRef:
    from PIL.Image import Image

    if isinstance(image, ImageRef):
        return image
    if isinstance(image, str | os.PathLike):
        name = os.fspath(image)
        path = local_path(name)
        return VideoRef(path, key=name) if is_video_name(name) else ImageRef(name, path)
    if isinstance(image, Image):
        source = PixelImage.of(image)
        return ImageRef(source.content, source=source)
    raise MalformedError(
        f"an image is a path, an image of Pillow or an ImageRef, and no {type(image).__name__}."
    )
