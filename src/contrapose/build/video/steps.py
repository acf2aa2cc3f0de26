"""Pairs from the steps of instruction videos, in YouCook2's form (EqBen, appendix B.3).

    {"database": {"VIDEO": {"annotations": [{"segment": [90, 102], "sentence": "…"}, …]}, …}}

The middle frame of a step belongs to its sentence; any two steps of a video are a pair. Frames that
show a face are dropped: they show the cook and not the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from contrapose.build.video.filters import FrameFilters
from contrapose.build.video.sources import CandidatePair, Moment
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problem,
    Problems,
    Record,
    parse_records,
    read_json_records,
)

DATABASE = "database"


@dataclass(frozen=True, slots=True)
class VideoStep:
    """Step of an instruction video.

    Attributes:
        video: name of the video.
        number: of the step, from 0.
        start: seconds.
        end: seconds.
        sentence: what is done.
    """

    video: str
    number: int
    start: float
    end: float
    sentence: str


def read_steps(path: Path, problems: Problems) -> tuple[list[VideoStep], dict[str, int]]:
    """Read the steps of all videos, in file order, with the counts.

    Raises:
        InputError: the file cannot be read, or holds no steps.
    """
    steps: list[VideoStep] = []
    for record in read_json_records(path, problems, DATABASE):
        value = record.value.get("annotations", []) if isinstance(record.value, dict) else None
        if not isinstance(value, list):
            message = f"record {record.key}: expected an object with a list of annotations."
            problems.report(Problem("malformed record", message, record.file, record.line))
            continue
        inner = (record.inner(one, f"{record.key}/{i}") for i, one in enumerate(value))
        steps += parse_records(inner, _parse_step, problems)
    if not steps:
        raise InputError("holds no steps with a segment and a sentence.", file=path)
    return steps, {"steps": len(steps)}


def _parse_step(record: Record) -> VideoStep:
    video, _, number = record.key.rpartition("/")
    segment = record.field("segment")
    if not isinstance(segment, list) or len(segment) != 2:
        raise MalformedError(f"record {record.key}: 'segment' must be two times.")
    ends = record.inner(dict(zip(("start", "end"), segment, strict=True)))
    start, end = ends.number("start"), ends.number("end")
    if not 0 <= start <= end:
        raise MalformedError(f"record {record.key}: the segment {start}–{end} s is no span.")
    return VideoStep(video, int(number), start, end, " ".join(record.text("sentence").split()))


def pair_steps(
    steps: Sequence[VideoStep], filters: FrameFilters
) -> dict[str, tuple[list[CandidatePair], Mapping[str, int]]]:
    """Candidate pairs of each video, with the counts before them."""
    videos: dict[str, list[VideoStep]] = {}
    for step in steps:
        videos.setdefault(step.video, []).append(step)
    result: dict[str, tuple[list[CandidatePair], Mapping[str, int]]] = {}
    for video, listed in videos.items():
        pairs = [_candidate(first, second) for first, second in combinations(listed, 2)]
        counts = {"pairs of steps": len(pairs)}
        pairs = [
            pair for pair in pairs if pair.captions[0].casefold() != pair.captions[1].casefold()
        ]
        counts["different captions"] = len(pairs)
        if filters.motion_words:
            pairs = [pair for pair in pairs if not any(map(filters.has_motion, pair.captions))]
            counts["no motion words"] = len(pairs)
        result[video] = (pairs, counts)
    return result


def _candidate(first: VideoStep, second: VideoStep) -> CandidatePair:
    return CandidatePair(
        (_moment(first), _moment(second)),
        (first.sentence, second.sentence),
        {"step": str(first.number), "step_after": str(second.number)},
    )


def _moment(step: VideoStep) -> Moment:
    time = (step.start + step.end) / 2
    return Moment(f"{time:09.3f}", time=time)
