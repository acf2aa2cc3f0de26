"""Event boundaries in videos, from GEBC annotation files: the status before and after each.

Boundary grounding is measured on them (`contrapose.metrics.boundary_grounding`), and pairs of
frames are cut from the videos at them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from contrapose.files import (
    MalformedError,
    Problem,
    Problems,
    Record,
    parse_records,
    read_json_records,
)


@dataclass(frozen=True, slots=True)
class EventBoundary:
    """Event boundary: a moment at which something in a video changes.

    Attributes:
        id: unique within the file.
        video: name of the video.
        time: time of the change, in seconds.
        earlier: time of the boundary before, or of the start.
        later: time of the boundary after, or of the end.
        label: kind of change.
        subject: person or thing that changes.
        before: status of the subject before.
        after: status of the subject after.
    """

    id: str
    video: str
    time: float
    earlier: float
    later: float
    label: str
    subject: str
    before: str
    after: str

    @property
    def captions(self) -> tuple[str, str]:
        """Captions before and after: the subject with its status."""
        before, after = (f"{self.subject} {text}".strip() for text in (self.before, self.after))
        return before, after


def read_boundaries(path: Path, problems: Problems) -> Iterator[EventBoundary]:
    """Read the boundaries of a GEBC file, `{video: [boundary, …]}`, in file order.

    A boundary between shots, where no subject goes through, has empty texts.
    """

    def build(record: Record) -> EventBoundary:
        video = record.key.rpartition("/")[0]
        earlier, time, later = (
            record.number(name) for name in ("prev_timestamp", "timestamp", "next_timestamp")
        )
        if not earlier <= time <= later:
            raise MalformedError(
                f"record {record.key}: {time} s does not lie between its neighbours."
            )
        texts = [
            str(record.value.get(name) or "")
            for name in ("subject", "status_before", "status_after")
        ]
        return EventBoundary(
            record.text("boundary_id"), video, time, earlier, later, record.text("label"), *texts
        )

    for record in read_json_records(path, problems):
        if not isinstance(record.value, list):
            message = f"record {record.key}: expected a list of boundaries."
            problems.report(Problem("malformed record", message, record.file, record.line))
            continue
        inner = (record.inner(value, f"{record.key}/{i}") for i, value in enumerate(record.value))
        yield from parse_records(inner, build, problems)
