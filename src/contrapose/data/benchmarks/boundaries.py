"""Boundary grounding: when a video turns from one caption to the next (GEBC, EqSim's A.6).

An example is one boundary: the frames of its video at five a second, and the captions before and
after. The number of frames comes from the video; where it is missing or cannot be read, the last
time of its annotations stands for its end, and its examples are skipped when they are scored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from contrapose.data.benchmarks.common import find_folder, require_folder
from contrapose.data.boundaries import EventBoundary, read_boundaries
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Manual
from contrapose.data.examples import Example
from contrapose.data.images import ImageRef
from contrapose.data.video import probe_video
from contrapose.data.video_frames import VideoFolder, frame_ref
from contrapose.errors import InputError
from contrapose.files import MalformedError, Problem, Problems

FPS = 5.0
"""Frames a second, as in the paper."""

ANNOTATIONS = tuple(
    f"{folder}{name}.json"
    for name in ("boundaries", "val", "valset_highest_f1", "test", "testset_highest_f1")
    for folder in ("", "annotations/", "ann/")
)
"""Names of the annotation file, the first that exists; else the only JSON file of the folder."""

LONGEST = 4 * 3600.0
"""Seconds of the longest video."""

CARD = Card(
    name="boundaries",
    title="Boundary grounding: when does a video turn from one caption to the next?",
    paper="Wang et al., GEB+, ECCV 2022 (arXiv:2204.00486); measured as in Wang et al., "
    "Equivariant Similarity, ICCV 2023 (arXiv:2303.14465), appendix A.6",
    license="annotations and Kinetics-400 videos under their owners' terms",
    source="github.com/showlab/GEB-Plus (annotations); the Kinetics-400 videos they name",
    layout="val.json, or another GEBC file {video: [{boundary_id, timestamp, prev_timestamp,\n"
    "next_timestamp, label, subject, status_before, status_after}, …]}, here or in annotations/\n"
    "videos/ with VIDEO.mp4 or VIDEO_000012_000022.mp4 (.mkv, .webm, .avi, …)",
    download=Manual(
        "https://github.com/showlab/GEB-Plus",
        "fetch the annotations from its links, and the Kinetics-400 videos that they name",
    ),
    shape="frames × 2",
    family="boundaries",
    counts={},
    aggregation=Micro(),
    chance={},
    tags={
        "label": "what changes: action, subject, object, color, or several of them",
        "video": "name of the video",
        "time": "true time of the boundary, in seconds",
        "first": "time of the first frame, in seconds",
        "fps": "frames a second",
    },
    by=("label",),
)

SEGMENT = replace(
    CARD,
    name="boundaries-segment",
    title="Boundary grounding: the same from the previous boundary to the next one alone",
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the boundaries, each with all frames of its video."""
    return _read_examples(root, problems, segment=False)


def read_segments(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the boundaries, each with the frames from the previous boundary to the next one."""
    return _read_examples(root, problems, segment=True)


def _read_examples(root: Path, problems: Problems, *, segment: bool) -> Iterator[Example]:
    """Build the examples video by video; boundaries without captions are no tasks."""
    path = _find_annotations(root)
    videos = VideoFolder(find_folder(root, "videos", "video"))
    boundaries = read_boundaries(path, problems)
    for video, some in groupby(boundaries, key=lambda boundary: boundary.video):
        listed = list(some)
        tasks = [one for one in listed if one.before.strip() and one.after.strip()]
        if not tasks:
            continue
        try:
            frames = _list_frames(video, videos.path(video), listed)
            examples = [_build_example(task, frames, segment=segment) for task in tasks]
        except MalformedError as error:
            problems.report(Problem("malformed record", str(error), path))
            continue
        yield from examples


def _find_annotations(root: Path) -> Path:
    require_folder(root)
    known = [root / name for name in ANNOTATIONS if (root / name).is_file()]
    others = sorted(root.glob("*.json"))
    if not known and len(others) != 1:
        many = f"holds {len(others)} JSON files" if others else "holds no JSON file"
        raise InputError(f"{many}; expected the boundaries in val.json.", file=root)
    return (known or others)[0]


@dataclass(frozen=True, slots=True)
class VideoFrames:
    """Frames of a video at a constant rate.

    Attributes:
        frames: references to the frames, and to those that boundaries past the end would need.
        count: how many of them the video has.
    """

    frames: tuple[ImageRef, ...]
    count: int


def _list_frames(video: str, path: Path, boundaries: Sequence[EventBoundary]) -> VideoFrames:
    """List the frames of a video.

    The last half interval is left out: containers round durations up.

    Raises:
        MalformedError: the video or its annotations are too long.
    """
    end, pixels = max(boundary.later for boundary in boundaries), 0
    try:
        info = probe_video(path)
    except InputError:  # the reason is reported where its frames are opened
        pass
    else:
        end, pixels = info.duration, info.width * info.height
    latest = max(boundary.time for boundary in boundaries)
    if max(end, latest) > LONGEST:
        raise MalformedError(
            f"video {video}: {max(end, latest):,.0f} s are too long; cut it to {LONGEST:,.0f} s."
        )
    count = max(2, math.ceil((end - 0.5 / FPS) * FPS - 1e-6))
    more = math.ceil(latest * FPS) + 1 if latest > end + 1 / FPS else 0
    frames = (frame_ref(video, path, i / FPS, pixels) for i in range(max(count, more)))
    return VideoFrames(tuple(frames), count)


def _build_example(boundary: EventBoundary, video: VideoFrames, *, segment: bool) -> Example:
    """Build the example of a boundary; one past the end has frames that the video has not."""
    past = boundary.time > (video.count + 1) / FPS
    first, last = 0, len(video.frames) if past else video.count
    if segment:
        first = max(0, math.floor(boundary.earlier * FPS))
        last = min(last, math.ceil(boundary.later * FPS) + 1)
        first = min(first, last - 2)
    return Example(
        boundary.id,
        video.frames[first:last],
        boundary.captions,
        tuple((i / FPS < boundary.time, i / FPS >= boundary.time) for i in range(first, last)),
        {
            "label": boundary.label,
            "video": boundary.video,
            "time": repr(boundary.time),
            "first": repr(first / FPS),
            "fps": repr(FPS),
        },
    )


BENCHMARKS = {
    "boundaries": Benchmark(CARD, read),
    "boundaries-segment": Benchmark(SEGMENT, read_segments),
}
