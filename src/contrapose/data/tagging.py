"""Part-of-speech tags of a caption's words (Penn Treebank), word groups, ARO's shuffles.

The default tagger is textblob's lexicon (from the pattern library): it is fast and carries its data
along, but knows no context, so that “a man rides” has two nouns. spaCy's small English model, which
the authors of ARO used, is the alternative. Word groups are object words O, relation words R and
attribute words A.

ARO shuffles a caption's words in four ways. Each is drawn again until the order differs from the
caption's; a caption that cannot be changed so (it has one noun, say) comes back unchanged.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import Literal

import numpy as np

from contrapose.data.examples import Example
from contrapose.errors import ContraposeError, MissingExtraError

Tagger = Literal["textblob", "spacy"]
TaggedTokens = list[tuple[str, str]]
"""Words with their tags."""

WORD_PATTERN = re.compile(r"\w+(?:[-'’/&.]\w+)*|[^\w\s]")
CLOSING_MARKS = frozenset(",.;:!?%")
SPACY_MODEL = "en_core_web_sm"


def split_words(text: str) -> list[str]:
    """Split a text into words and punctuation; “t-shirt” and “man's” are one word each."""
    return WORD_PATTERN.findall(text)


def join_words(words: Sequence[str]) -> str:
    """Join words to a text, closing punctuation set against the word before it."""
    return "".join(word if word in CLOSING_MARKS else f" {word}" for word in words).strip()


def tag_words(text: str, tagger: Tagger = "textblob") -> TaggedTokens:
    """Tag the words of a text with parts of speech (DT, NN, VBZ, JJ, …).

    Raises:
        MissingExtraError: the tagger's package is not installed.
        ContraposeError: spaCy's model is not installed.
    """
    return _load_tagger(tagger)(split_words(text))


@cache
def _load_tagger(tagger: Tagger) -> Callable[[list[str]], TaggedTokens]:
    return _load_spacy() if tagger == "spacy" else _load_textblob()


def _load_textblob() -> Callable[[list[str]], TaggedTokens]:
    try:
        from textblob.en import parser
    except ImportError:
        raise MissingExtraError("textblob", "text", "Tagging parts of speech") from None
    with warnings.catch_warnings():
        # The first use reads the lexicon and leaves its file to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        parser.find_tags(["a"])
    return lambda words: [(word, penn) for word, penn in parser.find_tags(words)]


def _load_spacy() -> Callable[[list[str]], TaggedTokens]:
    try:
        import spacy
        from spacy.tokens import Doc
    except ImportError:
        raise MissingExtraError("spacy", "spacy", "The spaCy tagger") from None
    try:
        model = spacy.load(SPACY_MODEL)
    except OSError:
        raise ContraposeError(
            f"The spaCy tagger needs its model: python -m spacy download {SPACY_MODEL}."
        ) from None

    def tag(words: list[str]) -> TaggedTokens:
        return [(token.text, token.tag_) for token in model(Doc(model.vocab, words=words))]

    return tag


O, R, A = GROUPS = ("O", "R", "A")  # noqa: E741 - the paper's letters
"""Names of the word groups: objects, relations, attributes."""

CharSpan = tuple[int, int]
"""Offsets of a first character and of the one after the last."""
WordGroups = Mapping[str, tuple[CharSpan, ...]]
"""Spans of each group's words, by the group's name; a caption need not have every group."""


def word_group(penn: str) -> str | None:
    """Return the word group of a Penn Treebank tag; None for articles, adverbs and marks."""
    if penn.startswith("NN"):
        return O
    if penn.startswith("VB") or penn in ("IN", "TO", "RP"):
        return R
    return A if penn.startswith("JJ") or penn == "CD" else None


COMPOUND_RELATION = re.compile(
    r"""(?<!\w)(?:
        (?:in|on|at|to|by|from|along|around)\ (?:the\ )?(?:very\ |far\ |other\ |opposite\ |
            left\ |right\ |left-hand\ |right-hand\ |top\ |bottom\ |back\ |front\ )*
            (?:front|back|rear|left|right|top|bottom|side|middle|center|centre|midst|edge|end|
               background|foreground|outside|inside)\ of
        |(?:on|to)\ the\ (?:left|right)(?=\ (?:and|while|with|as)\b|\s*(?:[,.;!?]|$))
        |in\ front(?!\w)|on\ top(?!\w)|in\ between|side\ by\ side(?:\ with)?
        |(?:next|close|near|adjacent|opposite|parallel|perpendicular|close\ up)\ to
        |(?:far\ |facing\ )?away\ from|far\ from|across\ from|apart\ from
        |(?:ahead|out|off|inside|outside|left|right|instead|because|short)\ of
        |(?:along|together|in\ line)\ with|up\ to|on\ to
    )(?!\w)""",
    re.VERBOSE | re.IGNORECASE,
)
"""Relations of several words, such as “in front of”, “next to” and “to the left of”."""

