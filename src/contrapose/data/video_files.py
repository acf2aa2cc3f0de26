"""Video files: the container that PyAV opens, the stream with the video, and errors in a sentence.

Only containers that hold their own frames are opened: a playlist, which could name any file or
address, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose.data.pixels import pixel_limit, require_size
from contrapose.errors import InputError, MissingExtraError, first_line
from contrapose.files import require_regular

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

FORMATS = "mov,mp4,matroska,webm,avi,mpeg,mpegvideo,mpegts,flv,ogg,asf,3gp,nut"
"""Containers that are opened: each holds its own frames."""


@contextmanager
def describe_errors(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a video into one sentence that names its file.

    Raises:
        InputError: the file is missing, empty or damaged, or holds no video.
    """
    try:
        yield
    except InputError as error:
        raise InputError(error.message, file=path) from None
    except decoding_errors() as error:
        raise InputError(f"cannot be decoded ({describe_reason(error)}).", file=path) from None


def open_stream(path: Path) -> tuple[InputContainer, VideoStream]:
    """Open a container and choose its video, which is not the cover of a song.

    Raises:
        InputError: the file is missing, empty or damaged, or holds no video.
    """
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
    except av.error.ArgumentError:  # FFmpeg's word on a format that FORMATS lacks
        raise InputError(
            "is no video that can be read (it is damaged, or its format is none of "
            f"{FORMATS.replace(',', ', ')})."
        ) from None
    except decoding_errors() as error:
        raise InputError(f"is no video that can be read ({describe_reason(error)}).") from None
    picture = av.stream.Disposition.attached_pic
    streams = [one for one in container.streams.video if not one.disposition & picture]
    try:
        if not any(one.codec_context for one in container.streams):
            raise InputError("is incomplete or damaged, or holds neither video nor sound.")
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


def decoding_errors() -> tuple[type[Exception], ...]:
    """Errors of opening and decoding."""
    import av

    return (av.error.FFmpegError, OSError, ValueError, ArithmeticError, MemoryError)


def describe_reason(error: Exception) -> str:
    """Reason of an error of opening or decoding, without number and path."""
    return str(getattr(error, "strerror", None) or first_line(error)).rstrip(". ")
