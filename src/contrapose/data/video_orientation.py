"""Orientation of videos: frames are turned and mirrored as their display matrix says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from contrapose.data.pixels import require_size

if TYPE_CHECKING:
    from av import VideoFrame
    from PIL.Image import Image, Transpose

SIDEWAYS = ("ROTATE_90", "ROTATE_270", "TRANSPOSE", "TRANSVERSE")
"""Orientations that exchange width and height."""


def upright_size(frame: VideoFrame) -> tuple[int, int]:
    """Width and height of a frame when it is upright."""
    orientation = _orientation(frame)
    if orientation is not None and orientation.name in SIDEWAYS:
        return frame.height, frame.width
    return frame.width, frame.height


def upright_image(frame: VideoFrame) -> Image:
    """Image of a frame, upright and RGB.

    Raises:
        InputError: it has more pixels than the limit.
    """
    require_size(frame.width, frame.height)
    image: Image = frame.to_image()  # type: ignore[no-untyped-call]
    orientation = _orientation(frame)
    return image if orientation is None else image.transpose(orientation)


def _orientation(frame: VideoFrame) -> Transpose | None:
    """Turn or mirroring that makes a frame upright, by its display matrix.

    The matrix takes (x, y), y downwards, to (a·x + c·y, b·x + d·y); its numbers are in units of
    2⁻¹⁶. A turn by anything but quarters is taken as the nearest of these.
    """
    from PIL.Image import Transpose

    side_data: Iterable[Any] = frame.side_data  # PyAV's annotations take it for a dictionary
    data = next((one for one in side_data if one.type.name == "DISPLAYMATRIX"), None)
    if data is None:
        return None
    a, b, _, c, d = np.frombuffer(bytes(data), dtype=np.int32).tolist()[:5]
    if abs(a) + abs(d) >= abs(b) + abs(c):
        upright = {
            (True, False): Transpose.FLIP_LEFT_RIGHT,
            (False, True): Transpose.FLIP_TOP_BOTTOM,
        }
        return upright.get((a < 0, d < 0), Transpose.ROTATE_180 if a < 0 else None)
    sideways = {(True, True): Transpose.TRANSVERSE, (True, False): Transpose.ROTATE_90}
    return sideways.get((b < 0, c < 0), Transpose.ROTATE_270 if c < 0 else Transpose.TRANSPOSE)
