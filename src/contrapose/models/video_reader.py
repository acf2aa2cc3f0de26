"""Videos as a capability: models that read several frames at once, and the times of the frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import PreparedImage


@dataclass(frozen=True, slots=True)
class FrameTiming:
    """Times of the frames of a clip.

    Attributes:
        seconds: of each frame from the beginning of the clip.
        duration: length of the clip in seconds.
        fps: frames a second of the video, on average.
    """

    seconds: tuple[float, ...]
    duration: float
    fps: float

    @property
    def indices(self) -> list[int]:
        """Number of each frame, counted from 0 at the beginning of the clip."""
        return [int(second * self.fps + 1e-6) for second in self.seconds]

    @property
    def total(self) -> int:
        """Number of frames of the clip."""
        return max(round(self.duration * self.fps), max(self.indices) + 1)


@runtime_checkable
class VideoReader(Protocol):
    """A model that can be given several frames of a video at once; others get one after the other.

    One that takes a single number of frames has an attribute `frame_count`; one whose video input
    cannot be used has `video_obstacle`, the sentence that says why.
    """

    @property
    def video_input(self) -> str:
        """Input in a stored score's identity: `video`, or `images` for those of one turn."""

    @property
    def max_frames(self) -> int:
        """Most frames that it reads at once; 0 where it is given one after the other."""

    def prepare_video(self, frames: Sequence[Image], timing: FrameTiming) -> PreparedImage:
        """Preprocess the frames of a video on the CPU, thread-safe; given wherever an image may be.

        Raises:
            InputError: they are too many or too large.
        """
