"""Images and videos of user files: names, and the spans and frames of videos.

A video is named by `video`, or by `image` and the ending of its name. `start` and `end`, `frames`,
`times` and `unit` beside it say which frames are read; in a list `images` they stand in an object
with the name: `{"video": "a.mp4", "start": 2, "end": 6}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from contrapose.data.benchmarks.user_fields import parse_structure
from contrapose.data.images import ImageRef
from contrapose.data.video import VIDEO_SUFFIXES
from contrapose.data.video_clips import VideoRef
from contrapose.files import MalformedError, Record, safe_join

SPAN_FIELDS = ("start", "end", "frames", "times", "unit")
"""Fields that say which frames of a video are read."""

VIDEO_FIELDS = ("video", *SPAN_FIELDS)
EMPTY = (None, "")


class ImageReader(Protocol):
    """Reader of names of images.

    Attributes:
        root: what names are relative to.
    """

    root: Path

    def image(self, name: str) -> ImageRef:
        """Reference the image or video of a name."""


def is_video_name(name: str) -> bool:
    """Whether a file's name ends as that of a video."""
    return name.lower().endswith(VIDEO_SUFFIXES)


def read_video(record: Record, reader: ImageReader) -> ImageRef | None:
    """Reference the video of a record's field `video`; None where it has none.

    Raises:
        MalformedError: there is an image too, or a value is not possible.
    """
    fields: Mapping[str, Any] = record.value
    if fields.get("video") in EMPTY:
        return None
    if any(fields.get(name) not in EMPTY for name in ("image", "images")):
        raise MalformedError(
            f"record {record.key}: 'video' and 'image' name two things for one place: leave one "
            "out, or write both in a list 'images'."
        )
    return _reference(record, record.text("video"), reader)


def read_entry(record: Record, entry: Any, reader: ImageReader) -> ImageRef:
    """Reference an entry of `images`: a name, or an object of a name and the frames of a video.

    Raises:
        MalformedError: a value is not possible.
    """
    if isinstance(entry, str) and entry.strip():
        return reader.image(entry)
    if not isinstance(entry, dict):
        raise MalformedError(
            f"record {record.key}: 'images' must be names, or objects such as "
            '{"video": "a.mp4", "start": 2, "end": 6}.'
        )
    unknown = [name for name in entry if name not in (*VIDEO_FIELDS, "image")]
    if unknown:
        raise MalformedError(
            f"record {record.key}: an entry of 'images' has the unknown field {unknown[0]!r:.40}; "
            f"the fields are image, {', '.join(VIDEO_FIELDS)}."
        )
    inner = record.inner(entry)
    video = read_video(inner, reader)
    if video is not None:
        return video
    name = inner.text("image")
    if is_video_name(name):
        return _reference(inner, name, reader)
    if has_span(entry):
        raise MalformedError(
            f"record {record.key}: {name!r:.60} is no video by its name, and has times: name it by "
            "'video'."
        )
    return reader.image(name)


def apply_span(
    record: Record, refs: tuple[ImageRef, ...], reader: ImageReader
) -> tuple[ImageRef, ...]:
    """References of a record with the frames that its own fields say, where one is a video.

    A field such as `start` beside images is none of ours.

    Raises:
        MalformedError: a value is not possible, or there are several images.
    """
    videos = [ref for ref in refs if isinstance(ref, VideoRef)]
    if not videos or not has_span(record.value):
        return refs
    if len(refs) > 1:
        raise MalformedError(
            f"record {record.key}: {_name_fields(record.value)} beside several images: write "
            '{"video": …, "start": …} in \'images\' for each.'
        )
    return (_reference(record, videos[0].key, reader),)


def has_span(fields: Mapping[str, Any]) -> bool:
    """Whether fields say which frames of a video are read."""
    return any(fields.get(name) not in EMPTY for name in SPAN_FIELDS)


def _name_fields(fields: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in SPAN_FIELDS if fields.get(name) not in EMPTY)


def _reference(record: Record, name: str, reader: ImageReader) -> VideoRef:
    """Reference a video with the frames that the fields of a record say."""
    fields: Mapping[str, Any] = record.value
    given = [field for field in SPAN_FIELDS if fields.get(field) not in EMPTY]
    path = safe_join(reader.root, name)
    if "times" in given:
        if len(given) > 1:
            raise MalformedError(
                f"record {record.key}: 'times' says which frames are read: leave out "
                f"{_name_fields({**fields, 'times': None})}."
            )
        return _build(record, path, name, times=parse_structure(record, "times"))
    unit: Any = fields.get("unit") if "unit" in given else "seconds"
    return _build(
        record,
        path,
        name,
        frames=record.integer("frames") if "frames" in given else None,
        start=record.number("start") if "start" in given else 0.0,
        end=record.number("end") if "end" in given else None,
        unit=unit,
    )


def _build(
    record: Record,
    path: Path,
    name: str,
    *,
    frames: int | None = None,
    times: Iterable[float] | None = None,
    start: float = 0.0,
    end: float | None = None,
    unit: Literal["seconds", "frames"] = "seconds",
) -> VideoRef:
    try:
        return VideoRef(path, key=name, frames=frames, times=times, start=start, end=end, unit=unit)
    except MalformedError as error:
        raise MalformedError(f"record {record.key}: {error}") from None
