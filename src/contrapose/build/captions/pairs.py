"""Generation of hard positives and negatives of a caption: propose, filter, choose.

Every draw depends on the seed and the caption's own text, on nothing else: a caption gives the same
pairs in any file, in any order.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest

import numpy as np

from contrapose.build.captions import conjunction, contrasts, exchanges, numbers, orders
from contrapose.build.captions.edits import Rewrite
from contrapose.build.captions.replacements import replacements
from contrapose.build.captions.rewriter import Rewriter
from contrapose.build.captions.sentence import Sentence, parse_sentence
from contrapose.build.captions.verification import normalize_words, reads_alike
from contrapose.data.tagging import Tagger
from contrapose.errors import InputError
from contrapose.files import did_you_mean

REPLACE = ("replace-relation", "replace-attribute", "replace-object")
CONTRAST = ("attribute", "object", "relation", "number")
EXCHANGE = ("exchange-attribute", "exchange-object")
REWRITTEN_POSITIVE = ("rewrite-synonym", "rewrite-swap")
REWRITTEN_NEGATIVE = ("rewrite-contrast", "rewrite-exchange")

POSITIVE = (*REPLACE, conjunction.SWAP_KIND, *REWRITTEN_POSITIVE)
"""Kinds of hard positives: the caption still fits."""
NEGATIVE = (
    *CONTRAST,
    *EXCHANGE,
    *orders.ORDER_KINDS,
    contrasts.NEGATION_KIND,
    *REWRITTEN_NEGATIVE,
)
"""Kinds of hard negatives: the caption no longer fits."""
REWRITTEN = (*REWRITTEN_POSITIVE, *REWRITTEN_NEGATIVE)
"""Kinds that only a language model writes."""
ALL = (*POSITIVE, *NEGATIVE)

CREPE_ATOM = ("attribute", "object", "relation")
"""CREPE's hard negatives by another atom; its swaps are `exchange`, its negations `negation`."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "all": ALL,
    "positive": POSITIVE,
    "negative": NEGATIVE,
    "replace": REPLACE,
    "swap": (conjunction.SWAP_KIND,),
    "contrast": CONTRAST,
    "exchange": EXCHANGE,
    "order": orders.ORDER_KINDS,
    "atom": CREPE_ATOM,
    "crepe": (*CREPE_ATOM, *EXCHANGE, contrasts.NEGATION_KIND),
    "aro": orders.ORDER_KINDS,
    "rewrite": REWRITTEN,
}


def parse_kinds(words: Sequence[str]) -> tuple[str, ...]:
    """Resolve kinds and groups into kinds in their usual order; all when none is named.

    Raises:
        InputError: a name is not known.
    """
    wanted: set[str] = set()
    for word in words or ("all",):
        if word not in GROUPS and word not in ALL:
            near = did_you_mean(word, (*GROUPS, *ALL))
            raise InputError(f"there is no kind of change {word!r}: {near}")
        wanted.update(GROUPS.get(word, (word,)))
    return tuple(kind for kind in ALL if kind in wanted)


REWRITER_BATCH = 256
"""Captions per call of a rewriter."""

SAME_AS_CAPTION, READS_LIKE_CAPTION, SAME_AS_POSITIVE, IN_QUESTION, DUPLICATE = (
    "same as the caption", "reads like the caption", "same as a positive", "in a question", "twice",
)  # fmt: skip
"""Reasons why a proposal is dropped."""

NOT_CHOSEN = "not chosen"

