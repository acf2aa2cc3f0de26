"""Videos: the frame that is shown at a time, exactly, and the properties of a file.

Time 0 is the first frame. A frame is shown from its presentation timestamp until that of the next
one, so that videos of variable frame rate are read right. Reading seeks to the keyframe before a
time and decodes on from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from contrapose.data.pixels import shrink_image
from contrapose.data.video_files import (
    decoding_errors,
    describe_errors,
    describe_reason,
    load_decoder,
    open_stream,
)
from contrapose.data.video_orientation import upright_image, upright_size
from contrapose.data.video_packets import (
    NO_TIMES,
    SEEK_SECONDS,
    has_display_times,
    has_sought_times,
    list_timestamps,
    read_ends,
    read_last_ends,
)
from contrapose.errors import InputError

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream
    from PIL.Image import Image

VIDEO_SUFFIXES = (
    *(".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg", ".ts", ".m2ts"),
    *(".flv", ".wmv", ".ogv", ".3gp"),
)
"""Suffixes of video files; the format is detected from the bytes."""

LONGEST_GAP = 0.5
"""Seconds between the end that a container states and its last packet, unless it is cut off."""

SLACK = 1e-6
LONGEST_SLACK = 1e-3
"""Seconds forgiven between a time and a timestamp, which the container's clock rounds."""


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """Properties of a video.

    Attributes:
        path: the file.
        duration: seconds from the first frame to the end of the last one.
        fps: frames a second on average, as the container says.
        width: pixels of an upright frame.
        height: pixels of an upright frame.
    """

    path: Path
    duration: float
    fps: float
    width: int
    height: int


def probe_video(path: Path) -> VideoInfo:
    """Read the properties of a video; its first frame is decoded.

    Raises:
        InputError: the file is missing, empty or damaged, or holds no video.
        MissingExtraError: PyAV is not installed.
    """
    with _open_video(path) as reader:
        frame = reader.upcoming
        if frame is None:
            raise InputError("holds no frame that can be decoded.", file=path)
        width, height = upright_size(frame)
        return VideoInfo(path, reader.find_duration(), reader.fps, width, height)


def list_frame_times(path: Path) -> npt.NDArray[np.float64]:
    """List the seconds from the first frame at which frames are first shown, ascending.

    Packets are read and not decoded: frame k is the k-th that is shown, at any frame rate.

    Raises:
        InputError: the file cannot be read.
        MissingExtraError: PyAV is not installed.
    """
    with _open_video(path) as reader:
        return reader.list_times()


def read_frames(path: Path, times: Sequence[float], *, side: int | None = None) -> list[Image]:
    """Read the frame that is shown at each time, upright and RGB, in the order given.

    Args:
        path: the video.
        times: seconds from the first frame, in any order.
        side: make frames smaller, so that the shorter side has so many pixels at most.

    Raises:
        InputError: the file cannot be read, or there is no frame at one of the times.
        MissingExtraError: PyAV is not installed.
    """
    images = []
    for image in find_frames(path, times, side=side):
        if isinstance(image, InputError):
            raise image
        images.append(image)
    return images


def find_frames(
    path: Path, times: Sequence[float], *, side: int | None = None
) -> list[Image | InputError]:
    """Find the frame that is shown at each time, or the reason why there is none.

    Raises:
        InputError: the file cannot be read at all.
        MissingExtraError: PyAV is not installed.
    """
    frames: dict[int, Image | InputError] = dict(iterate_frames(path, times, side=side))
    return [frames[i] for i in range(len(times))]


def iterate_frames(
    path: Path, times: Sequence[float], *, side: int | None = None
) -> Iterator[tuple[int, Image | InputError]]:
    """Yield (index of the time, its frame or the reason why there is none), by ascending time.

    One frame is in memory at a time; see `read_frames` for the arguments.

    Raises:
        InputError: the file cannot be read at all.
        MissingExtraError: PyAV is not installed.
    """
    with _open_video(path) as reader:
        for index in sorted(range(len(times)), key=lambda i: (_order(times[i]), i)):
            try:
                yield index, shrink_image(reader.image_at(times[index]), side)
            except InputError as error:
                yield index, error


