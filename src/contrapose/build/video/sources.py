"""Videos as sources of minimal pairs: find the file, read the frames, filter frames and pairs.

A builder of this package turns annotations into candidate pairs, which name moments of a video;
here they become pairs with images. A video that is missing or cannot be read is no failure of the
build: the reason goes into the manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from contrapose.build.captions.balance import BlindTest
from contrapose.build.minimal_pairs import (
    MinimalPair,
    PairImage,
    PairSetBuild,
    PairSource,
    SourcePairs,
    file_name,
)
from contrapose.build.video.filters import FrameFilters, perceptual_hash, require_face_detector
from contrapose.data.images import ImageRef, open_image
from contrapose.data.pixels import shrink_image
from contrapose.data.video import (
    frame_time,
    iterate_frames,
    probe_video,
)
from contrapose.data.video_files import load_decoder
from contrapose.data.video_frames import VideoFolder
from contrapose.errors import InputError, printable
from contrapose.files import MalformedError, resolve_name, safe_join

if TYPE_CHECKING:
    from PIL.Image import Image

FRAME_FOLDERS = ("frames", "")
"""Folders below that of the videos in which the frames of a video may lie, as images."""
PROBLEMS = 5
"""Reasons of one video that are listed."""
RATE_SLACK = 0.01
"""Share by which a frame rate may differ from the stated one."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Moment of a video.

    Attributes:
        key: its name, such as `000089`; equal keys are the same moment.
        time: seconds from the first frame; None for a frame that has a number.
        number: number of the frame, from 0; None for a frame that has a time.
    """

    key: str
    time: float | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class CandidatePair:
    """Two moments of a video with their captions, before a frame is read.

    Attributes:
        moments: the two moments.
        captions: the caption of each.
        tags: how the pair came about.
        group: see `MinimalPair`.
    """

    moments: tuple[Moment, Moment]
    captions: tuple[str, str]
    tags: Mapping[str, str] = field(default_factory=dict)
    group: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VideoSettings:
    """Settings that the builders from videos share.

    Attributes:
        filters: of frames and captions.
        fps: frames a second by which frames are numbered; None takes each video's own rate.
        per_video: most pairs of a video, drawn at random; None for all.
        side: most pixels of an image's shorter side; None keeps frames as they are.
        seed: of everything random.
        image_format: of the written images.
        quality: of JPEG images.
        workers: videos at a time; None takes one for each core.
    """

    filters: FrameFilters = field(default_factory=FrameFilters)
    fps: float | None = None
    per_video: int | None = None
    side: int | None = None
    seed: int = 0
    image_format: Literal["png", "jpeg"] = "png"
    quality: int = 95
    workers: int | None = None

    def build(
        self, builder: str, subset: str, annotations: Path, counts: Mapping[str, int], **more: Any
    ) -> PairSetBuild:
        """Settings of the pair set; `more` are parameters of one builder.

        Raises:
            MissingExtraError: PyAV, or the face detector that is needed, is not installed.
        """
        load_decoder()
        if self.filters.faces:
            require_face_detector()
        return PairSetBuild(
            builder=builder,
            subset=subset,
            source=annotations.name,
            sha256=hashlib.sha256(annotations.read_bytes()).hexdigest(),
            parameters={
                **more,
                **asdict(self.filters),
                "fps": self.fps,
                "per_video": self.per_video,
                "side": self.side,
            },
            counts=counts,
            seed=self.seed,
            image_format=self.image_format,
            quality=self.quality,
            workers=self.workers,
            test=BlindTest(seed=self.seed),
        )


@dataclass(frozen=True)
class VideoLibrary(VideoFolder):
    """Folder of videos, or of their frames as images, that a builder reads."""

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise InputError("is not a folder of videos.", file=self.root)

    def find_video(self, name: str) -> Path:
        """Find the file of a video by its name.

        Raises:
            InputError: there is none, or several.
        """
        try:
            paths = self.candidates(name)
        except MalformedError as error:
            raise InputError(str(error)) from None
        if not paths:
            raise InputError(f"no video {name!r} is in {self.root.name or self.root}.")
        if len(paths) > 1:
            names = ", ".join(path.relative_to(self.root).as_posix() for path in paths[:3])
            raise InputError(f"the video {name!r} is there more than once: {names}.")
        return paths[0]

    def find_frames(self, name: str) -> Path | None:
        """Find the folder of a video's frames: `frames/NAME` or `NAME`; None where there is none.

        Raises:
            InputError: the name leads out of the folder.
        """
        for folder in FRAME_FOLDERS:
            try:
                path = safe_join(self.root / folder, name)
            except MalformedError as error:
                raise InputError(str(error)) from None
            if path.is_dir():
                return path
        return None


def make_sources(
    candidates: Mapping[str, tuple[Sequence[CandidatePair], Mapping[str, int]]],
    folder: VideoLibrary,
    settings: VideoSettings,
) -> list[PairSource]:
    """Sources of all videos: name → its candidate pairs and the counts before them.

    A fingerprint holds the candidates and the size and time of change of the files.
    """
    sources = []
    for name, (pairs, counts) in candidates.items():
        files = _file_state(folder, name, pairs)
        known = {"videos": 1, "videos in the folder": int(bool(files)), **counts}
        sources.append(
            PairSource(
                name,
                hashlib.sha256(f"{pairs!r}\n{files}".encode()).hexdigest(),
                partial(make_pairs, name, pairs, folder, settings),
                {**known, "pairs of frames": len(pairs)},
                ready=bool(pairs and files),
            )
        )
    return sources


def make_pairs(
    name: str,
    candidates: Sequence[CandidatePair],
    folder: VideoLibrary,
    settings: VideoSettings,
) -> SourcePairs:
    """Read the frames of a video's candidate pairs, and keep what the filters let through."""
    filters = settings.filters
    tally: dict[str, int] = {}
    moments = list({m.key: m for pair in candidates for m in pair.moments}.values())
    images: dict[str, Image] = {}
    dropped: dict[str, str] = {}
    problems: list[str] = []
    notes: tuple[str, ...] = ()
    try:
        notes = _note_rate(name, folder, settings)
        for moment, image in _read_moments(name, moments, folder, settings):
            if isinstance(image, InputError):
                problems.append(_reason(image))
                continue
            reason = filters.check(image)
            if reason is None:
                images[moment.key] = image
            else:
                dropped[moment.key] = reason
    except InputError as error:
        images.clear()
        dropped.clear()
        problems = [_reason(error)]
    pairs = list(candidates)
    for label, bad in (
        ("both frames read", None),
        *([("no faces", "faces")] if filters.faces else []),
        *([("sharp", "blur")] if filters.blur > 0 else []),
    ):
        pairs = [
            pair
            for pair in pairs
            if all(
                m.key in images or (m.key in dropped and dropped[m.key] != bad)
                for m in pair.moments
            )
        ]
        tally[label] = len(pairs)
    if filters.duplicates >= 0:
        hashes = {key: perceptual_hash(image) for key, image in images.items()}
        pairs = [
            pair
            for pair in pairs
            if not filters.are_duplicates(*(hashes[moment.key] for moment in pair.moments))
        ]
        tally["no near-duplicates"] = len(pairs)
    if settings.per_video is not None:
        pairs = _draw_pairs(name, pairs, settings.per_video, settings.seed)
        tally["drawn"] = len(pairs)
    return SourcePairs(
        [_minimal_pair(name, number, pair, images) for number, pair in enumerate(pairs)],
        tally,
        _shorten(problems),
        notes,
    )