SENTENCE = re.compile(r"[^.!?]+(?:[.!?]|\Z)")
YES = re.compile(r"\W*yes\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of pair generation.

    Attributes:
        kinds: kinds of changes.
        seed: seed of every draw.
        per_caption: the most positives, and the most negatives, of a caption.
        tagger: part-of-speech tagger.
    """

    kinds: tuple[str, ...] = ALL
    seed: int = 0
    per_caption: int = 4
    tagger: Tagger = "textblob"


@dataclass(frozen=True, slots=True)
class CaptionRecord:
    """A caption and the image it belongs to, as the file names it."""

    caption: str
    image: str | None = None


@dataclass(frozen=True, slots=True)
class CaptionPairs:
    """A caption with its hard positives and hard negatives.

    Attributes:
        image: the image it belongs to, where the file names one.
        caption: the caption.
        positives: hard positives.
        negatives: hard negatives.
    """

    image: str | None
    caption: str
    positives: tuple[Rewrite, ...]
    negatives: tuple[Rewrite, ...]

    def as_json(self) -> dict[str, object]:
        """JSON record of the pairs."""
        sides = {"positives": self.positives, "negatives": self.negatives}
        head = {} if self.image is None else {"image": self.image}
        return {
            **head,
            "caption": self.caption,
            **{name: [one.text for one in rewrites] for name, rewrites in sides.items()},
            "kinds": {name: [one.kind for one in rewrites] for name, rewrites in sides.items()},
            "changes": {
                name: [[change.as_json() for change in one.changes] for one in rewrites]
                for name, rewrites in sides.items()
            },
        }


@dataclass(slots=True)
class Tally:
    """Counts of captions and of proposals by kind and outcome.

    Attributes:
        captions: numbers of captions made, without a positive, without a negative.
        proposed: proposals per kind.
        dropped: dropped proposals per kind and reason.
        kept: chosen proposals per kind.
    """

    captions: Counter[str] = field(default_factory=Counter)
    proposed: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, Counter[str]] = field(default_factory=dict)
    kept: Counter[str] = field(default_factory=Counter)

    def drop(self, kind: str, reason: str) -> None:
        """Count a dropped proposal."""
        self.dropped.setdefault(kind, Counter())[reason] += 1


def make_pairs(
    captions: Iterable[CaptionRecord],
    recipe: Recipe = Recipe(),  # noqa: B008 - it is frozen
    rewriter: Rewriter | None = None,
    tally: Tally | None = None,
) -> Iterator[CaptionPairs]:
    """Generate the pairs of each caption, in the order of the captions.

    Args:
        captions: captions with their images.
        recipe: settings.
        rewriter: a second source of captions, for the kinds that only it writes.
        tally: counter of proposals.

    Raises:
        MissingExtraError: the tagger's package is not installed.
        EndpointError: the rewriter cannot go on.
    """
    tally = Tally() if tally is None else tally
    stream = iter(captions)
    while rows := list(islice(stream, REWRITER_BATCH)):
        texts = [row.caption for row in rows]
        written = [[] for _ in rows] if rewriter is None else rewriter.rewrites(texts, recipe.kinds)
        for row, rewrites in zip(rows, written, strict=True):
            yield _make_caption_pairs(row, recipe, rewrites, tally)


def _make_caption_pairs(
    row: CaptionRecord, recipe: Recipe, written: Sequence[Rewrite], tally: Tally
) -> CaptionPairs:
    sentence = parse_sentence(row.caption, recipe.tagger)
    # All positives are made, whatever the kinds: no negative may be one of them.
    wanted = {*POSITIVE, *recipe.kinds}
    proposed: dict[str, list[Rewrite]] = {}
    for group, make in MAKERS.items():
        for rewrite in make(sentence, recipe) if wanted.intersection(group) else ():
            proposed.setdefault(rewrite.kind, []).append(rewrite)
    for rewrite in written:
        proposed.setdefault(rewrite.kind, []).append(rewrite)
    positives = {kind: proposed[kind] for kind in POSITIVE if kind in proposed}
    fitting = {normalize_words(one.text) for rewrites in positives.values() for one in rewrites}

    questions = open_questions(row.caption)

    def wrong(rewrite: Rewrite) -> str | None:
        if normalize_words(rewrite.text) == normalize_words(row.caption):
            return SAME_AS_CAPTION
        if normalize_words(rewrite.text) in fitting:
            return SAME_AS_POSITIVE
        if any(
            (change.start < end and start < change.end) or start < change.start == change.end < end
            for change in rewrite.changes
            for start, end in questions
        ):
            return IN_QUESTION
        return READS_LIKE_CAPTION if reads_alike(row.caption, rewrite.text) else None

    def unchanged(rewrite: Rewrite) -> str | None:
        same = normalize_words(rewrite.text) == normalize_words(row.caption)
        return SAME_AS_CAPTION if same else None

    chosen = []
    for names, refuse in ((POSITIVE, unchanged), (NEGATIVE, wrong)):
        wanted_kinds = [kind for kind in names if kind in recipe.kinds and kind in proposed]
        proposals = {kind: proposed[kind] for kind in wanted_kinds}
        filtered = _filter_proposals(proposals, refuse, tally)
        chosen.append(_choose_proposals(filtered, row.caption, recipe, tally))
    tally.captions["made"] += 1
    tally.captions["without a positive"] += not chosen[0]
    tally.captions["without a negative"] += not chosen[1]
    return CaptionPairs(row.image, row.caption, tuple(chosen[0]), tuple(chosen[1]))


def open_questions(caption: str) -> list[tuple[int, int]]:
    """Offsets of the questions of a caption that are not answered “yes”.

    A change in such a question makes nothing wrong: “is it dark? no” may fit as well as “is it
    raining? no”.
    """
    return [
        match.span()
        for match in SENTENCE.finditer(caption)
        if match[0][-1] == "?" and YES.match(caption, match.end()) is None
    ]


def _filter_proposals(
    proposed: Mapping[str, Sequence[Rewrite]], refuse: Callable[[Rewrite], str | None], tally: Tally
) -> dict[str, list[Rewrite]]:
    seen: set[tuple[str, ...]] = set()
    kept: dict[str, list[Rewrite]] = {}
    for kind, rewrites in proposed.items():
        tally.proposed[kind] += len(rewrites)
        for rewrite in rewrites:
            words = normalize_words(rewrite.text)
            reason = refuse(rewrite) or (DUPLICATE if words in seen else None)
            if reason is not None:
                tally.drop(kind, reason)
                continue
            seen.add(words)
            kept.setdefault(kind, []).append(rewrite)
    return kept


def _choose_proposals(
    kept: Mapping[str, Sequence[Rewrite]], caption: str, recipe: Recipe, tally: Tally
) -> list[Rewrite]:
    """Choose at most `per_caption` proposals: one of each kind before a second of any.

    The four orders take their turns as one, or they would be half of all negatives.
    """
    turns: dict[str, list[Rewrite]] = {}
    for kind, rewrites in kept.items():
        turns.setdefault("order" if kind in orders.ORDER_KINDS else kind, []).extend(rewrites)
    names = list(turns)
    drawn = _make_generator(recipe.seed, caption, names)
    queues = [[turns[name][i] for i in drawn.permutation(len(turns[name]))] for name in names]
    queues = [queues[i] for i in drawn.permutation(len(queues))]
    rounds = [one for row in zip_longest(*queues) for one in row if one is not None]
    chosen, left = rounds[: recipe.per_caption], rounds[recipe.per_caption :]
    for one in left:
        tally.drop(one.kind, NOT_CHOSEN)
    tally.kept.update(one.kind for one in chosen)
    return chosen


def _make_generator(seed: int, caption: str, names: Sequence[str]) -> np.random.Generator:
    digest = hashlib.blake2b("\n".join([caption, *names]).encode(), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "big")])


def _propose_swap(sentence: Sentence, recipe: Recipe) -> Iterator[Rewrite]:
    made = conjunction.swap_conjuncts(sentence, recipe.tagger)
    if made is not None:
        yield made


MAKERS: Mapping[tuple[str, ...], Callable[[Sentence, Recipe], Iterator[Rewrite]]] = {
    REPLACE: lambda sentence, _: replacements(sentence),
    (conjunction.SWAP_KIND,): _propose_swap,
    ("attribute",): lambda sentence, _: contrasts.contrast_attributes(sentence),
    ("object",): lambda sentence, _: contrasts.contrast_objects(sentence),
    ("relation",): lambda sentence, _: contrasts.contrast_relations(sentence),
    ("number",): lambda sentence, _: numbers.contrast_numbers(sentence),
    ("exchange-attribute",): lambda sentence, _: exchanges.exchange_attributes(sentence),
    ("exchange-object",): lambda sentence, _: exchanges.exchange_objects(sentence),
    orders.ORDER_KINDS: lambda sentence, recipe: orders.shuffle_words(sentence, recipe.seed),
    (contrasts.NEGATION_KIND,): lambda sentence, _: contrasts.negate(sentence),
}
"""Makers of the kinds that need no language model."""
