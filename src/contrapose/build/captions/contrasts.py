"""Hard negatives by contrast: an attribute, object or relation that excludes the caption's.

A contrast is taken from another side of its class in the table, so that it cannot be true as well:
not “big” for “large”. Nouns keep their number, verbs their form, and articles are repaired. Where
the other word may be true too, there is no contrast: a room with a table may also have a chair, and
a tan dog may be called brown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from contrapose.build.captions.edits import Rewrite, edit_caption
from contrapose.build.captions.lexicon import (
    INVARIABLE_NOUNS,
    PLURAL_ONLY,
    Contrast,
    Sides,
    VerbForm,
    load_lexicon,
    pluralize,
    relation_phrases,
    side_index,
    singularize,
    verb_forms,
    word_list,
)
from contrapose.build.captions.sentence import (
    BE_FORMS,
    OBJECT_STARTS,
    NounPhrase,
    Sentence,
    Token,
    words_match,
)

COLOR_CLASS, LIGHT_CLASS = "colour", "light"
PERSON_CLASSES = frozenset(("person", "child"))
PLACE_CLASSES = frozenset(("place", "water"))
RELATION_NOUNS = frozenset(("left", "right", "foreground", "background"))
"""Last words of relations that need no noun after them."""
GENDERED_WORDS = word_list("gendered")
LISTING_WORDS = frozenset(
    ("with", "and", "or", ",", "of", "has", "have", "having", "featuring", "contains", "containing")
)
"""Words before a thing of which the caption says only that it is there."""
DIRECTIONS = word_list("directions")
"""Words after a verb of motion that a posture does not take."""
STATIC_VERBS = frozenset(("sit", "stand", "lie", "kneel"))
PARTICLES = frozenset(("up", "down", "out", "off"))


def contrast_attributes(sentence: Sentence) -> Iterator[Rewrite]:
    """Replace one attribute by another that excludes it: red by blue, open by closed."""
    for i, token in enumerate(sentence.tokens):
        if not load_lexicon().is_attribute(token.low):
            continue
        head = _described_noun(sentence, i)
        if head is None:
            continue
        for name, sides in load_lexicon().attributes.items():
            side = side_index(sides).get(token.low)
            if side is None or not is_said_of(name, head.low) or _is_shaded(sentence, i, name):
                continue
            for other, words in enumerate(sides):
                if other != side and not are_near(token.low, words[0]):
                    edit = (token.start, token.end, words[0])
                    yield edit_caption(sentence.caption, "attribute", [edit])


def are_near(word: str, other: str) -> bool:
    """Whether two attributes may be seen as one another, such as brown and orange."""
    near = load_lexicon().near
    return other in near.get(word, ()) or word in near.get(other, ())


def is_said_of(name: str, noun: str) -> bool:
    """Whether a class of attributes is said of a noun: “young” of the living only."""
    classes = load_lexicon().classes(noun)
    heads, others = load_lexicon().heads.get(name), load_lexicon().not_heads.get(name, frozenset())
    return not classes & others and (heads is None or bool(classes & heads))


def _described_noun(sentence: Sentence, at: int) -> Token | None:
    """Noun that an attribute belongs to, before it or after “is”."""
    phrase = sentence.phrase_of(at)
    if phrase is not None:
        return sentence.tokens[phrase.head] if at < phrase.nouns else None
    after = sentence.at(at + 1)
    ends = after.tag in ("", ".", ",") or after.low in (".", "in", "on", "at", "!")
    if sentence.at(at - 1).low not in BE_FORMS or not ends:
        return None
    return sentence.subject_head(at - 1)


def _is_shaded(sentence: Sentence, at: int, name: str) -> bool:
    """Whether a color is one of several of its noun, or a shade of the next: “dark blue”."""
    if name not in (COLOR_CLASS, LIGHT_CLASS):
        return False
    colors = side_index(load_lexicon().attributes[COLOR_CLASS])
    phrase = sentence.phrase_of(at)
    if phrase is not None and sum(sentence.at(i).low in colors for i in phrase.modifiers) > 1:
        return True
    if sentence.at(at + 1).low in colors or sentence.at(at + 1).low.endswith(("haired", "skinned")):
        return True
    joined = ("and", ",", "or")
    return (sentence.at(at - 1).low in joined and sentence.at(at - 2).low in colors) or (
        sentence.at(at + 1).low in joined and sentence.at(at + 2).low in colors
    )


def contrast_objects(sentence: Sentence) -> Iterator[Rewrite]:
    """Replace one noun by another of its class that is not a sort of it: dog by cat, not puppy.

    Nouns of the caption itself are left out: “a dog and a dog” is an unlikely caption.
    """
    there = {singularize(token.low) for token in sentence.tokens}
    for phrase in sentence.phrases:
        token, after = sentence.tokens[phrase.head], sentence.at(phrase.end)
        drawn = after.tag == "VBN" and sentence.at(phrase.end + 1).is_noun
        base = singularize(token.low)
        again = sum(singularize(one.low) == base for one in sentence.tokens) > 1
        counted = any(sentence.at(i).tag == "CD" for i in phrase.modifiers)
        unclear = (token.low in INVARIABLE_NOUNS and not counted) or is_name(sentence, phrase.head)
        if phrase.nouns != phrase.head or drawn or again or unclear or after.low in ("'", "’"):
            continue  # “a dog chases another dog”, “a horse drawn cart”, “the dog ' s tail”
        plural = base != token.low or token.low in (*INVARIABLE_NOUNS, *PLURAL_ONLY)
        many = (plural or token.tag == "NNS") and "one" not in sentence.lower(
            phrase.first, phrase.end
        )
        for name, sides in load_lexicon().objects.items():
            side = side_index(sides).get(base)
            side = side_index(sides).get(token.low) if side is None else side
            if side is None or not _is_alone(sentence, phrase, name):
                continue
            for word in _other_nouns(sides, side, many=many, paired=token.low in PLURAL_ONLY):
                fits = name not in PLACE_CLASSES or _fits_preposition(sentence, phrase, word)
                if fits and singularize(word) not in there:
                    edit = (token.start, token.end, word)
                    yield edit_caption(sentence.caption, "object", [edit])


def is_name(sentence: Sentence, at: int) -> bool:
    """Whether a word has a capital of its own, inside a caption that is not in capitals."""
    return at > 0 and sentence.at(at).text[:1].isupper() and not sentence.caption.isupper()


def _other_nouns(sides: Sides, side: int, *, many: bool, paired: bool) -> Iterator[str]:
    """First nouns of the other sides in the number of the replaced one."""
    for other, words in enumerate(sides):
        plural = words[0] != singularize(words[0]) or words[0] in PLURAL_ONLY
        if other == side or (plural and not many) or (paired and not plural):
            continue
        yield words[0] if plural or not many else pluralize(words[0])


def _is_alone(sentence: Sentence, phrase: NounPhrase, name: str) -> bool:
    """Whether no other thing of the class is likely to be there as well."""
    before, after = sentence.at(phrase.first - 1), sentence.at(phrase.end)
    if name == "fruit" and not phrase.determined and sentence.at(phrase.head).low == "orange":
        return False  # “a player in orange”
    if name == "furniture" and before.low == "in":
        return False  # “in a chair”, but “at a table”
    if name in PERSON_CLASSES:
        return GENDERED_WORDS.isdisjoint(token.low for token in sentence.tokens)
    if name not in load_lexicon().together:
        return True
    there = sentence.at(0).low == "there" and phrase == sentence.phrases[0]
    listed = before.low in LISTING_WORDS or after.low in ("and", ",", "or")
    return not (there or listed)


def _fits_preposition(sentence: Sentence, phrase: NounPhrase, noun: str) -> bool:
    places = load_lexicon().places.get(sentence.at(phrase.first - 1).low, frozenset())
    return noun in places and phrase.determined


def contrast_relations(sentence: Sentence) -> Iterator[Rewrite]:
    """Replace one relation by another that excludes it: on by under, pushing by pulling."""
    at = 0
    while at < len(sentence.tokens):
        end = _longest_relation_end(sentence, at)
        for contrast, side, form in _relation_index().get(sentence.lower(at, end), ()):
            if not _applies(sentence, at, end, contrast, form):
                continue
            for other, instead in enumerate(contrast.sides):
                directed = instead[0] in STATIC_VERBS and sentence.at(end).low in DIRECTIONS
                words = instead[0] if form is None else verb_forms(instead[0])[form]
                there = form is not None and words in sentence.lower(0, len(sentence.tokens))
                if other != side and not directed and not there:
                    edit = (*sentence.span(at, end), words)
                    yield edit_caption(sentence.caption, "relation", [edit])
        at = end


def _applies(
    sentence: Sentence, at: int, end: int, contrast: Contrast, form: VerbForm | None
) -> bool:
    nearby = {sentence.at(at - 1).low, *(token.low for token in sentence.tokens[end:])}
    if nearby & contrast.unless:
        return False
    if form is not None:
        return _is_action(sentence, at, contrast)
    return sentence.at(at - 1).tag not in ("DT", "JJ") and _has_required_object(
        sentence, end, contrast
    )


@cache
def _relation_index() -> Mapping[tuple[str, ...], Sequence[tuple[Contrast, int, VerbForm | None]]]:
    """Relation words with their contrasts, their side, and a verb's form."""
    index: dict[tuple[str, ...], list[tuple[Contrast, int, VerbForm | None]]] = {}
    for contrast in load_lexicon().relations:
        for side, phrases in enumerate(contrast.sides):
            for phrase in phrases:
                if contrast.only and phrase not in contrast.only:
                    continue
                if contrast.verbs:
                    for form, word in verb_forms(phrase).items():
                        if load_lexicon().verbs[word] == (phrase, form):
                            index.setdefault((word,), []).append((contrast, side, form))
                else:
                    index.setdefault(tuple(phrase.split()), []).append((contrast, side, None))
    return index