GroupedWord = tuple[str | None, CharSpan]
"""Group of a word, or of a compound relation, and its span; None for other words."""


def group_words(text: str, tagger: Tagger = "textblob") -> list[GroupedWord]:
    """Group of each word by its tag, in order; a relation of several words is one R.

    The first word is tagged in lower case: “Blue” would be taken for a name.

    Raises:
        MissingExtraError: the tagger's package is not installed.
    """
    compounds = [match.span() for match in COMPOUND_RELATION.finditer(text)]
    grouped: list[GroupedWord] = [(R, span) for span in compounds]
    spans = (match.span() for match in WORD_PATTERN.finditer(text))
    tagged = tag_words(text[:1].lower() + text[1:], tagger)
    for (start, end), (_, penn) in zip(spans, tagged, strict=True):
        if not any(first < end and start < last for first, last in compounds):
            grouped.append((word_group(penn), (start, end)))
    return sorted(grouped, key=lambda word: word[1])


def tag_groups(text: str, tagger: Tagger = "textblob") -> WordGroups:
    """Group a caption's words by tag: nouns; verbs and prepositions; adjectives and numerals.

    Raises:
        MissingExtraError: the tagger's package is not installed.
    """
    return collect_groups(group_words(text, tagger))


def collect_groups(words: Iterable[tuple[str | None, CharSpan]]) -> WordGroups:
    """Collect words into their groups, in the order of `GROUPS`."""
    spans: dict[str, list[CharSpan]] = {}
    for group, span in words:
        if group is not None:
            spans.setdefault(group, []).append(span)
    return {name: tuple(spans[name]) for name in GROUPS if name in spans}


SEED = 1
"""Default seed of the shuffles."""

MAX_WORDS = 30
"""Words of a caption that ARO keeps."""

REMOVED_PUNCTUATION = re.compile(r'[.!"()*#:;~]')


def clean_caption(caption: str) -> str:
    """Clean a caption as ARO does: lower case, no sentence punctuation, thirty words."""
    return " ".join(REMOVED_PUNCTUATION.sub(" ", caption.lower()).split()[:MAX_WORDS])


def shuffle_caption(
    caption: str, tagger: Tagger = "textblob", seed: int = SEED
) -> tuple[str, str, str, str, str]:
    """Return the cleaned caption and its four shuffles, in the order of the functions below.

    The draw depends on the seed and on the caption's own text, on nothing else.
    """
    tagged = tag_words(clean_caption(caption), tagger)
    words = [word for word, _ in tagged]
    text = join_words(words)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest, "big")])
    return (
        text,
        join_words(shuffle_nouns_and_adjectives(tagged, rng)),
        join_words(shuffle_other_words(tagged, rng)),
        join_words(shuffle_within_trigrams(words, rng)),
        join_words(shuffle_trigrams(words, rng)),
    )


def shuffle_nouns_and_adjectives(tagged: TaggedTokens, rng: np.random.Generator) -> list[str]:
    """Permute nouns among nouns, and adjectives among adjectives."""
    groups = [
        [i for i, (_, penn) in enumerate(tagged) if penn.startswith(start)]
        for start in ("NN", "JJ")
    ]
    return _permute_groups([word for word, _ in tagged], groups, rng)


def shuffle_other_words(tagged: TaggedTokens, rng: np.random.Generator) -> list[str]:
    """Permute the words that are neither nouns nor adjectives."""
    others = [i for i, (_, penn) in enumerate(tagged) if not penn.startswith(("NN", "JJ"))]
    return _permute_groups([word for word, _ in tagged], [others], rng)


