"""Resize and center crop of an image, as most encoders begin (Pillow and numpy only)."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

SMOOTH_FILTERS = (1, 2, 3, 4, 5)
"""Pillow's numbers of the filters that can resize a box of an image as if the full image were
resized: Lanczos, bilinear, bicubic, box, Hamming."""
MID_BYTE = 127
"""Bytes above it are nearer to white than to black."""
MAX_PIXELS = 2**26
"""Most pixels before the crop. Of a larger image (one 1,400 times as long as wide) only the crop is
resized, to save memory; one byte in a hundred may then differ a little."""


@dataclass(frozen=True, slots=True)
class ResizeCrop:
    """Resize and center crop of an image to bytes.

    Attributes:
        resize: the new (height, width), or the new length of the shorter side.
        crop: (height, width) of the center crop; None for no crop.
        resample: Pillow's number of the filter.
        even: round an odd crop offset to the even neighbor as torchvision does, not down as
            transformers does.
    """

    resize: tuple[int, int] | int
    crop: tuple[int, int] | None
    resample: int
    even: bool = False

    def to_json(self) -> list[Any]:
        """List the attributes, so that JSON can hold them."""
        return list(astuple(self))

    @classmethod
    def from_json(cls, values: list[Any]) -> Self:
        """Build from the list of `to_json`."""
        resize, crop, resample, even = values
        return cls(
            resize if isinstance(resize, int) else tuple(resize),
            None if crop is None else tuple(crop),
            int(resample),
            bool(even),
        )

    def apply(self, image: Image) -> Image:
        """Resize and crop an image to RGB."""
        return self._apply(image if image.mode == "RGB" else image.convert("RGB"))

    def to_bytes(self, image: Image) -> NDArray[np.uint8]:
        """Resize and crop an image to bytes (3, h, w)."""
        import numpy as np

        return np.ascontiguousarray(np.array(self.apply(image)).transpose(2, 0, 1))

    def cover(self, hidden: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Pixels (h, w) of the result that lie under a mask of the image.

        The mask is drawn white on black and resized like the image; three equal channels need not
        be resized one by one.
        """
        import numpy as np
        from PIL import Image

        gray = Image.fromarray(hidden.astype(np.uint8) * np.uint8(255))
        return np.array(self._apply(gray)) > MID_BYTE

    @property
    def has_fixed_size(self) -> bool:
        """Whether all images get the same size."""
        return self.crop is not None or not isinstance(self.resize, int)

    def _apply(self, image: Image) -> Image:
        from PIL.Image import Resampling

        resample = Resampling(self.resample)
        height, width = self._resized_size(image.height, image.width)
        top, left, bottom, right = self._crop_box(height, width)
        if height * width > MAX_PIXELS and self.resample in SMOOTH_FILTERS:
            x, y = image.width / width, image.height / height
            box = (left * x, top * y, min(right * x, image.width), min(bottom * y, image.height))
            return image.resize((right - left, bottom - top), resample, box=box)
        return image.resize((width, height), resample).crop((left, top, right, bottom))

    def _resized_size(self, height: int, width: int) -> tuple[int, int]:
        if not isinstance(self.resize, int):
            return self.resize
        if width <= height:
            return int(self.resize * height / width), self.resize
        return self.resize, int(self.resize * width / height)

    def _crop_box(self, height: int, width: int) -> tuple[int, int, int, int]:
        if self.crop is None:
            return 0, 0, height, width
        rows, columns = self.crop
        spare = (height - rows, width - columns)
        top, left = (round(size / 2) if self.even else size // 2 for size in spare)
        return top, left, top + rows, left + columns
