"""Videos: the frame that is shown at a time, exactly, and the properties of a file.

Time 0 is the first frame. A frame is shown from its presentation timestamp until that of the next
one, so that videos of variable frame rate are read right. Reading seeks to the keyframe before a
time and decodes on from there. Only containers that hold their own frames are opened: a playlist,
which could name any file or address, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose.data.pixels import pixel_limit, require_size, shrink_image
from contrapose.errors import InputError, MissingExtraError, first_line
from contrapose.files import require_regular

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

FORMATS = "mov,mp4,matroska,webm,avi,mpeg,mpegvideo,mpegts,flv,ogg,asf,3gp,nut"
"""Containers that are opened: each holds its own frames."""

SEEK_SECONDS = 2.0
"""A time this far ahead is reached by seeking, a nearer one by decoding on."""

SLACK = 1e-6
LONGEST_SLACK = 1e-3
"""Seconds forgiven between a time and a timestamp, which the container's clock rounds."""


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """Properties of a video.

    Attributes:
        path: the file.
        duration: seconds from the first frame to the end, as the container says.
        fps: frames a second on average.
        frames: number of frames, as the container says or by duration and rate.
        width: pixels of an upright frame.
        height: pixels of an upright frame.
        rotation: degrees by which stored frames are turned counterclockwise to be upright.
    """

    path: Path
    duration: float
    fps: float
    frames: int
    width: int
    height: int
    rotation: int


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
        rotation = _rotation(frame)
        size = (frame.width, frame.height)
        width, height = size if rotation % 180 == 0 else size[::-1]
        return VideoInfo(
            path=path,
            duration=reader.duration,
            fps=reader.fps,
            frames=reader.stream.frames or round(reader.duration * reader.fps),
            width=width,
            height=height,
            rotation=rotation,
        )


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
    """

    path: Path
    container: InputContainer
    stream: VideoStream
    start: int
    current: VideoFrame | None
    upcoming: VideoFrame | None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.container, self.stream = _open_stream(path)
        self._read_first()

    def _read_first(self) -> None:
        self._frames = self.container.decode(self.stream)
        self.current, self.upcoming = None, next(self._frames, None)
        self.start = 0 if self.upcoming is None else self.upcoming.pts or 0

    @property
    def clock(self) -> Fraction:
        """Seconds of one unit of a timestamp."""
        return self.stream.time_base or Fraction(1, 1000)

    @property
    def fps(self) -> float:
        """Frames a second on average, as the container says."""
        rate = self.stream.average_rate or self.stream.guessed_rate or self.stream.base_rate
        return float(rate) if rate else 25.0

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end, as the container says."""
        if self.stream.duration is not None:
            return float(self.stream.duration * self.clock)
        if self.container.duration is None:
            return self.stream.frames / self.fps
        behind = float(self.start * self.clock) - (self.container.start_time or 0) / 1e6
        return max(0.0, self.container.duration / 1e6 - max(0.0, behind))

    def time(self, frame: VideoFrame) -> float:
        """Seconds at which a frame is first shown."""
        if frame.pts is None:
            raise InputError(
                "has frames without timestamps; copy it into a container such as .mp4 or .mkv.",
                file=self.path,
            )
        return float((frame.pts - self.start) * (frame.time_base or self.clock))

    def image_at(self, time: float) -> Image:
        """Decode the frame that is shown at a time.

        Raises:
            InputError: there is none, or it cannot be decoded.
        """
        if not (math.isfinite(time) and time >= 0):
            raise InputError(f"has no frame at {time} s: times begin at 0.", file=self.path)
        try:
            return self._decode(time)
        except InputError:
            self.current = self.upcoming = None
            raise
        except _decoding_errors() as error:
            self.current = self.upcoming = None  # the next time is sought anew
            raise InputError(
                f"cannot be decoded at {time:.2f} s ({first_line(error)}).", file=self.path
            ) from None

    def seek(self, time: float) -> None:
        """Go to the last keyframe at or before a time: the frame there becomes the upcoming one.

        A seek may land behind its aim or fail: then it goes further back, at last to the start.
        """
        back = 0.0
        while time > back:
            aim = self.start + int((time - back) / self.clock)
            try:
                self.container.seek(aim, stream=self.stream, backward=True)
                self._frames = self.container.decode(self.stream)
                self.current, self.upcoming = None, next(self._frames, None)
            except _decoding_errors():
                self.upcoming = None
            if self.upcoming is not None and self.time(self.upcoming) <= time + self._slack():
                return
            back = 2 * back + SEEK_SECONDS
        self.container.close()
        self.container, self.stream = _open_stream(self.path)
        self._read_first()

    def _decode(self, time: float) -> Image:
        latest = time + self._slack()
        nearest = self.current or self.upcoming
        if (
            nearest is None
            or self.time(nearest) > latest
            or (self.upcoming is not None and self.time(self.upcoming) < time - SEEK_SECONDS)
        ):
            self.seek(time)
        if self.current is None:
            self.current, self.upcoming = self.upcoming, next(self._frames, None)
        while self.upcoming is not None and self.time(self.upcoming) <= latest:
            self.current, self.upcoming = self.upcoming, next(self._frames, None)
        if self.current is None:
            raise InputError(f"has no frame at {time:.2f} s.", file=self.path)
        if self.upcoming is None:
            shown = max((self.current.duration or 0) * float(self.clock), 1 / self.fps)
            end = self.time(self.current) + shown
            if latest >= end:
                raise InputError(
                    f"ends at {end:.2f} s, so there is no frame at {time:.2f} s.", file=self.path
                )
        return _upright(self.current)

    def _slack(self) -> float:
        return min(float(self.clock) / 2, LONGEST_SLACK) + SLACK


