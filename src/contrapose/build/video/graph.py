"""Pairs from scene graphs of videos, in Action Genome's form (EqBen, appendix B.1).

    {"VIDEO.mp4/000089.png": [{"class": "pillow", "visible": true,
        "attention_relationship": ["looking_at"], "spatial_relationship": ["behind"],
        "contacting_relationship": ["carrying"]}, …], …}

Two frames of a video are paired for an object if at least two of its three relationships to the
person differ. After a frame is chosen the next one is skipped, which shows nearly the same. Action
Genome itself is released as pickle files, which can run any code: they are never opened here.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrapose.build.video.sources import CandidatePair, Moment
from contrapose.errors import InputError, option
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_count,
    parse_records,
    read_json_records,
)

TEMPLATE = "The person is {relation} the {object} which is {spatial} him/her."
"""The paper's template; `relation` is the contact where there is one, else the attention."""
SLOTS = ("relation", "attention", "contact", "spatial", "object")
LEAST_DIFFERENT = 2
"""Relationships, of three, that differ between the frames of a pair."""

ATTENTION, SPATIAL, CONTACT = (
    "attention_relationship",
    "spatial_relationship",
    "contacting_relationship",
)
SILENT = frozenset(("unsure", "not_contacting", "other_relationship", "other"))
"""Relationships that a caption does not name."""
PHRASES = {
    "in": "around",
    "have_it_on_the_back": "wearing on the back",
    "on_the_side_of": "at the side of",
}
"""Relationships whose name is no phrase; a person who is in a bed has it around."""


