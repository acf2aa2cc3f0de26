"""Frames of videos as images: a file and a time, named by the video's content.

Frames are opened many at once, so that a video is decoded once and not once for each frame.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from contrapose.data.images import ImageRef
from contrapose.data.video import VIDEO_SUFFIXES, find_frames
from contrapose.errors import InputError
from contrapose.files import require_regular, safe_join

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class FrameImage:
    """Image source: the frame that a video shows at a time.

    Attributes:
        path: the video.
        time: seconds from the first frame.
        pixels: pixels of a frame, so that few large ones are in memory at once; 0 if not known.
    """

    path: Path
    time: float
    pixels: int = field(default=0, compare=False)

    @property
    def content(self) -> str:
        """Content name: digest of the video, and the time.

        Raises:
            InputError: the video is missing or cannot be read.
        """
        return f"{video_digest(self.path)}@{self.time!r}"

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Decode frames; each video is opened once, and its frames are read in one pass.

        Raises:
            InputError: a video cannot be read, or has no frame at a time.
        """
        positions: dict[Path, list[int]] = {}
        for i, source in enumerate(sources):
            positions.setdefault(source.path, []).append(i)
        images: dict[int, Image] = {}
        for path, some in positions.items():
            try:
                frames = find_frames(path, [sources[i].time for i in some])
            except InputError as error:  # its message goes on after the file's name
                subject = "" if error.message.startswith("the ") else "the video "
                raise InputError(f"{subject}{error.message}", file=path) from None
            for i, frame in zip(some, frames, strict=True):
                if isinstance(frame, InputError):
                    raise missing_frame(frame, path)
                images[i] = frame
        return [images[i] for i in range(len(sources))]


def missing_frame(error: InputError, path: Path) -> InputError:
    """Error of a frame that a video does not have; its reason is the same for all videos."""
    return InputError(f"the video has no such frame ({error.message.rstrip('.')}).", file=path)


def frame_ref(key: str, path: Path, time: float, pixels: int = 0) -> ImageRef:
    """Reference to a frame; frames of one video have its name as their key, and are one cluster."""
    return ImageRef(key, source=FrameImage(path, time, pixels))


def video_digest(path: Path) -> str:
    """Digest of a video's bytes; a file that has not changed is read once.

    Raises:
        InputError: it is missing, or cannot be read.
    """
    require_regular(path)
    try:
        status = path.stat()
        return _digest(path, status.st_mtime_ns, status.st_size)
    except FileNotFoundError:
        raise InputError("the video is not there.", file=path) from None
    except OSError as error:
        raise InputError(f"the video cannot be read ({error.strerror}).", file=path) from None


@lru_cache(maxsize=1 << 16)
def _digest(path: Path, changed: int, size: int) -> str:
    """Digest of a file; time of change and size tell whether it is still the same."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


@dataclass(frozen=True)
class VideoFolder:
    """Folder of videos by name: `NAME.mp4`, or `NAME_000012_000022.mp4` as Kinetics has them.

    They may lie in folders below, such as one for each class. One that does not exist has none.

    Attributes:
        root: the folder.
    """

    root: Path

    def candidates(self, name: str) -> list[Path]:
        """Files of a video, named with or without suffix and time span.

        Raises:
            MalformedError: the name is no name of a file in the folder.
        """
        exact = safe_join(self.root, name)
        try:
            if exact.is_file():
                return [exact]
        except OSError:  # no name of a file: too long, say
            return []
        stem = name.replace("\\", "/").rpartition("/")[2]
        if stem.lower().endswith(VIDEO_SUFFIXES):
            stem = stem.rpartition(".")[0]
        return self._paths.get(stem) or self._clips.get(stem) or []

    def path(self, name: str) -> Path:
        """First file of a video; one that is not there gets the path that it should have.

        Raises:
            MalformedError: the name is no name of a file in the folder.
        """
        suffix = "" if name.lower().endswith(VIDEO_SUFFIXES) else VIDEO_SUFFIXES[0]
        return next(iter(self.candidates(name)), safe_join(self.root, f"{name}{suffix}"))

    @cached_property
    def _paths(self) -> dict[str, list[Path]]:
        """Video files by their name without suffix."""
        paths: dict[str, list[Path]] = {}
        visited: set[tuple[int, int]] = set()
        for folder, folders, files in os.walk(self.root, followlinks=True):
            status = Path(folder).stat()
            if (status.st_dev, status.st_ino) in visited:
                folders.clear()  # a link that leads back
                continue
            visited.add((status.st_dev, status.st_ino))
            folders.sort()
            for name in sorted(files):
                if name.lower().endswith(VIDEO_SUFFIXES):
                    paths.setdefault(name.rpartition(".")[0], []).append(Path(folder, name))
        return paths

    @cached_property
    def _clips(self) -> dict[str, list[Path]]:
        """Video files by the name of the video that they are a clip of."""
        clips: dict[str, list[Path]] = {}
        for stem, paths in self._paths.items():
            parts = stem.rsplit("_", 2)
            if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
                clips.setdefault(parts[0], []).extend(paths)
        return clips
