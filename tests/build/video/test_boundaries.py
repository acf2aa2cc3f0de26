from __future__ import annotations

from pathlib import Path

import pytest

from contrapose.build.video.boundaries import describe_status, pair_events, read_events
from contrapose.build.video.filters import MOTION_WORDS, FrameFilters
from contrapose.data.boundaries import EventBoundary
from contrapose.errors import InputError
from contrapose.files import StrictProblems

PLAIN, MOTION = FrameFilters(), FrameFilters(motion_words=MOTION_WORDS)


def boundary(
    number: int, before: str, after: str, *, subject: str = "man", annotator: str = "A"
) -> EventBoundary:
    time = 2.0 * (number + 1)
    return EventBoundary(
        f"v_{number}{annotator}", "v", time, time - 2, time + 2, "Change of Action", subject,
        before, after,
    )  # fmt: skip


EVENTS = [
    boundary(0, "sitting", "standing"),
    boundary(1, "standing", "jumping"),
    boundary(2, "jumping", "looking up"),
]


def test_one_boundary_is_skipped() -> None:
    pairs, counts = pair_events(EVENTS, PLAIN)["v"]
    assert [pair.captions for pair in pairs] == [
        ("Man sitting.", "Man jumping."),
        ("Man standing.", "Man looking up."),
    ]
    assert [[moment.time for moment in pair.moments] for pair in pairs] == [[1.0, 5.0], [3.0, 7.0]]
    assert counts == {"boundary pairs": 2, "same subject": 2, "different captions": 2}


def test_both_sides_of_one_boundary() -> None:
    pairs, _ = pair_events(EVENTS, PLAIN, skip=0)["v"]
    assert [pair.captions[1] for pair in pairs] == [
        "Man standing.", "Man jumping.", "Man looking up.",
    ]  # fmt: skip
    assert [moment.time for moment in pairs[0].moments] == [1.0, 3.0]


def test_motion_words_are_dropped() -> None:
    pairs, counts = pair_events(EVENTS, MOTION)["v"]
    assert [pair.captions[1] for pair in pairs] == ["Man jumping."]
    assert counts["no motion words"] == 1


def test_subjects() -> None:
    events = [*EVENTS[:2], boundary(1, "barking", "sleeping", subject="dog", annotator="B")]
    assert len(pair_events(events, PLAIN)["v"][0]) == 1
    pairs, counts = pair_events(events, PLAIN, same_subject=False)["v"]
    assert {pair.captions[1] for pair in pairs} == {"Man jumping.", "Dog sleeping."}
    assert "same subject" not in counts


def test_equal_captions_are_dropped() -> None:
    events = [boundary(0, "dancing", "resting"), boundary(1, "resting", "Dancing.")]
    assert pair_events(events, PLAIN)["v"] == (
        [],
        {"boundary pairs": 1, "same subject": 1, "different captions": 0},
    )


def test_caption() -> None:
    text = describe_status("man in  a black cap", "lifting his head. ")
    assert text == "Man in a black cap lifting his head."
    assert describe_status("", "raining") == "Raining."


def test_without_captions(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text("{}")
    with pytest.raises(InputError, match="no boundaries"):
        read_events(path, StrictProblems())


def test_released_file(shared: Path) -> None:
    events, counts = read_events(shared / "gebc" / "val.json", StrictProblems())
    assert counts["boundaries"] == 7279
    candidates = pair_events(events, MOTION)
    assert len(candidates) == 2082
    pairs = [pair for some, _ in candidates.values() for pair in some]
    assert len(pairs) > 500
    assert not any(MOTION.has_motion(text) for pair in pairs for text in pair.captions)
    assert all(pair.moments[0].key < pair.moments[1].key for pair in pairs)
