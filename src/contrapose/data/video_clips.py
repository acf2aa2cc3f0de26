"""Videos in the place of images: n frames spread evenly over a clip, or frames at given times.

A reader names the file and the span; the times are found when the video is scored, from its own
duration. Where one picture must stand for the video, such as on a failure card, it is a strip of
its frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from contrapose.data.example_columns import distinct_refs
from contrapose.data.examples import Example
from contrapose.data.images import ImageRef
from contrapose.data.ref_columns import RefColumn
from contrapose.errors import InputError, option, printable
from contrapose.files import MalformedError, require_integer, require_number

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.data.video import VideoInfo

T = TypeVar("T")

UNITS = ("seconds", "frames")
"""Units of a span."""

DEFAULT_FRAMES = 8
"""Frames of a video where nobody says how many."""

MAX_FRAMES = 9999
"""Most frames of a video that may be asked for."""

SHORT_SHOW = 2.5e-3
"""Seconds of a frame whose middle may be taken for the next one's beginning, as clocks round it."""

STRIP_FRAMES = 8
STRIP_SIDE = 160
"""Frames of a strip at the most, and pixels of their shorter side."""

ALONE = "mean"
"""Word of the option `frames` by which every frame is scored by itself."""


@dataclass(frozen=True, slots=True)
class VideoClip:
    """Image source: frames of a video or of a span of it.

    Attributes:
        path: the video.
        frames: number of frames, the middles of as many equal parts of the span; None takes the
            number that the model needs, or `DEFAULT_FRAMES`.
        times: seconds of the frames from the first frame of the video; these and no others, where
            there are any.
        start: beginning of the span.
        end: end of the span; None is the end of the video.
        unit: whether the span is in seconds or in numbers of frames from 0.
        alone: whether every frame is scored by itself, also by models that read several at once.
        form: kind of input by which a model reads all frames at once; part of the content's name.
    """

    path: Path
    frames: int | None = None
    times: tuple[float, ...] = ()
    start: float = 0.0
    end: float | None = None
    unit: Literal["seconds", "frames"] = "seconds"
    alone: bool = False
    form: str = ""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise MalformedError(
                f"'unit' must be {' or '.join(UNITS)}, found {printable(repr(self.unit)):.40}."
            )
        values: dict[str, object] = {
            "frames": None if self.frames is None else require_integer("frames", self.frames),
            "times": _require_times(self.times),
            "start": require_number("start", self.start),
            "end": None if self.end is None else require_number("end", self.end),
        }
        for name, value in values.items():  # numbers of NumPy become plain ones
            object.__setattr__(self, name, value)
        if min(self.start, self.end or 0.0, *self.times) < 0:
            raise MalformedError("the times of a video must be numbers from 0 on.")
        if self.end is not None and self.end <= self.start:
            raise MalformedError(
                f"the span of a video must end after its beginning, found {self.start:g} to "
                f"{self.end:g}."
            )
        if self.frames is not None and not 1 <= self.frames <= MAX_FRAMES:
            raise MalformedError(f"'frames' must be from 1 to {MAX_FRAMES}, found {self.frames}.")

    @property
    def content(self) -> str:
        """Content name: digest of the video, the times, and for a video read at once its form.

        Raises:
            InputError: the video is missing or cannot be read.
        """
        from contrapose.data.video_frames import video_digest

        name = f"{video_digest(self.path)}@{','.join(map(repr, self.frame_times()))}"
        if not self.form:
            return name
        start, end = self._span(_probe(self.path))
        return f"{name}|{start!r}-{end!r}|{self.form}"

    @property
    def count(self) -> int:
        """Number of frames."""
        return len(self.times) or self.frames or DEFAULT_FRAMES

    def frame_times(self) -> tuple[float, ...]:
        """Seconds of the frames from the first frame of the video.

        Raises:
            InputError: the video is missing or cannot be read, or ends before the span.
        """
        from contrapose.data.video import uniform_times

        if self.times:
            return self.times
        info = _probe(self.path)
        if self.unit == "seconds":
            start, end = self._bounds(info.duration)
            return tuple(start + time for time in uniform_times(end - start, count=self.count))
        begins = _list_frame_times(self.path)
        start, end = self._bounds(len(begins))
        numbers = [int(start + middle) for middle in uniform_times(end - start, count=self.count)]
        ends = (*begins[1:], max(info.duration, begins[-1]))
        return tuple(_moment(begins[number], ends[number]) for number in numbers)

    def timing(self) -> tuple[tuple[float, ...], float, float]:
        """Seconds of the frames from the beginning of the span, its duration, and the frame rate.

        Raises:
            InputError: the video is missing or cannot be read, or ends before the span.
        """
        info = _probe(self.path)
        start, end = self._span(info)
        return tuple(time - start for time in self.frame_times()), end - start, info.fps

    def _span(self, info: VideoInfo) -> tuple[float, float]:
        """Beginning and end in seconds; given times count from the beginning of the video."""
        if self.times:
            return 0.0, max(info.duration, *self.times)
        if self.unit == "seconds":
            return self._bounds(info.duration)
        begins = _list_frame_times(self.path)
        start, end = self._bounds(len(begins))
        moments = (*begins, max(info.duration, begins[-1]))
        return moments[int(start)], moments[math.ceil(end)]

    def _bounds(self, last: float) -> tuple[float, float]:
        """Beginning and end in the unit of the clip, of a video that ends at `last`."""
        end = last if self.end is None else min(self.end, last)
        if self.start >= end:
            raise InputError(
                f"the video ends before the clip (it has {last:g} {self.unit}, and the clip begins "
                f"at {self.start:g}).",
                file=self.path,
            )
        return self.start, end

    def list_frames(self, key: str) -> tuple[ImageRef, ...]:
        """References to the frames, with the key of the video.

        Raises:
            InputError: the video is missing or cannot be read, or ends before the span.
        """
        from contrapose.data.video_frames import frame_ref

        info = _probe(self.path)
        pixels = info.width * info.height
        return tuple(frame_ref(key, self.path, time, pixels) for time in self.frame_times())

    def read(self, side: int | None = None) -> list[Image]:
        """Decode the frames.

        Raises:
            InputError: the video cannot be read, or has no frame at a time.
        """
        from contrapose.data.video import read_frames
        from contrapose.data.video_frames import missing_frame

        try:
            return read_frames(self.path, self.frame_times(), side=side)
        except InputError as error:
            if error.message.startswith("the video"):
                raise
            raise missing_frame(error, self.path) from None

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Draw the strip of each clip, a few of its frames side by side."""
        return [_draw_strip(source.read(STRIP_SIDE)) for source in sources]


class VideoRef(ImageRef):
    """Reference to a video that stands in the place of an image of an example.

    Its score is that of the model's own video input where it has one, or the mean of its frames'
    scores.

    Example:
        >>> import contrapose as cp
        >>> clip = cp.VideoRef("videos/jump.mp4", frames=4, start=2.0, end=6.0)
        >>> cp.Example("1", (clip,), ("a man jumps", "a man falls"), ((True, False),)).shape
        (1, 2)
    """

    __slots__ = ()

    def __init__(
        self,
        path: Path | str,
        *,
        key: str = "",
        frames: int | None = None,
        times: Iterable[float] | None = None,
        start: float = 0.0,
        end: float | None = None,
        unit: Literal["seconds", "frames"] = "seconds",
    ):
        """Refer to a video.

        Args:
            path: the file.
            key: its name; videos of the same key are one cluster. Empty takes the file's name.
            frames: number of frames, spread evenly over the span; None takes the number that the
                model needs, or 8.
            times: seconds of the frames, in the place of all that follows and of `frames`.
            start: beginning of the span.
            end: end of the span; None is the end of the video.
            unit: whether the span is in seconds or in numbers of frames.

        Raises:
            MalformedError: a time, number or unit is not possible, or `times` is not alone.
        """
        seconds = () if times is None else _require_times(times, fewest=1)
        given = {"start": start != 0, "end": end is not None}
        given |= {"frames": frames is not None, "unit": unit != "seconds"}
        if seconds and any(given.values()):
            names = ", ".join(repr(name) for name, is_given in given.items() if is_given)
            raise MalformedError(f"'times' says which frames are read: leave out {names}.")
        clip = VideoClip(Path(path), frames, seconds, start, end, unit)
        super().__init__(key or Path(path).name, source=clip)


def has_videos(examples: Iterable[Example]) -> bool:
    """Whether an image of the examples is a video."""
    return has_video_images(distinct_refs(examples))


def has_video_images(images: Iterable[ImageRef]) -> bool:
    """Whether one of the images is a video."""
    if isinstance(images, RefColumn):
        return False
    return any(isinstance(ref.source, VideoClip) for ref in images)


def set_frames(examples: Sequence[Example], frames: int, *, alone: bool) -> list[Example]:
    """Examples whose videos have so many frames; given times stay as they are.

    Args:
        examples: the examples.
        frames: number of frames.
        alone: whether every frame is scored by itself.
    """
    return [
        replace(example, images=set_image_frames(example.images, frames, alone=alone))
        for example in examples
    ]


def set_image_frames(
    images: Iterable[ImageRef], frames: int, *, alone: bool
) -> tuple[ImageRef, ...]:
    """Images whose videos have so many frames; see `set_frames`."""

    def change(ref: ImageRef) -> ImageRef:
        if not isinstance(ref.source, VideoClip):
            return ref
        return ImageRef(ref.key, source=replace(ref.source, frames=frames, alone=alone))

    return tuple(map(change, images))


def parse_frames(frames: int | str) -> tuple[int, bool]:
    """Number of frames, and whether each is scored by itself: `8`, or `8:mean`.

    Raises:
        InputError: it has another form.
    """
    count, colon, word = str(frames).partition(":")
    digits = count.isascii() and count.isdecimal() and len(count) < 5
    if not digits or int(count) < 1 or word != (ALONE if colon else ""):
        raise InputError(
            f"{option('frames')} must be a number from 1 to {MAX_FRAMES}, or such as 8:mean; "
            f"found {frames!r}."
        )
    return int(count), word == ALONE


def _require_times(times: object, *, fewest: int = 0) -> tuple[float, ...]:
    """Check that times are several finite numbers.

    Raises:
        MalformedError: they are not.
    """
    values: tuple[object, ...] | None = None
    if isinstance(times, Iterable) and not isinstance(times, str | bytes | Mapping):
        values = tuple(islice(times, MAX_FRAMES + 1))
    if values is None or not fewest <= len(values) <= MAX_FRAMES:
        raise MalformedError(f"'times' must be a list of 1 to {MAX_FRAMES} seconds.")
    return tuple(require_number(f"times[{i}]", value) for i, value in enumerate(values))


def _moment(begin: float, end: float) -> float:
    """Time at which a frame is read: the middle of its show, or the beginning of a short one."""
    return begin if end - begin < SHORT_SHOW else (begin + end) / 2


def _probe(path: Path) -> VideoInfo:
    """Properties of a video; a file that has not changed is opened once.

    Raises:
        InputError: it is missing or cannot be read.
    """
    return _read_once(path, _probe_once)


def _list_frame_times(path: Path) -> tuple[float, ...]:
    """Seconds at which frames are first shown; a file that has not changed is read once.

    Raises:
        InputError: it is missing or cannot be read, or holds no frame.
    """
    return _read_once(path, _list_times_once)


def _read_once(path: Path, read: Callable[[Path, int, int], T]) -> T:
    """Read a file by a function that remembers the path, the time of change and the size.

    Raises:
        InputError: it is missing or cannot be read.
    """
    try:
        status = path.stat()
        return read(path, status.st_mtime_ns, status.st_size)
    except FileNotFoundError:
        raise InputError("the video is not there.", file=path) from None
    except OSError as error:
        raise InputError(f"the video cannot be read ({error.strerror}).", file=path) from None
    except InputError as error:
        subject = "" if error.message.startswith("the ") else "the video "
        raise InputError(f"{subject}{error.message}", file=path) from None


@lru_cache(maxsize=1 << 14)
def _probe_once(path: Path, changed: int, size: int) -> VideoInfo:
    """Properties of a file; time of change and size tell whether it is still the same."""
    from contrapose.data.video import probe_video

    return probe_video(path)


@lru_cache(maxsize=1 << 7)
def _list_times_once(path: Path, changed: int, size: int) -> tuple[float, ...]:
    """Seconds at which frames of a file are first shown; few files, as a long one has many."""
    from contrapose.data.video import list_frame_times

    return tuple(list_frame_times(path).tolist())


def _draw_strip(frames: Sequence[Image]) -> Image:
    from PIL import Image as ImageModule

    step = max(1, math.ceil(len(frames) / STRIP_FRAMES))
    shown = frames[::step]
    strip = ImageModule.new("RGB", (sum(f.width for f in shown), max(f.height for f in shown)))
    left = 0
    for frame in shown:
        strip.paste(frame, (left, 0))
        left += frame.width
    return strip
