"""Pairs from event boundaries of videos, in GEBC's form (EqBen, appendix B.2).

A boundary has a caption before and one after it. Frames either side of one boundary look nearly
alike, so that one boundary is skipped: the frame before boundary i is paired with the frame after
boundary i + 1, each from the middle of its segment. Captions with motion words are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from contrapose.build.video.filters import FrameFilters
from contrapose.build.video.sources import CandidatePair, Moment
from contrapose.data.boundaries import EventBoundary, read_boundaries
from contrapose.errors import InputError
from contrapose.files import Problems


def read_events(path: Path, problems: Problems) -> tuple[list[EventBoundary], dict[str, int]]:
    """Read the boundaries that have a caption before and after, with the counts.

    Raises:
        InputError: the file cannot be read, or holds no boundary with captions.
    """
    boundaries = list(read_boundaries(path, problems))
    if not boundaries:
        raise InputError("holds no boundaries.", file=path)
    captioned = [one for one in boundaries if one.before.strip() and one.after.strip()]
    if not captioned:
        raise InputError("holds no boundary with a caption before and after it.", file=path)
    return captioned, {"boundaries": len(boundaries), "boundaries with captions": len(captioned)}


def describe_status(subject: str, status: str) -> str:
    """Caption of a status, such as "Man in a black cap lifting his head."."""
    text = " ".join(f"{subject} {status}".split()).rstrip(". ")
    return f"{text[:1].upper()}{text[1:]}."


def pair_events(
    boundaries: Sequence[EventBoundary],
    filters: FrameFilters,
    *,
    skip: int = 1,
    same_subject: bool = True,
) -> dict[str, tuple[list[CandidatePair], Mapping[str, int]]]:
    """Candidate pairs of each video, with the counts before them.

    Args:
        boundaries: of all videos; those of one time are several annotations of one boundary.
        filters: motion words.
        skip: boundaries between the two frames, beside the first: 0 takes both sides of one.
        same_subject: only pairs whose captions are about the same subject.
    """
    videos: dict[str, dict[float, list[EventBoundary]]] = {}
    for one in boundaries:
        videos.setdefault(one.video, {}).setdefault(one.time, []).append(one)
    result: dict[str, tuple[list[CandidatePair], Mapping[str, int]]] = {}
    for video, by_time in videos.items():
        times = sorted(by_time)
        listed = [
            (first, second)
            for i in range(len(times) - skip)
            for first in by_time[times[i]]
            for second in by_time[times[i + skip]]
            if skip or first is second
        ]
        counts = {"boundary pairs": len(listed)}
        if same_subject:
            listed = [(a, b) for a, b in listed if _plain(a.subject) == _plain(b.subject)]
            counts["same subject"] = len(listed)
        pairs = [_candidate(first, second) for first, second in listed]
        pairs = [pair for pair in pairs if _plain(pair.captions[0]) != _plain(pair.captions[1])]
        counts["different captions"] = len(pairs)
        if filters.motion_words:
            pairs = [pair for pair in pairs if not any(map(filters.has_motion, pair.captions))]
            counts["no motion words"] = len(pairs)
        result[video] = (list({_identity(pair): pair for pair in pairs}.values()), counts)
    return result


def _candidate(first: EventBoundary, second: EventBoundary) -> CandidatePair:
    before = (first.earlier + first.time) / 2
    after = (second.time + second.later) / 2
    return CandidatePair(
        (_moment(before), _moment(after)),
        (
            describe_status(first.subject, first.before),
            describe_status(second.subject, second.after),
        ),
        {"boundary": first.id, "boundary_after": second.id, "label": first.label},
    )


def _moment(time: float) -> Moment:
    return Moment(f"{time:09.3f}", time=time)


def _identity(pair: CandidatePair) -> tuple[object, ...]:
    return (*(moment.key for moment in pair.moments), *pair.captions)


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(". ")
