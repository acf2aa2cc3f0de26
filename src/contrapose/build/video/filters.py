"""Filters of frames and captions: motion words, faces, blur, near-duplicate frames.

The first two are EqBen's (appendix B): motion words for event boundaries, faces for steps. The
paper looked for near-duplicates by eye.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contrapose.data.pixels import shrink_image
from contrapose.errors import InputError, MissingExtraError, option
from contrapose.metrics import FloatArray

if TYPE_CHECKING:
    from PIL.Image import Image

MOTION_WORDS = ("up", "down", "upward", "downward", "towards")
"""Words that a still frame cannot show, as the paper lists them."""

BLUR = 20.0
"""Least variance of the Laplacian, which is 0 for one even color."""
BLUR_SIDE = 256
"""Shorter side at which sharpness is measured, so that the limit fits any resolution."""

DUPLICATES = 2
"""Largest number of different bits, of 64, at which two frames count as the same."""
HASH_SIDE = 32
HASH_BITS = 8
"""Rows and columns of low frequencies that a hash has a bit for."""

FACE_MODEL = "haarcascade_frontalface_default.xml"
FACE_SHARE = 0.08
"""Least size of a face, as a share of the frame's shorter side."""
FACE_SIDE = 480
"""Shorter side at which faces are looked for."""


@dataclass(frozen=True, slots=True)
class FrameFilters:
    """Settings of the filters; each can be off.

    Attributes:
        motion_words: captions with one of these words are dropped; empty for none.
        faces: drop frames that show a face.
        blur: least sharpness of a frame; 0 for any.
        duplicates: drop pairs whose hashes differ in at most so many bits; −1 for none.
    """

    motion_words: tuple[str, ...] = ()
    faces: bool = False
    blur: float = BLUR
    duplicates: int = DUPLICATES

    def __post_init__(self) -> None:
        if not self.blur >= 0 or not np.isfinite(self.blur):
            raise InputError(f"{option('blur')} must not be negative, found {self.blur}.")
        if not -1 <= self.duplicates <= HASH_BITS**2:
            raise InputError(
                f"{option('duplicates')} must be from -1 to 64, found {self.duplicates}."
            )

    def has_motion(self, caption: str) -> bool:
        """Whether a caption holds a motion word, also spelled with or without a final s."""
        if not self.motion_words:
            return False
        return _motion_pattern(self.motion_words).search(caption) is not None

    def check(self, image: Image) -> str | None:
        """Return the name of the filter that drops a frame; None keeps it."""
        if self.faces and count_faces(image):
            return "faces"
        if self.blur > 0 and sharpness(image) < self.blur:
            return "blur"
        return None

    def are_duplicates(self, first: int, second: int) -> bool:
        """Whether two frames are near-duplicates, by their hashes."""
        return (first ^ second).bit_count() <= self.duplicates


@lru_cache(maxsize=16)
def _motion_pattern(words: Sequence[str]) -> re.Pattern[str]:
    stems = (re.escape(word.strip().removesuffix("s")) for word in words if word.strip())
    return re.compile(rf"\b(?:{'|'.join(stems)})s?\b", re.IGNORECASE)


def sharpness(image: Image) -> float:
    """Variance of the Laplacian of the gray image, at a shorter side of 256 pixels at most."""
    gray = np.asarray(shrink_image(image.convert("L"), BLUR_SIDE), dtype=np.float64)
    if min(gray.shape) < 3:
        return 0.0
    inner = gray[1:-1, 1:-1]
    neighbors = gray[:-2, 1:-1] + gray[2:, 1:-1] + gray[1:-1, :-2] + gray[1:-1, 2:]
    return float((neighbors - 4 * inner).var())


def perceptual_hash(image: Image) -> int:
    """64-bit hash of the low frequencies: which of them lie above their median.

    The gray image of 32 × 32 pixels is transformed by a cosine transform; of the 8 × 8 lowest
    frequencies the mean brightness is left out of the median. Equal hashes mean the same frame but
    for size, brightness and compression.
    """
    from PIL.Image import Resampling

    small = image.convert("L").resize((HASH_SIDE, HASH_SIDE), Resampling.LANCZOS)
    basis = _cosine_basis(HASH_SIDE, HASH_BITS)
    low = (basis @ np.asarray(small, dtype=np.float64) @ basis.T).ravel()
    bits = low > np.median(low[1:])
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


@lru_cache(maxsize=1)
def _cosine_basis(size: int, count: int) -> FloatArray:
    """(count, size) the lowest cosines of a DCT-II."""
    positions = (2 * np.arange(size) + 1) / (2 * size)
    return np.asarray(np.cos(np.pi * np.arange(count)[:, None] * positions))


_LOCAL = threading.local()
"""Face detector of each thread: OpenCV's is not safe to share."""


def require_face_detector() -> None:
    """Require that faces can be looked for.

    Raises:
        MissingExtraError: OpenCV is not installed.
    """
    _load_detector()


def _load_detector() -> Any:
    try:
        cv2: Any = import_module("cv2")
    except ImportError:
        raise MissingExtraError("opencv-python-headless", "video", "looking for faces") from None
    if not hasattr(_LOCAL, "cascade"):
        cv2.setNumThreads(1)  # frames are looked at in many threads already
        _LOCAL.cascade = cv2.CascadeClassifier(str(Path(cv2.data.haarcascades) / FACE_MODEL))
    return _LOCAL.cascade


def count_faces(image: Image) -> int:
    """Number of upright faces that a frame shows, by OpenCV's Haar cascade.

    Raises:
        MissingExtraError: OpenCV is not installed.
    """
    cascade = _load_detector()
    gray = np.asarray(shrink_image(image.convert("L"), FACE_SIDE))
    least = max(20, round(FACE_SHARE * min(gray.shape)))
    return len(cascade.detectMultiScale(gray, 1.1, 5, minSize=(least, least)))
