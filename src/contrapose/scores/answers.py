"""Score tables as arrays: examples (`Frame`), their scores (`Answers`), matrices, and skips.

Nothing is left out in silence: every image, caption and pair without a score has its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from contrapose.arrays import find_distinct
from contrapose.data import Card, Example, TagValue
from contrapose.data.example_columns import ExampleColumns
from contrapose.data.examples import Match
from contrapose.data.text_columns import TextColumn
from contrapose.errors import InputError, option
from contrapose.metrics import BoolArray, FloatArray, IntArray, clusters_of


@dataclass(frozen=True, slots=True)
class Skip:
    """Reason why an image, caption or pair was skipped.

    Attributes:
        reason: the kind of reason, to count by.
        detail: the full sentence, with the file or the caption.
    """

    reason: str
    detail: str


UNKNOWN_SKIP = Skip("there is no answer", "there is no answer")


@dataclass(frozen=True, slots=True)
class Skips:
    """Skipped images, captions and pairs of a model, by content id and score.

    Attributes:
        images: images that cannot be read, whatever the score.
        texts: (score, caption) that the model does not read.
        pairs: (score, image, caption) that the model refuses.
    """

    images: dict[str, Skip] = field(default_factory=dict)
    texts: dict[tuple[str, str], Skip] = field(default_factory=dict)
    pairs: dict[tuple[str, str, str], Skip] = field(default_factory=dict)

    def why(self, score: str, image: str, text: str) -> Skip | None:
        """Return why a pair was skipped; None when it was not."""
        return (
            self.images.get(image)
            or self.texts.get((score, text))
            or self.pairs.get((score, image, text))
        )

    def refuse(self, score: str, image: str, text: str, skip: Skip) -> None:
        """Record that the model refuses an image, a caption, or the pair."""
        if image and text:
            self.pairs[score, image, text] = skip
        elif text:
            self.texts[score, text] = skip
        else:
            self.images[image] = skip


def unreadable_skip(error: InputError) -> Skip:
    """Build the skip of an image that cannot be opened; the reason has no particulars."""
    return Skip(error.message.partition(" (")[0].rstrip("."), str(error).rstrip("."))


REFUSAL = "the model refuses the"


def refusal_skip(error: InputError, what: str) -> Skip:
    """Build the skip of an input that the model itself refuses."""
    return Skip(f"{REFUSAL} {what}", str(error).rstrip("."))


def is_refusal(skip: Skip) -> bool:
    """Whether the model itself refused what was skipped."""
    return skip.reason.startswith(REFUSAL)


def count_reasons(skips: Iterable[Skip]) -> Mapping[str, int]:
    """Count skips by reason, the most frequent first."""
    return dict(Counter(skip.reason for skip in skips).most_common())


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Examples of a benchmark as arrays, without scores: ids, match matrix, tags, clusters.

    Examples of different shapes are padded to the largest; `present` tells which pairs exist.

    Attributes:
        ids: k example ids.
        match: k × m × n, true where image and caption belong together.
        present: k × m × n, true where the pair exists.
        tags: for each tag its value for each example; empty text where it has none.
        clusters: for each example the number of its cluster, of examples that share an image; None
            when the images are not known.
        image_keys: the names of the images, when known.
        texts: the captions, when known.
    """

    ids: tuple[str, ...]
    match: BoolArray
    present: BoolArray
    tags: Mapping[str, tuple[TagValue, ...]]
    clusters: IntArray | None = None
    image_keys: tuple[tuple[str, ...], ...] | None = None
    texts: Sequence[tuple[str, ...]] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, positions: IntArray) -> Frame:
        """Select examples by position."""
        chosen = positions.tolist()
        return Frame(
            ids=tuple(self.ids[i] for i in chosen),
            match=self.match[positions],
            present=self.present[positions],
            tags={name: tuple(values[i] for i in chosen) for name, values in self.tags.items()},
            clusters=None if self.clusters is None else self.clusters[positions],
            image_keys=None
            if self.image_keys is None
            else tuple(self.image_keys[i] for i in chosen),
            texts=None if self.texts is None else tuple(self.texts[i] for i in chosen),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Score table: a frame and the scores that fill it.

    Attributes:
        frame: the examples.
        scores: k × m × n, float32 or wider; meaningless where a pair is not present.
        notes: remarks for the reader of the results.
        skipped: examples with a pair that could not be scored, and why; their scores have NaN.
    """

    frame: Frame
    scores: FloatArray
    notes: tuple[str, ...] = ()
    skipped: Mapping[str, Skip] = field(default_factory=dict)

    def take(self, positions: IntArray) -> Answers:
        """Select examples by position."""
        return replace(self, frame=self.frame.take(positions), scores=self.scores[positions])

    def without_skipped(self) -> Answers:
        """Drop the examples with a skipped pair."""
        if not self.skipped:
            return self
        kept = [i for i, name in enumerate(self.frame.ids) if name not in self.skipped]
        return self.take(np.array(kept, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class ScoreMatrix:
    """Scores of every image with every text, or of every edit query with every image.

    Attributes:
        scores: images × texts (queries × images); NaN in skipped rows and columns.
        from_text: the scores to rank images by, where they differ from `scores`; else None.
        scored: the pairs that were scored; None when all were.
        skipped_rows: images (queries) that were skipped, and why.
        skipped_columns: texts (images) that were skipped, and why.
        notes: remarks for the reader of the results.
        rerank: candidates of each query that were scored; 0 when all were.
    """

    scores: FloatArray
    from_text: FloatArray | None = None
    scored: BoolArray | None = None
    skipped_rows: Mapping[int, Skip] = field(default_factory=dict)
    skipped_columns: Mapping[int, Skip] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rerank: int = 0


def build_frame(examples: Iterable[Example]) -> Frame:
    """Build the frame of examples.

    Raises:
        InputError: there are none, or two share an id.
    """
    if isinstance(examples, ExampleColumns):
        return _frame_of_columns(examples)
    listed = list(examples)
    if not listed:
        raise InputError("the benchmark's files hold no valid example.")
    ids = _unique_ids([example.id for example in listed])
    matches, kind = find_distinct([example.match for example in listed])
    match, present = _stack_matches(matches)
    names = dict.fromkeys(name for example in listed for name in example.tags)
    distinct, index = find_distinct([example.images for example in listed])
    keys = [tuple([image.key for image in images]) for images in distinct]
    return Frame(
        ids=ids,
        match=match[kind],
        present=present[kind],
        tags={name: tuple([example.tags.get(name, "") for example in listed]) for name in names},
        clusters=clusters_of(keys)[index],
        image_keys=tuple([keys[i] for i in index.tolist()]),
        texts=tuple([example.texts for example in listed]),
    )


def _frame_of_columns(examples: ExampleColumns) -> Frame:
    match, present = _stack_matches(examples.matches)
    kind = examples.match_index
    keys, index = examples.image_key_sets()
    return Frame(
        ids=_unique_column(examples.ids),
        match=match[kind],
        present=present[kind],
        tags={name: examples.tag(name) for name in examples.tags},
        clusters=clusters_of(keys)[index],
        image_keys=tuple([keys[i] for i in index.tolist()]),
        texts=examples.captions(),
    )


def _unique_column(ids: TextColumn) -> tuple[str, ...]:
    return ids.values if ids.are_distinct() else _unique_ids(ids.values)


def _unique_ids(ids: Sequence[str]) -> tuple[str, ...]:
    if len(set(ids)) != len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise InputError(f"two examples have the id {twice!r}; ids must be unique.")
    return tuple(ids)


def _stack_matches(matches: Sequence[Match]) -> tuple[BoolArray, BoolArray]:
    """Match matrices padded to the largest, and where they are."""
    most = max(map(len, matches)), max(len(match[0]) for match in matches)
    match = np.zeros((len(matches), *most), dtype=np.bool_)
    present = np.zeros_like(match)
    for i, matrix in enumerate(matches):
        match[i, : len(matrix), : len(matrix[0])] = matrix
        present[i, : len(matrix), : len(matrix[0])] = True
    return match, present


def build_frame_from_card(
    card: Card, ids: Sequence[str], tags: Mapping[str, Sequence[TagValue]]
) -> Frame:
    """Build the frame of a benchmark whose examples all have one shape, from its card alone.

    Raises:
        InputError: the card does not promise one shape for all, so the files are needed.
    """
    if card.match is None:
        raise InputError(
            f"{card.name} can only be scored with its annotation files: "
            f"pass {option('root', 'DIR')}."
        )
    single = np.asarray(card.match, dtype=np.bool_)
    match = np.broadcast_to(single, (len(ids), *single.shape))
    present = np.ones(match.shape, dtype=np.bool_)
    return Frame(tuple(ids), match, present, {name: tuple(values) for name, values in tags.items()})
