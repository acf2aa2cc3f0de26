"""Score files that hold one pair a row: parsed, then laid into the frame of the examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrapose.data import TagValue
from contrapose.errors import InputError
from contrapose.metrics import FloatArray, IntArray
from contrapose.scoring.answers import Frame

Position = int | str | None
"""Which image or caption of an example a row speaks of: its position, its name, or "the only"."""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One score.

    Attributes:
        example: id of the example.
        image: which of its images; None when it has one.
        text: which of its captions.
        score: the score.
        line: the line of the file.
        tags: what the row itself says of its example.
    """

    example: str
    image: Position
    text: Position
    score: float
    line: int
    tags: tuple[tuple[str, TagValue], ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreRows:
    """All rows of a score file."""

    file: Path
    rows: Sequence[ScoreRow]

    def examples(self) -> tuple[list[str], dict[str, list[TagValue]]]:
        """The ids in the order of their first row, and the tags that the rows give them."""
        tags_of: dict[str, dict[str, TagValue]] = {}
        for row in self.rows:
            tags_of.setdefault(row.example, {}).update(row.tags)
        names = dict.fromkeys(name for tags in tags_of.values() for name in tags)
        ids = list(tags_of)
        return ids, {name: [tags_of[i].get(name, "") for i in ids] for name in names}


def lay(rows: ScoreRows, frame: Frame, *, partial: bool) -> tuple[FloatArray, IntArray]:
    """Put every score in its place.

    Returns:
        The k × m × n scores, and the positions of the examples that have all of theirs: all of
        them, unless `partial` lets examples without any score be left out.

    Raises:
        InputError: a row names an unknown example, image or caption, a pair comes twice, or a
            pair is missing.
    """
    index = {name: i for i, name in enumerate(frame.ids)}
    images_of = frame.present[:, :, 0].sum(axis=1).tolist()
    texts_of = frame.present[:, 0, :].sum(axis=1).tolist()
    places: dict[tuple[int, int, int], float] = {}
    for row in rows.rows:
        example = index.get(row.example)
        if example is None:
            raise InputError(
                f"the example {row.example!r} is not in the benchmark.",
                file=rows.file,
                line=row.line,
            )
        keys = None if frame.image_keys is None else frame.image_keys[example]
        texts = None if frame.texts is None else frame.texts[example]
        image = _position(row.image, images_of[example], keys, "image", row, rows.file)
        text = _position(row.text, texts_of[example], texts, "caption", row, rows.file)
        if (example, image, text) in places:
            raise InputError(
                f"example {row.example}: image {image} with caption {text} comes twice.",
                file=rows.file,
                line=row.line,
            )
        places[example, image, text] = row.score
    scores = np.full(frame.match.shape, np.nan)
    if places:
        scores[tuple(np.array(list(places)).T)] = list(places.values())
    return scores, complete(scores, frame, rows.file, partial=partial)


def complete(scores: FloatArray, frame: Frame, file: Path, *, partial: bool) -> IntArray:
    """Positions of the examples with all their scores; complains about those with holes."""
    missing = np.isnan(scores) & frame.present
    holes = missing.any(axis=(1, 2))
    absent = (missing == frame.present).all(axis=(1, 2))
    torn = np.flatnonzero(holes & ~absent)
    if torn.size:
        example = int(torn[0])
        image, text = (int(i) for i in np.argwhere(missing[example])[0])
        more = f" ({torn.size} examples have holes)" if torn.size > 1 else ""
        raise InputError(
            f"example {frame.ids[example]}: the score of image {image} with caption {text} "
            f"is missing{more}.",
            file=file,
        )
    if absent.any() and not partial:
        named = [frame.ids[i] for i in np.flatnonzero(absent)[:3]]
        raise InputError(
            f"{int(absent.sum())} of {len(frame)} examples have no scores "
            f"({', '.join(named)}{', …' if absent.sum() > 3 else ''}); "
            "pass --partial to report the others alone.",
            file=file,
        )
    if absent.all():
        raise InputError("holds no score for any example of the benchmark.", file=file)
    return np.flatnonzero(~absent)


def _position(
    named: Position,
    count: int,
    names: tuple[str, ...] | None,
    what: str,
    row: ScoreRow,
    file: Path,
) -> int:
    """Turn a position, a name, or nothing into a position."""
    if named is None and count == 1:
        return 0
    found: Iterator[int] = iter(())
    if isinstance(named, int):
        found = iter((named,) if 0 <= named < count else ())
    elif isinstance(named, str):
        found = (i for i, name in enumerate(names or ()) if name == named)
    position = next(found, None)
    if position is None:
        shown = "none" if named is None else repr(named)
        hint = "" if names is not None or not isinstance(named, str) else "; names need --root DIR"
        raise InputError(
            f"example {row.example} has {count} {what}{'s' if count > 1 else ''}, and {shown} "
            f"is not one of them{hint}.",
            file=file,
            line=row.line,
        )
    return position