@contextmanager
def _open_video(path: Path) -> Iterator[_VideoReader]:
    """Open a video for reading.

    Raises:
        InputError: the file is missing, empty or damaged, or holds no video.
    """
    load_decoder()
    try:
        reader = _VideoReader(path)
        try:
            yield reader
        finally:
            reader.container.close()
    except InputError as error:
        raise InputError(error.message, file=path) from None
    except _decoding_errors() as error:
        raise InputError(f"cannot be decoded ({_reason(error)}).", file=path) from None


def _open_stream(path: Path) -> tuple[InputContainer, VideoStream]:
    """Open a container and choose its video, which is not the cover of a song."""
    av = load_decoder()
    require_regular(path)
    try:
        if path.is_dir():
            raise InputError("is a folder, not a video.")
        if path.stat().st_size == 0:
            raise InputError("is empty: a video of 0 bytes.")
        container = av.open(str(path.absolute()), options={"format_whitelist": FORMATS})
    except FileNotFoundError:
        raise InputError("does not exist.") from None
    except _decoding_errors() as error:
        raise InputError(f"is no video that can be read ({_reason(error)}).") from None
    picture = av.stream.Disposition.attached_pic
    streams = [one for one in container.streams.video if not one.disposition & picture]
    try:
        if not streams:
            raise InputError("holds no video, only sound or data.")
        context = streams[0].codec_context
        if context is None:
            raise InputError("is encoded with a codec that is not known here.")
        require_size(context.width, context.height)
        context.options = {"max_pixels": str(int(pixel_limit()))}
    except BaseException:
        container.close()
        raise
    return container, streams[0]


def load_decoder() -> Any:
    """Import PyAV, with FFmpeg's remarks on damaged frames turned off.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import av
        import av.stream
    except ImportError:
        raise MissingExtraError("PyAV", "video", "reading videos") from None
    av.logging.set_level(None)
    return av


def _decoding_errors() -> tuple[type[Exception], ...]:
    """Errors of opening and decoding."""
    import av

    return (av.error.FFmpegError, OSError, ValueError, ArithmeticError, MemoryError)


def _reason(error: Exception) -> str:
    """FFmpeg's reason, without number and path."""
    return str(getattr(error, "strerror", None) or first_line(error)).rstrip(". ")


def _rotation(frame: VideoFrame) -> int:
    """Quarter turns counterclockwise that make a frame upright, in degrees."""
    return round(getattr(frame, "rotation", 0) / 90) % 4 * 90


def _upright(frame: VideoFrame) -> Image:
    from PIL.Image import Transpose

    require_size(frame.width, frame.height)
    turns = {90: Transpose.ROTATE_90, 180: Transpose.ROTATE_180, 270: Transpose.ROTATE_270}
    image: Image = frame.to_image()  # type: ignore[no-untyped-call]
    turn = turns.get(_rotation(frame))
    return image if turn is None else image.transpose(turn)


def _order(time: float) -> float:
    return time if math.isfinite(time) else -1.0