def _read_moments(
    name: str, moments: Sequence[Moment], folder: VideoLibrary, settings: VideoSettings
) -> Iterable[tuple[Moment, Image | InputError]]:
    """Read the frames of moments, each with its image or the reason why there is none."""
    if not moments:
        return
    frames = folder.find_frames(name)
    if frames is not None:
        for moment in moments:
            path = safe_join(frames, f"{moment.key}.png")
            try:
                frame = open_image(ImageRef(moment.key, path))
            except InputError as error:
                yield moment, error
            else:
                yield moment, shrink_image(frame, settings.side)
        return
    path = folder.find_video(name)
    rate = settings.fps or probe_video(path).fps
    times = [
        moment.time if moment.time is not None else frame_time(moment.number or 0, rate)
        for moment in moments
    ]
    for index, image in iterate_frames(path, times, side=settings.side):
        if isinstance(image, InputError) and moments[index].number is not None:
            message = image.message.rstrip(".")
            where = f"frame {moments[index].key} at {rate:g} frames a second"
            yield moments[index], InputError(f"{message} ({where}).", file=path)
        else:
            yield moments[index], image


def _note_rate(name: str, folder: VideoLibrary, settings: VideoSettings) -> tuple[str, ...]:
    """Note on a video whose frames are numbered at another rate than its own."""
    if settings.fps is None or folder.find_frames(name) is not None:
        return ()
    rate = probe_video(folder.find_video(name)).fps
    if abs(rate - settings.fps) <= RATE_SLACK * rate:
        return ()
    return (f"has {rate:g} frames a second, and they were numbered at {settings.fps:g}",)


def _reason(error: InputError) -> str:
    """Reason in one line, with the name of the file and not its path on this machine."""
    text = " ".join(error.message.split())
    return printable(text if error.file is None else f"{Path(error.file).name}: {text}")


def _draw_pairs(
    name: str, pairs: Sequence[CandidatePair], most: int, seed: int
) -> list[CandidatePair]:
    """Draw so many pairs of a video; other videos change nothing."""
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
    order = np.random.default_rng([seed, key]).permutation(len(pairs))[:most]
    return [pairs[i] for i in sorted(order.tolist())]


def _minimal_pair(
    name: str, number: int, pair: CandidatePair, images: Mapping[str, Image]
) -> MinimalPair:
    first, second = (
        PairImage(f"{file_name(name)}/{file_name(moment.key)}", images[moment.key])
        for moment in pair.moments
    )
    tags = {"video": name, **pair.tags}
    return MinimalPair(f"{name}/{number}", (first, second), pair.captions, tags, pair.group)


def _shorten(problems: Sequence[str]) -> tuple[str, ...]:
    if len(problems) <= PROBLEMS:
        return tuple(problems)
    return (*problems[:PROBLEMS], f"and {len(problems) - PROBLEMS} more frames")


def _file_state(folder: VideoLibrary, name: str, pairs: Sequence[CandidatePair]) -> list[Any]:
    """Size and time of change of a video's files."""
    try:
        frames = folder.find_frames(name)
        if frames is None:
            paths: Iterable[Path | None] = [folder.find_video(name)]
        else:
            keys = sorted({moment.key for pair in pairs for moment in pair.moments})
            paths = [resolve_name(safe_join(frames, f"{key}.png")) for key in keys]
        stats = [None if path is None else path.stat() for path in paths]
    except (InputError, OSError, MalformedError):
        return []
    return [None if one is None else (one.st_size, one.st_mtime_ns) for one in stats]