def _longest_relation_end(sentence: Sentence, at: int) -> int:
    """End of the longest relation that starts here, so that “in front of” is no “in”."""
    first = sentence.tokens[at].low
    for words in relation_phrases().get(first, ()):
        if words_match(sentence.tokens, at, words):
            return at + len(words)
    return at + 1


def _is_action(sentence: Sentence, at: int, contrast: Contrast) -> bool:
    """Whether a word is a verb with the object and subject that the contrast requires."""
    takes = sentence.at(at + 1).tag.startswith(OBJECT_STARTS)
    if contrast.intransitive == takes or not _is_verb(sentence, at):
        return False
    if contrast.subjects:
        head = sentence.subject_head(at)
        if head is None or not load_lexicon().classes(head.low) & contrast.subjects:
            return False
    return _has_required_object(sentence, at + 1, contrast)


def _is_verb(sentence: Sentence, at: int) -> bool:
    token, before = sentence.tokens[at], sentence.at(at - 1)
    if sentence.at(at + 1).tag == "RP" or sentence.at(at + 1).low in PARTICLES:
        return False
    return (
        token.is_verb
        and before.tag not in ("DT", "PRP$", "JJ")
        and (token.tag in ("VBG", "VBZ") or before.is_noun or before.low in ("is", "are", "to"))
    )