@dataclass(frozen=True, slots=True)
class GraphObject:
    """Object in a frame, with its relationships to the person.

    Attributes:
        video: name of the video.
        frame: name of the frame, without suffix.
        number: number of the frame, from 1.
        name: class of the object.
        attention: how the person looks at it.
        spatial: where it is.
        contact: how the person touches it.
    """

    video: str
    frame: str
    number: int
    name: str
    attention: frozenset[str]
    spatial: frozenset[str]
    contact: frozenset[str]

    @property
    def relationships(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """The three relationships."""
        return self.attention, self.spatial, self.contact


def read_graph(path: Path, problems: Problems) -> tuple[list[GraphObject], dict[str, int]]:
    """Read the objects of all frames that are visible and have relationships, with the counts.

    Raises:
        InputError: the file cannot be read, or holds no relationship.
    """
    if path.suffix.lower() in (".pkl", ".pickle"):
        raise InputError(
            "is a pickle file, which can run any code and is not opened; convert it to JSON as the "
            "documentation shows.",
            file=path,
        )
    counts = {"frames": 0, "objects": 0, "visible objects": 0, "objects with relationships": 0}
    objects: list[GraphObject] = []

    def build(record: Record) -> list[GraphObject]:
        return list(_parse_frame(record, counts))

    for some in parse_records(read_json_records(path, problems), build, problems):
        objects += some
    if not counts["frames"]:
        raise InputError("holds no frames.", file=path)
    if not objects:
        raise InputError("holds no relationship of a visible object.", file=path)
    return objects, counts


def _parse_frame(record: Record, counts: dict[str, int]) -> Iterator[GraphObject]:
    video, _, frame = record.key.rpartition("/")
    stem = frame.rpartition(".")[0] or frame
    if not video or not parse_count(stem):
        raise MalformedError(
            f"record {record.key}: the key must be VIDEO/NUMBER.png, with frames from 1."
        )
    if not isinstance(record.value, list):
        raise MalformedError(f"record {record.key}: expected a list of objects.")
    counts["frames"] += 1
    for i, value in enumerate(record.value):
        item = record.inner(value, f"{record.key}/{i}")
        name = item.text("class")
        counts["objects"] += 1
        if value.get("visible") is False:
            continue
        counts["visible objects"] += 1
        attention, spatial, contact = (
            _parse_relationship(item, field) for field in (ATTENTION, SPATIAL, CONTACT)
        )
        if not (attention or contact) or not spatial:
            continue
        counts["objects with relationships"] += 1
        yield GraphObject(video, stem, int(stem), name, attention, spatial, contact)


def _parse_relationship(record: Record, name: str) -> frozenset[str]:
    value: Any = record.value.get(name)
    listed = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise MalformedError(f"record {record.key}: {name!r} must be a list of texts.")
    return frozenset(one.strip().lower().replace(" ", "_") for one in listed if one.strip())


def parse_template(text: str) -> str:
    """Template of captions.

    Raises:
        InputError: it has no slot, or one that there is not.
    """
    try:
        fields = [(name, form, mark) for _, name, form, mark in string.Formatter().parse(text)]
    except ValueError as error:
        raise InputError(f"{option('template')} cannot be read ({error}).") from None
    slots = [name for name, _, _ in fields if name is not None]
    plain = all(not form and not mark for _, form, mark in fields)
    if not slots or not plain or any(name not in SLOTS for name in slots):
        raise InputError(
            f"{option('template')} must hold slots such as {{relation}}, of "
            f"{', '.join(SLOTS)}, found {text!r}."
        )
    return text


def describe_object(thing: GraphObject, template: str = TEMPLATE) -> str | None:
    """Caption of an object; None where a slot of the template stays empty."""
    attention, spatial, contact = (_phrase(values) for values in thing.relationships)
    words = {
        "attention": attention,
        "contact": contact,
        "relation": contact or attention,
        "spatial": spatial,
        "object": thing.name.partition("/")[0].replace("_", " ").strip(),
    }
    needed = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    if not all(words[name] for name in needed):
        return None
    return template.format(**words)


def _phrase(values: frozenset[str]) -> str:
    spoken = (PHRASES.get(value, value.replace("_", " ")) for value in sorted(values - SILENT))
    return " and ".join(spoken)


def differ(first: GraphObject, second: GraphObject) -> bool:
    """Whether at least two of three relationships of two frames have nothing in common."""
    pairs = zip(first.relationships, second.relationships, strict=True)
    return sum(not (one & other) for one, other in pairs if one or other) >= LEAST_DIFFERENT


def choose_frames(things: Sequence[GraphObject]) -> Iterator[tuple[GraphObject, GraphObject]]:
    """Choose pairs of frames of one object, sorted by frame; the frame after a chosen one is out.

    The paper's rule: once I_j is paired with I_i, go on with I_{j+2}; once I_i is done, with
    I_{i+2}.
    """
    i = 0
    while i < len(things):
        j, chosen = i + 1, False
        while j < len(things):
            if differ(things[i], things[j]):
                yield things[i], things[j]
                chosen = True
                j += 2
            else:
                j += 1
        i += 2 if chosen else 1


def pair_graph(
    objects: Sequence[GraphObject], template: str = TEMPLATE
) -> dict[str, tuple[list[CandidatePair], Mapping[str, int]]]:
    """Candidate pairs of each video, with the counts before them."""
    videos: dict[str, dict[str, dict[int, GraphObject]]] = {}
    for thing in objects:
        videos.setdefault(thing.video, {}).setdefault(thing.name, {})[thing.number] = thing
    result: dict[str, tuple[list[CandidatePair], Mapping[str, int]]] = {}
    for video, named in videos.items():
        chosen = different = 0
        pairs = []
        for name, by_number in named.items():
            things = [by_number[number] for number in sorted(by_number)]
            for first, second in choose_frames(things):
                chosen += 1
                one, other = describe_object(first, template), describe_object(second, template)
                if one is None or other is None or one == other:
                    continue
                different += 1
                pairs.append(
                    CandidatePair(
                        (_moment(first), _moment(second)), (one, other), {"object": name}, (name,)
                    )
                )
        counts = {"two of three relationships differ": chosen, "different captions": different}
        result[video] = (pairs, counts)
    return result


def _moment(thing: GraphObject) -> Moment:
    return Moment(thing.frame, number=thing.number - 1)