def shuffle_within_trigrams(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Permute the words within each run of three."""
    groups = [list(range(i, min(i + 3, len(words)))) for i in range(0, len(words), 3)]
    return _permute_groups(words, groups, rng)


def shuffle_trigrams(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Permute the runs of three, keeping the order within each."""
    original = list(words)
    runs = [original[i : i + 3] for i in range(0, len(original), 3)]
    # All orders read the same exactly when every run commutes with the first one.
    if all(runs[0] + run == run + runs[0] for run in runs):
        return original
    while True:
        result = [word for i in rng.permutation(len(runs)) for word in runs[i]]
        if result != original:
            return result


def _permute_groups(
    words: Sequence[str], groups: Sequence[Sequence[int]], rng: np.random.Generator
) -> list[str]:
    """Permute words within each group of positions."""
    original = list(words)
    if all(len({original[i] for i in group}) < 2 for group in groups):
        return original
    while True:
        result = list(original)
        for group in groups:
            for position, i in zip(group, rng.permutation(len(group)), strict=True):
                result[position] = original[group[i]]
        if result != original:
            return result


GROUP_PREFIXES = {"att": A, "rel": R, "obj": O}
"""Beginnings of the words by which benchmarks name the group that changed."""


def named_group(example: Example) -> str | None:
    """Group that changes by the benchmark's own words; None where it names none, or a swap."""
    words = re.findall(r"[a-z]+", str(example.tags.get("subset", "")).lower())
    named = {GROUP_PREFIXES[word[:3]] for word in words if word[:3] in GROUP_PREFIXES}
    return named.pop() if len(named) == 1 and "swap" not in words else None


def group_by_changes(
    example: Example, words_of: Sequence[Sequence[GroupedWord]]
) -> list[WordGroups]:
    """Word groups of captions after a diff of each with the right one.

    A tagger groups the words of each caption by itself, and may put “white” into A and “spotted”,
    which takes its place in the other caption, into R. The pair says more:

    - a word that both captions have, in its place or moved, has one group: the right caption's;
    - words that differ belong to the group that changed: the one which the benchmark names (the tag
      `subset` is `replace_att`, say); else A for words added between an article and an object word
      (“a spotted cat”); else the only group among them; else, where one group stands against
      another, that of the right caption;
    - words that differ and have no group (an added “not”, a changed article) belong to the group of
      the next word that has one: no difference stays in the background. Punctuation does.

    Args:
        example: the example; its first right caption is the reference.
        words_of: the words of each caption with the tagger's groups.
    """
    captions = [_Caption(text, words) for text, words in zip(example.texts, words_of, strict=True)]
    right = next((j for row in example.match for j, ok in enumerate(row) if ok), 0)
    group = named_group(example)
    for j, caption in enumerate(captions):
        if j != right:
            _compare(captions[right], caption, group)
    return [collect_groups(zip(caption.groups, caption.spans, strict=True)) for caption in captions]


class _Caption:
    """Words of a caption in lower case, with their spans and groups."""

    def __init__(self, text: str, words: Sequence[GroupedWord]):
        self.groups = [group for group, _ in words]
        self.spans = [span for _, span in words]
        self.words = [text[start:end].lower() for start, end in self.spans]

    def groups_of(self, positions: Sequence[int]) -> set[str]:
        """Groups among some words."""
        return {group for i in positions if (group := self.groups[i]) is not None}


def _compare(right: _Caption, other: _Caption, named: str | None) -> None:
    """Set the groups of both captions by their diff."""
    matcher = SequenceMatcher(None, right.words, other.words, autojunk=False)
    segments: list[tuple[range, range]] = []
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            other.groups[first:last] = right.groups[start:end]
        else:
            segments.append((range(start, end), range(first, last)))
    moved = _copy_moved(right, other, segments)
    for segment in segments:
        changed = [
            [i for i in positions if i not in done and caption.words[i][0].isalnum()]
            for caption, positions, done in zip((right, other), segment, moved, strict=True)
        ]
        group = named or _changed_group(right, other, changed)
        for caption, positions in zip((right, other), changed, strict=True):
            for i in reversed(positions):
                if group is not None:
                    caption.groups[i] = group
                elif caption.groups[i] is None:
                    caption.groups[i] = _neighbor_group(caption, i)


def _copy_moved(
    right: _Caption, other: _Caption, segments: Sequence[tuple[range, range]]
) -> tuple[set[int], set[int]]:
    """Copy the groups of words that only moved, in order; their positions in both captions."""
    waiting: dict[str, deque[int]] = {}
    for positions, _ in segments:
        for i in positions:
            waiting.setdefault(right.words[i], deque()).append(i)
    moved: tuple[set[int], set[int]] = (set(), set())
    for _, positions in segments:
        for j in positions:
            if queue := waiting.get(other.words[j]):
                i = queue.popleft()
                other.groups[j] = right.groups[i]
                moved[0].add(i)
                moved[1].add(j)
    return moved


def _changed_group(
    right: _Caption, other: _Caption, changed: Sequence[Sequence[int]]
) -> str | None:
    """The one group of words that differ; None where each keeps its own."""
    before, after = changed
    if (before and not after and _are_modifiers(right, before)) or (
        after and not before and _are_modifiers(other, after)
    ):
        return A
    first, second = right.groups_of(changed[0]), other.groups_of(changed[1])
    if len(first | second) == 1 or (len(first) == len(second) == 1):
        return next(iter(first or second))
    return None


def _are_modifiers(caption: _Caption, positions: Sequence[int]) -> bool:
    """Whether words stand right before an object word, after an article, an attribute or none."""
    before, after = positions[0] - 1, positions[-1] + 1
    return (
        list(positions) == list(range(positions[0], after))
        and all(caption.groups[i] is not None for i in positions)
        and after < len(caption.groups)
        and caption.groups[after] == O
        and (before < 0 or caption.groups[before] in (None, A))
    )


def _neighbor_group(caption: _Caption, position: int) -> str | None:
    """Group of the next word that has one; else of the last before it."""
    after = [group for group in caption.groups[position + 1 :] if group is not None]
    before = [group for group in caption.groups[:position] if group is not None]
    return after[0] if after else before[-1] if before else None
