"""Benchmark cards, the benchmark that joins a card with its reader, and cards of a user's data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from contrapose.data.examples import RATING, ComposedSet, EditSet, Example, Gallery, diagonal_match
from contrapose.errors import InputError
from contrapose.files import Problems

if TYPE_CHECKING:
    from contrapose.data.downloads import Download, Manual

Family = str
"""Shape of a benchmark, by which it is measured: one module of `contrapose.results.shapes`.

choice: 1 × n, one right. foil: caption and foil with a threshold (VALSE). pairs: m × n, text,
image and group score. images: the image score alone (COLA). triple: 1 × 3, original, hard
negative and hard positive in this order. probes: 2 images × 1 caption, judged too (SVO-Probes).
retrieval: N × M. adversarial: N × M with captions that fit no image. classes: N × classes. edits:
SIMAT.
composed: an image and a text to retrieve an image by. boundaries: frames of a video × 2 captions.
judgement: 1 × 1, yes or no. ratings: 1 × 1, rated by people. questions: 2 images × 2 questions with
one of two answers. sets: choices that count together in pairs and sets. question_groups: 1 × 1, yes
or no, that count together by figure and by question. proficiency: a choice and a simpler one that
it rests on.
"""

ScoreLayout = Literal[
    "general",
    "winoground",
    "valse",
    "subset arrays",
    "judgement",
    "predicate-noun",
    "naturalbench",
    "bivlc",
    "mmvp",
    "pope",
    "hallusionbench",
    "vilma",
    "ratings",
    "svo-probes",
]
"""Native layout of its score files, beside the general table, which is always understood."""


@dataclass(frozen=True, slots=True)
class Micro:
    """Micro average: the headline is the mean over all examples."""


@dataclass(frozen=True, slots=True)
class Macro:
    """Macro average: the headline is the mean of the means over the values of a tag.

    Attributes:
        tag: the tag to average over.
        groups: values that count together as one, as the mean of their means (EqBen's Kubric).
        drop: values that do not count (ARO's symmetric relations).
        least: values with fewer examples than this do not count (ARO's attributes: 25).
    """

    tag: str
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()
    least: int = 1


Aggregation = Micro | Macro


@dataclass(frozen=True, slots=True)
class Card:
    """Benchmark card: origin, license, layout, metrics and aggregation.

    Attributes:
        name: its name on the command line and in Python.
        title: one line.
        paper: authors, title, year, and a link.
        license: license of the annotations and of the images.
        source: where the files can be downloaded.
        layout: layout of the root folder, one line per file.
        shape: images × captions, in words.
        family: name of the shape in `contrapose.results.shapes`, which decides the metrics.
        counts: number of examples of each subset in the released files.
        other_counts: number of examples of other released splits, whose score files are read too.
        aggregation: how its paper aggregates examples to one number.
        chance: chance level by metric.
        tags: every tag that the reader sets, and its meaning.
        by: tags that results are broken down by.
        match: the match matrix of every example, when all have the same; scores can then be read
            without the annotations.
        scores: the layout of its native score files.
        average: also report the mean of all headline metrics (EqBen's Avg).
        official_ties: how the official script counts a tie.
        official_limit: a tag, and how many examples of each of its values the official script
            uses at the most.
        official: how the official scoring differs from ours, in one line; empty if it does not.
        single_choices: also report the single choices of pairs, an image's among the captions and
            a caption's among the images: their mean, or also those of every image and caption.
        errata: what is known to be wrong in the released files or tables; empty if nothing.
        disputed: a tag and its value, of examples whose released answers are reported to be wrong:
            only the official protocol counts them.
        option_kinds: kind of each caption of a choice, empty for that of the tag `template`; the
            kinds of wrong choices are then counted.
        question: what `vqa` asks where the captions are questions; `{}` stands for the caption.
        answers: the two answers that `vqa` compares, by the tag `type` of the question.
        download: where its files can be fetched from, or the steps by hand; None where there is
            nothing to fetch.
    """

    name: str
    title: str
    paper: str
    license: str
    source: str
    layout: str
    shape: str
    family: Family
    counts: Mapping[str, int]
    aggregation: Aggregation
    chance: Mapping[str, float]
    tags: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ("subset",)
    match: tuple[tuple[bool, ...], ...] | None = None
    scores: ScoreLayout = "general"
    average: bool = False
    official_ties: Literal["wrong", "right"] = "wrong"
    official_limit: tuple[str, int] | None = None
    official: str = ""
    other_counts: Mapping[str, int] = field(default_factory=dict)
    single_choices: Literal["", "mean", "apart"] = ""
    errata: str = ""
    disputed: tuple[str, str] | None = None
    option_kinds: tuple[str, ...] = ()
    question: str = ""
    answers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    download: Download | Manual | None = None


BenchmarkData = Iterable[Example] | Gallery | EditSet | ComposedSet
"""Data that a reader returns: a stream of examples, a gallery, or edit or composed queries."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Benchmark: a card and the reader of its files.

    Attributes:
        card: its card.
        read: reader, from the root folder to its data; malformed records go to the problems.
        submission: for benchmarks with an official submission of one flat array: the example id,
            image and caption of each of its scores.
        generated: generated by the package, so that no folder is needed.
    """

    card: Card
    read: Callable[[Path, Problems], BenchmarkData]
    submission: Callable[[Path, Problems], Sequence[tuple[str, int, int]]] | None = None
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Suite:
    """Suite: benchmarks of different shapes under one name, each with its own card.

    Attributes:
        name: its name; a part is called `name/part`.
        title: one line.
        parts: benchmarks by name, in the order of the report.
    """

    name: str
    title: str
    parts: Mapping[str, Benchmark]


def in_memory_benchmark(
    data: BenchmarkData,
    name: str = "examples",
    family: Family | None = None,
) -> Benchmark:
    """Benchmark of examples, a gallery, edit or composed queries that the caller holds in memory.

    Args:
        data: the examples.
        name: of the benchmark, as results name it.
        family: which metrics apply; None infers it from the shape of the examples.

    Raises:
        InputError: there are no examples.
    """
    if isinstance(data, Gallery | EditSet | ComposedSet):
        images, texts = len(data.images), _text_count(data)
        card = Card(
            name=name,
            title=f"{images:,} images and {texts:,} captions in memory",
            paper="",
            license="",
            source="memory",
            layout="",
            shape=f"{images:,} × {texts:,}",
            family=family or _gallery_family(data),
            counts={},
            aggregation=Micro(),
            chance={},
            by=(),
        )
        return Benchmark(card, lambda root, problems: data, generated=True)
    examples = list(data)
    for example in examples:
        if not isinstance(example, Example):
            raise InputError(f"expected examples, found {type(example).__name__}.")
    if not examples:
        raise InputError("there are no examples.")
    card = examples_card(
        examples,
        name=name,
        title=f"{len(examples):,} examples in memory",
        source="memory",
        family=family,
    )
    return Benchmark(card, lambda root, problems: iter(examples), generated=True)


def _text_count(data: Gallery | EditSet | ComposedSet) -> int:
    if isinstance(data, ComposedSet):
        return len({text for query in data.queries for text in query.texts})
    return len(data.texts if isinstance(data, Gallery) else data.captions)


def _gallery_family(data: Gallery | EditSet | ComposedSet) -> Family:
    if not isinstance(data, Gallery):
        return "edits" if isinstance(data, EditSet) else "composed"
    if data.distractors:
        return "adversarial"
    return "classes" if data.templates else "retrieval"


def examples_card(
    examples: Sequence[Example],
    *,
    name: str,
    title: str,
    source: str,
    layout: str = "",
    owner: str = "",
    family: Family | None = None,
) -> Card:
    """Card of a user's examples: shape, family, chance and tags are read off them.

    Without a family, one image with one right caption is a choice, one caption with several images
    a choice of images, and everything else is measured by text, image and group score. Single pairs
    are ratings where all have the tag `rating`, else judgements.
    """
    from contrapose.data.example_columns import count_matches, has_tag, tag_names

    matches = count_matches(examples)
    shapes: Counter[tuple[int, int]] = Counter()
    for match, count in matches.items():
        shapes[len(match), len(match[0])] += count
    if family is None:
        family = "pairs"
        if shapes and shapes.keys() <= {(1, 1)}:
            rated = has_tag(examples, RATING)
            family = "ratings" if rated else "judgement"
        elif all(len(match) == 1 and sum(match[0]) == 1 for match in matches):
            family = "choice"
        elif all(texts == 1 and images > 1 for images, texts in shapes):
            family = "images"
    chance: dict[str, float] = {}
    if family == "choice" and shapes:
        guesses = sum(count / texts for (_, texts), count in shapes.items())
        chance = {"accuracy": guesses / sum(shapes.values())}
    elif family == "pairs" and matches and matches.keys() <= {diagonal_match(2)}:
        chance = {"text": 1 / 4, "image": 1 / 4, "group": 1 / 6}
    tags = dict.fromkeys(tag_names(examples), "from the file")
    return Card(
        name=name,
        title=title,
        paper=owner,
        license=owner,
        source=source,
        layout=layout,
        shape=", ".join(f"{m} × {n}" for m, n in sorted(shapes)) or "empty",
        family=family,
        counts={},
        aggregation=Micro(),
        chance=chance,
        tags=tags,
        by=("subset",) if "subset" in tags else (),
    )