def frame_time(number: int, fps: float) -> float:
    """Time of a frame by its number from 0, for a constant frame rate: the middle of its show."""
    return (number + 0.5) / fps


def uniform_times(
    duration: float, *, fps: float | None = None, count: int | None = None
) -> list[float]:
    """Times that are spread evenly over a video.

    Args:
        duration: seconds.
        fps: 0, 1/fps, 2/fps, … before the end.
        count: the middles of so many equal segments.

    Raises:
        InputError: neither or both are given, or one is not positive and finite.
    """
    if (fps is None) == (count is None):
        raise InputError("pass either fps or count.")
    if fps is not None:
        if not (math.isfinite(fps) and fps > 0 and math.isfinite(duration)):
            raise InputError(f"frames a second must be a positive number, found {fps}.")
        return [i / fps for i in range(math.ceil(max(duration, 0.0) * fps - SLACK))]
    if count is None or count < 1:
        raise InputError(f"the number of frames must be at least 1, found {count}.")
    return [(i + 0.5) * duration / count for i in range(count)]


class _VideoReader:
    """Open video with a current frame and the one after it.

    Attributes:
        path: the file.
        container: the open container.
        stream: its video.
        start: timestamp of the first frame, in units of the stream's clock.
        current: the frame decoded last; None after seeking.
        upcoming: the frame after it; None at the end.
        reach: a time so many seconds ahead is reached by decoding on, a later one by seeking; it
            grows where keyframes are far apart.
    """

    path: Path
    container: InputContainer
    stream: VideoStream
    start: int
    current: VideoFrame | None
    upcoming: VideoFrame | None
    reach: float

    def __init__(self, path: Path) -> None:
        self.path, self.reach = path, SEEK_SECONDS
        self.container, self.stream = open_stream(path)
        self._read_first()

    def _read_first(self) -> None:
        self._frames = self._decode_on()
        self.current, self.upcoming = None, next(self._frames, None)
        self.start = 0 if self.upcoming is None else self.upcoming.pts or 0

    def _decode_on(self) -> Iterator[VideoFrame]:
        """Decode from the position on; frames come in the order in which they are shown."""
        shown, last = has_display_times(self.container), 0
        for frame in self.container.decode(self.stream):
            if not shown:
                frame.pts = last = last + 1 if frame.dts is None else frame.dts
            yield frame

    def _reopen(self) -> None:
        self.container.close()
        self.container, self.stream = open_stream(self.path)

    @property
    def clock(self) -> Fraction:
        """Seconds of one unit of a timestamp."""
        return self.stream.time_base or Fraction(1, 1000)

    @property
    def fps(self) -> float:
        """Frames a second on average, as the container says."""
        rate = self.stream.average_rate or self.stream.guessed_rate or self.stream.base_rate
        return float(rate) if rate else 25.0

    def find_duration(self) -> float:
        """Seconds from the first frame to the end of the last one; the position changes.

        A container that counts its frames states how long they take. Others state the end of all
        streams, from another beginning, or nothing: the packets tell. Of a file that is cut off
        the stated end is taken, so that frames which it has lost are missed.
        """
        if self.stream.duration is not None and self.stream.frames:
            return float(self.stream.duration * self.clock)
        ends = read_last_ends(self.container, self.stream, 1 / self.fps)
        if ends is None:
            self._reopen()
            ends = read_ends(self.container, self.stream, 1 / self.fps)
        end = (self.container.duration or 0) / 1e6
        if ends is not None and ends.streams >= end - LONGEST_GAP:
            end = ends.video
        return max(0.0, end - float(self.start * self.clock))

    def list_times(self) -> npt.NDArray[np.float64]:
        """Seconds at which each frame is first shown; the position changes."""
        self._reopen()
        stamps = np.array(list_timestamps(self.container, self.stream), dtype=np.int64)
        delay = int((stamps < self.start).sum())
        shown = stamps[delay:]
        if delay and not has_display_times(self.container):
            # a frame is shown when it leaves the decoder, by then so many packets behind its own
            shown = np.append(shown, stamps[-1] + 1 + np.arange(delay))
        return (shown - self.start).astype(np.float64) * float(self.clock)

    def time(self, frame: VideoFrame) -> float:
        """Seconds at which a frame is first shown."""
        if frame.pts is None:
            raise InputError(NO_TIMES, file=self.path)
        return float((frame.pts - self.start) * (frame.time_base or self.clock))

    def image_at(self, time: float) -> Image:
        """Decode the frame that is shown at a time.

        Raises:
            InputError: there is none, or it cannot be decoded.
        """
        if not (math.isfinite(time) and time >= 0):
            raise InputError(f"has no frame at {time} s: times begin at 0.", file=self.path)
        try:
            try:
                return self._decode(time)
            except decoding_errors():  # a keyframe may lie between the damage and the time
                self.current = self.upcoming = None
                return self._decode(time)
        except InputError:
            self.current = self.upcoming = None  # the next time is sought anew
            raise
        except decoding_errors() as error:
            self.current = self.upcoming = None
            raise InputError(
                f"cannot be decoded at {time:.2f} s ({describe_reason(error)}).", file=self.path
            ) from None

    def seek(self, time: float) -> None:
        """Go to the last keyframe at or before a time: the frame there becomes the upcoming one.

        A seek may land behind its aim, between keyframes, or fail: then it goes further back, at
        last to the start.
        """
        latest, back = time + self._slack(), 0.0
        while time > back and has_sought_times(self.container):
            aim = self.start + int((time - back) / self.clock)
            self.current = self.upcoming = None
            try:
                self.container.seek(aim, stream=self.stream, backward=True)
                self._frames = self._decode_on()
                for frame in self._frames:
                    if frame.key_frame or self.time(frame) > latest:
                        self.upcoming = frame
                        break  # those before a keyframe lack what they refer to
            except decoding_errors():
                pass
            if self.upcoming is not None and self.time(self.upcoming) <= latest:
                return
            back = 2 * back + SEEK_SECONDS
        self._reopen()
        self._read_first()

    def _decode(self, time: float) -> Image:
        latest = time + self._slack()
        nearest = self.current or self.upcoming
        position = self.time(self.upcoming) if self.upcoming is not None else time
        if nearest is None or self.time(nearest) > latest:
            self.seek(time)
        elif position < time - self.reach:
            self.seek(time)
            keyframe = self.time(self.upcoming) if self.upcoming is not None else time
            if keyframe <= position:  # decoding on would have been less
                self.reach = max(self.reach, time - keyframe)
        if self.current is None:
            self.current, self.upcoming = self.upcoming, next(self._frames, None)
        while self.upcoming is not None and self.time(self.upcoming) <= latest:
            self.current, self.upcoming = self.upcoming, next(self._frames, None)
        if self.current is None:
            raise InputError(f"has no frame at {time:.2f} s.", file=self.path)
        if self.upcoming is None:
            shown = max((self.current.duration or 0) * float(self.clock), 1 / self.fps)
            end = self.time(self.current) + shown
            if time + SLACK >= end:
                raise InputError(
                    f"ends at {end:.2f} s, so there is no frame at {time:.2f} s.", file=self.path
                )
        return upright_image(self.current)

    def _slack(self) -> float:
        return min(float(self.clock) / 2, LONGEST_SLACK) + SLACK


@contextmanager
def _open_video(path: Path) -> Iterator[_VideoReader]:
    """Open a video for reading.

    Raises:
        InputError: the file is missing, empty or damaged, or holds no video.
    """
    load_decoder()
    with describe_errors(path):
        reader = _VideoReader(path)
        try:
            yield reader
        finally:
            reader.container.close()


def _order(time: float) -> float:
    return time if math.isfinite(time) else -1.0