def _has_required_object(sentence: Sentence, end: int, contrast: Contrast) -> bool:
    """Whether the noun that follows is one that the contrast requires."""
    head = sentence.object_head(end)
    if contrast.objects or contrast.words:
        return head is not None and bool(
            load_lexicon().classes(head.low) & contrast.objects or head.low in contrast.words
        )
    return contrast.verbs or head is not None or sentence.tokens[end - 1].low in RELATION_NOUNS


NEGATION_KIND = "negation"
NEGATION_WORDS = word_list("negations")
SCOPE_WORDS = frozenset(("and", "or", ",", "while", "as"))
"""Words after which it is unclear how far a negation reaches."""


def negate(sentence: Sentence) -> Iterator[Rewrite]:
    """Negate one part of the caption; a caption with a negation gives none.

    “is running” becomes “is not running”, “a man riding” “a man not riding”, “with” “without”, and
    “there is a” “there is no”.
    """
    low = [token.low for token in sentence.tokens]
    if not NEGATION_WORDS.isdisjoint(low) or any(word.endswith(("n't", "n’t")) for word in low):
        return
    for i, token in enumerate(sentence.tokens):
        edits = _negation_edit(sentence, i)
        if edits is not None:
            yield edit_caption(sentence.caption, NEGATION_KIND, [edits], articles=False)
        if token.low in BE_FORMS:
            return  # what follows is part of what “is not”


def _negation_edit(sentence: Sentence, at: int) -> tuple[int, int, str] | None:
    token, before, after = sentence.at(at), sentence.at(at - 1), sentence.at(at + 1)
    if token.low in BE_FORMS and before.low == "there":
        if after.low in ("a", "an", "some", "many", "several"):
            return after.start, after.end, "no"
        return (token.end, token.end, " no") if after.is_noun or after.tag == "JJ" else None
    if token.low in BE_FORMS and after.text and at > 0:
        stated = before.is_noun or before.low in ("who", "that", "which")
        return (token.end, token.end, " not") if stated else None
    following = sentence.phrase_from(at + 1)
    if token.low == "with" and following is not None and before.is_noun:
        counted = sentence.at(following.first).tag == "CD" or after.low in (
            "several", "many", "some", "all", "both", "each", "his", "her", "its", "their", "the",
        )  # fmt: skip
        ends = sentence.at(following.end).low not in SCOPE_WORDS and not counted
        return (token.start, token.end, "without") if ends else None
    if token.tag == "VBG" and before.is_noun and sentence.phrase_to(at) is not None:
        rest = {one.low for one in sentence.tokens[at + 1 :]}
        return (token.start, token.start, "not ") if rest.isdisjoint(SCOPE_WORDS) else None
    return None
