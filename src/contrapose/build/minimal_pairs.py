"""Minimal pairs: two images and two captions each, the sources they are made from, and settings.

A builder gives sources, such as videos; `contrapose.build.pair_sets` makes each into pairs and
writes the set.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from contrapose import __version__
from contrapose.build.captions.balance import BlindTest
from contrapose.data.benchmarks.eqben import OFFICIAL_NAMES

if TYPE_CHECKING:
    from PIL.Image import Image

SCHEMA = 1
EXAMPLES = "examples.jsonl"
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class PairImage:
    """Image of a pair: images of the same name are one and are written once.

    Attributes:
        name: path without a suffix, such as `VIDEO/000089`; see `file_name`.
        image: its pixels, or a file.
    """

    name: str
    image: Image | Path


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """Minimal pair: two images that differ a little, and the caption of each.

    Attributes:
        id: unique in its set.
        images: the first fits the first caption, the second the second.
        captions: two different captions.
        tags: values to break results down by, and how the pair came about.
        group: keys under which EqBen's file nests it below the source, such as the object.
    """

    id: str
    images: tuple[PairImage, PairImage]
    captions: tuple[str, str]
    tags: Mapping[str, str] = field(default_factory=dict)
    group: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourcePairs:
    """Pairs of one source.

    Attributes:
        pairs: in order.
        counts: how many were left at each filter, in the order of the filters.
        problems: why the source, or a part of it, could not be read.
        notes: oddities that do no harm.
    """

    pairs: Sequence[MinimalPair]
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChosenPairs:
    """Pairs of a set that pass a filter over all of them.

    Attributes:
        tags: id of a pair that passes → tags to add to it.
        counts: how many were left at each filter, in the order of the filters.
    """

    tags: Mapping[str, Mapping[str, str]]
    counts: Mapping[str, int] = field(default_factory=dict)


PairChoice = Callable[[Sequence[Mapping[str, Any]], Path], ChosenPairs]
"""Filter over the written pairs of a set (rows with id, images and captions) in a folder."""


@dataclass(frozen=True, slots=True)
class PairSource:
    """Source of pairs, such as a video with its annotations.

    Attributes:
        name: unique in the build.
        fingerprint: changes with its files and annotations; equal ones give equal pairs.
        make: makes the pairs; may run in any thread.
        counts: counts that are known before the pairs are made, in the order of the filters.
        ready: False where it is known that no pair can be made, as without a file.
    """

    name: str
    fingerprint: str
    make: Callable[[], SourcePairs]
    counts: Mapping[str, int] = field(default_factory=dict)
    ready: bool = True


@dataclass(frozen=True, slots=True)
class PairSetBuild:
    """Settings of a set of minimal pairs.

    Attributes:
        builder: name of the builder, as the command line has it.
        subset: a subset of EqBen (`ag`, `gebc`, `youcook2`, `sd`, …), or a name of your own.
        source: the annotations, as the manifest names them.
        sha256: of the annotations; empty where there is no file.
        parameters: everything else that changes the pairs of a source, as JSON values.
        choice: parameters of a filter over all pairs, which makes no pair anew.
        counts: how many annotations there were, before the counts of the sources.
        unreadable: (source, reason) of what could not be read before the build.
        seed: of everything random.
        image_format: of the written images.
        quality: of JPEG images.
        test: blind scores of the audit.
        workers: sources at a time; None takes one for each core.
    """

    builder: str
    subset: str
    source: str
    sha256: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    unreadable: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    image_format: Literal["png", "jpeg"] = "png"
    quality: int = 95
    test: BlindTest = field(default_factory=BlindTest)
    workers: int | None = None

    @property
    def read_with(self) -> str:
        """Benchmark that reads the set, or the name of the file of examples."""
        return "eqben" if self.subset in OFFICIAL_NAMES else EXAMPLES

    @property
    def recipe(self) -> dict[str, Any]:
        """Everything that changes the pairs of a source."""
        return {
            "schema": SCHEMA,
            "contrapose": __version__,
            "builder": self.builder,
            "subset": self.subset,
            "seed": self.seed,
            "images": self.images,
            "parameters": dict(self.parameters),
        }

    @property
    def description(self) -> dict[str, Any]:
        """First entries of the manifest."""
        return {
            "schema": SCHEMA,
            "contrapose": __version__,
            "builder": self.builder,
            "source": self.source,
            **({"source_sha256": self.sha256} if self.sha256 else {}),
            "read_with": self.read_with,
            "subset": self.subset,
            "seed": self.seed,
            "images": self.images,
            "parameters": {**self.parameters, **self.choice},
        }

    @property
    def images(self) -> dict[str, Any]:
        """Format of the images, as the manifest has it."""
        png = self.image_format == "png"
        return {"format": "png"} if png else {"format": "jpeg", "quality": self.quality}


def file_name(text: str) -> str:
    """Name of a file or folder for any text; different texts have different names."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", text).lstrip(".")[:LONGEST_NAME]
    if plain == text and plain:
        return plain
    return f"{plain}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"
