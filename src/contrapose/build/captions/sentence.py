"""Parsed captions: tokens with offsets and part-of-speech tags, and noun phrases.

The tagger ignores context, so its most frequent mistakes on captions are corrected here: attributes
before a noun, verbs after one, and relations of several words (“in front of”), which contain no
noun phrase. An adjective that makes a compound with its noun (“hot dog”) counts as a noun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from contrapose.build.captions.lexicon import (
    compound_nouns,
    load_lexicon,
    relation_phrases,
    singularize,
    word_list,
)
from contrapose.data.tagging import WORD_PATTERN, Tagger, tag_words

DETERMINERS = frozenset(("DT", "PDT", "PRP$"))
MODIFIERS = frozenset(("JJ", "JJR", "JJS", "CD", "VBN"))
BE_FORMS = frozenset(("is", "are", "was", "were"))
PHRASE_PREDECESSORS = frozenset(
    ("", "DT", "IN", "TO", "PRP$", "CD", "JJ", "CC", "VBZ", "VBP", "VBD")
)
"""Tags that may precede a noun phrase."""
OBJECT_STARTS = (*DETERMINERS, "CD", "JJ", "NN", "VBN")
NOUNS_IN_ING = word_list("nouns_in_ing")
"""Nouns in -ing; other words in -ing after a noun are verbs."""
SECOND_NOUNS = word_list("second_nouns")
"""Words that are nouns after a noun: “tank top”, “train tracks”."""
DRESSING_WORDS = frozenset(("in", "with", "wearing", "wears"))
VERB_TAGS = ("VB", "VBZ", "VBP", "VBD")
PREPOSITIONS = frozenset(("whilst", "amidst", "atop", "amid", "alongside"))
"""Prepositions that taggers take for nouns."""


@dataclass(frozen=True, slots=True)
class Token:
    """Token of a caption, with its offsets and part-of-speech tag.

    Attributes:
        text: as it stands.
        low: in lower case.
        start: its first character in the caption.
        end: the character after its last.
        tag: its part of speech, of the Penn Treebank.
    """

    text: str
    low: str
    start: int
    end: int
    tag: str

    @property
    def is_noun(self) -> bool:
        """Whether it is a noun, common or proper."""
        return self.tag.startswith("NN")

    @property
    def is_verb(self) -> bool:
        """Whether it is a verb in any form."""
        return self.tag.startswith("VB")


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """Noun phrase, as token indices.

    Attributes:
        first: its first word.
        end: the word after its last.
        nouns: index of its first noun; the head is the last one.
        modifiers: indices of its adjectives and numbers.
        determined: whether it begins with a determiner or a number.
    """

    first: int
    end: int
    nouns: int
    modifiers: tuple[int, ...]
    determined: bool

    @property
    def head(self) -> int:
        """Index of the head noun."""
        return self.end - 1


@dataclass(frozen=True, slots=True)
class Sentence:
    """Parsed caption: tokens and noun phrases.

    Attributes:
        caption: its text.
        tokens: its words and punctuation marks.
        phrases: its noun phrases, from left to right.
    """

    caption: str
    tokens: tuple[Token, ...]
    phrases: tuple[NounPhrase, ...]

    def at(self, index: int) -> Token:
        """Token at an index; an empty one beyond either end."""
        if 0 <= index < len(self.tokens):
            return self.tokens[index]
        return Token("", "", len(self.caption), len(self.caption), "")

    def span(self, first: int, end: int) -> tuple[int, int]:
        """Character offsets of a token range."""
        return self.tokens[first].start, self.tokens[end - 1].end

    def text(self, first: int, end: int) -> str:
        """Text of a token range."""
        start, stop = self.span(first, end)
        return self.caption[start:stop]

    def lower(self, first: int, end: int) -> tuple[str, ...]:
        """Words of a token range in lower case."""
        return tuple(token.low for token in self.tokens[first:end])

    def phrase_from(self, index: int) -> NounPhrase | None:
        """Noun phrase that starts at an index."""
        return next((phrase for phrase in self.phrases if phrase.first == index), None)

    def phrase_to(self, index: int) -> NounPhrase | None:
        """Noun phrase that ends just before an index."""
        return next((phrase for phrase in self.phrases if phrase.end == index), None)

    def phrase_of(self, index: int) -> NounPhrase | None:
        """Noun phrase that contains a token."""
        return next((one for one in self.phrases if one.first <= index < one.end), None)

    def attributive(self, index: int) -> bool:
        """Whether a noun follows, at once or after other modifiers."""
        phrase = self.phrase_of(index)
        if phrase is not None:
            return index < phrase.nouns
        following = self.phrase_from(index + 1)
        starts = self.at(index - 1).tag in PHRASE_PREDECESSORS
        return following is not None and not following.determined and starts

    def object_head(self, end: int) -> Token | None:
        """Head of the noun phrase that starts at an index."""
        phrase = self.phrase_from(end)
        return None if phrase is None else self.tokens[phrase.head]

    def subject_head(self, at: int) -> Token | None:
        """Head of the noun phrase before a verb; clothes that it wears are passed over."""
        for phrase in reversed([one for one in self.phrases if one.end <= at]):
            head = self.tokens[phrase.head]
            dressed = self.at(phrase.first - 1).low in DRESSING_WORDS or phrase.first == 0
            if not (dressed and "clothing" in load_lexicon().classes(head.low)):
                return head
        return None


def parse_sentence(caption: str, tagger: Tagger = "textblob") -> Sentence:
    """Parse a caption into tokens and noun phrases.

    Raises:
        MissingExtraError: the tagger's package is not installed.
    """
    # The tagger takes a capital for a name, which the first word of a caption seldom is.
    matches = list(WORD_PATTERN.finditer(caption))
    tags = [penn for _, penn in tag_words(caption.lower(), tagger)]
    if len(tags) != len(matches):  # a character whose lower case is longer
        tags = [penn for _, penn in tag_words(caption, tagger)]
    tokens = [
        Token(match[0], match[0].lower(), match.start(), match.end(), penn)
        for match, penn in zip(matches, tags, strict=True)
    ]
    tokens = _correct_tags(tokens)
    return Sentence(caption, tuple(tokens), tuple(_find_phrases(tokens)))


def words_match(tokens: Sequence[Token], at: int, words: Sequence[str]) -> bool:
    """Whether these words stand at an index."""
    return len(tokens) >= at + len(words) and all(
        tokens[at + i].low == word for i, word in enumerate(words)
    )


def _correct_tags(tokens: list[Token]) -> list[Token]:
    known = list(tokens)
    for i, token in enumerate(tokens):
        before = known[i - 1] if i else None
        after = tokens[i + 1] if i + 1 < len(tokens) else None
        known[i] = replace(token, tag=_correct_tag(before, token, after))
    for i, token in enumerate(tokens):
        for phrase in relation_phrases().get(token.low, ()):
            if words_match(known, i, phrase):
                span = slice(i, i + len(phrase))
                known[span] = [replace(one, tag="IN") for one in known[span]]
    return known


def _correct_tag(before: Token | None, token: Token, after: Token | None) -> str:
    words = load_lexicon()
    follows = before is not None and before.is_noun
    shade = token.low == "neon" and after is not None and words.is_attribute(after.low)
    listed = token.low in words.nouns and not token.is_noun and not _is_nominal(after)
    plural = "NNS" if token.low.endswith("s") else "NN"
    rules = (
        (token.low.endswith(("'s", "’s")), "PRP$"),
        (token.low.isdecimal(), "CD"),
        (token.low in PREPOSITIONS, "IN"),
        (shade or (words.is_attribute(token.low) and _is_nominal(after)), "JJ"),
        (_is_plural_verb(before, token, after), "VBP"),
        (_begins_compound(token, after), "NN"),
        (follows and token.low in SECOND_NOUNS and not _is_nominal(after), plural),
        (listed and not _is_predicate(before, token), plural),
        (not listed and _is_finite(before, token, after), "VBZ"),
        (_is_participle(before, token, after), "VBG"),
    )
    return next((penn for holds, penn in rules if holds), token.tag)


def _is_nominal(token: Token | None) -> bool:
    if token is None:
        return False
    return token.is_noun or token.tag == "JJ" or load_lexicon().is_attribute(token.low)


def _is_predicate(before: Token | None, token: Token) -> bool:
    """Whether a word tagged as a verb agrees with the word before it."""
    if before is None or token.tag not in VERB_TAGS:
        return False
    if before.tag in ("PRP", "WP", "MD", "TO"):
        return True
    if f"{before.low} {singularize(token.low)}" in compound_nouns():
        return False  # “teddy bears”
    plural = singularize(before.low) != before.low
    return before.is_noun and (token.tag == "VBD" or (token.tag == "VBZ") != plural)


def _begins_compound(token: Token, after: Token | None) -> bool:
    """Whether a word in -ing makes a compound with the noun after it: “living room”."""
    if after is None or not after.is_noun or not token.low.endswith("ing"):
        return False
    return f"{token.low} {singularize(after.low)}" in compound_nouns()


def _is_finite(before: Token | None, token: Token, after: Token | None) -> bool:
    """Whether a word tagged as a plural is a verb in -s."""
    if before is None or not before.is_noun or token.tag != "NNS" or after is None:
        return False
    form = load_lexicon().verbs.get(token.low)
    if form is not None and form[1] == "s":
        living = load_lexicon().classes(before.low) & {"person", "animal"}
        single = singularize(before.low) == before.low
        return not after.is_noun or after.low in load_lexicon().nouns or bool(living and single)
    return after.tag in ("DT", "PRP$")


def _is_plural_verb(before: Token | None, token: Token, after: Token | None) -> bool:
    """Whether a word tagged as a noun is the verb of the living: “two men kick at a ball”."""
    if (
        before is None
        or token.tag != "NN"
        or after is None
        or after.tag not in ("IN", "DT", "TO", "PRP$")
    ):
        return False
    living = load_lexicon().classes(before.low) & {"person", "animal"}
    if living and token.low in load_lexicon().verbs and after.tag == "DT":
        return True  # “a woman and a child watch a train”
    known = token.low in load_lexicon().nouns or token.low.endswith("ing")
    return (
        before.tag == "NNS" and bool(living) and not known and singularize(before.low) != before.low
    )


def _is_participle(before: Token | None, token: Token, after: Token | None) -> bool:
    """Whether a word in -ing that is tagged as a noun is a verb: “a man surfing in the ocean”."""
    if before is None or token.tag != "NN" or not token.low.endswith("ing"):
        return False
    if token.low in NOUNS_IN_ING and (after is None or after.tag not in ("DT", "PRP$")):
        return False
    if not (before.is_noun and load_lexicon().classes(before.low) & {"person", "animal"}):
        return before.low in BE_FORMS and (after is None or not after.is_noun)
    return after is None or not after.is_noun


def _find_phrases(tokens: Sequence[Token]) -> Iterator[NounPhrase]:
    i = 0
    while i < len(tokens):
        first = i
        while i < len(tokens) and tokens[i].tag in DETERMINERS:
            i += 1
        modifiers: list[int] = []
        while i < len(tokens) and (
            _is_modifier(tokens, i) or (modifiers and _is_joining_and(tokens, i))
        ):
            if tokens[i].low != "and":
                modifiers.append(i)
            i += 1
        nouns = i
        while i < len(tokens) and tokens[i].is_noun:
            i += 1
        if i == nouns:
            i = max(first + 1, i)
            continue
        while modifiers and modifiers[-1] == nouns - 1 and _is_compound(tokens, nouns - 1):
            nouns = modifiers.pop()
        determined = tokens[first].tag in (*DETERMINERS, "CD")
        yield NounPhrase(first, i, nouns, tuple(modifiers), determined)


def _is_compound(tokens: Sequence[Token], at: int) -> bool:
    """Whether a modifier and the noun after it name one thing: “hot dog”, “polar bears”."""
    first, last = tokens[at].low, tokens[at + 1].low
    return not compound_nouns().isdisjoint((f"{first} {last}", f"{first} {singularize(last)}"))


def _is_joining_and(tokens: Sequence[Token], at: int) -> bool:
    """Whether a token is the “and” of “a red and white bus”."""
    both = tokens[at].low == "and" and tokens[at - 1].tag == "JJ" and at + 2 < len(tokens)
    return both and tokens[at + 1].tag == "JJ" and _is_nominal(tokens[at + 2])


def _is_modifier(tokens: Sequence[Token], at: int) -> bool:
    token = tokens[at]
    if token.tag == "VBN":  # “parked cars”, not “a car parked near a tree”
        before = tokens[at - 1].tag if at else ""
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        return before in ("", "DT", "JJ", "IN", "PRP$") and _is_nominal(after)
    return token.tag in MODIFIERS
