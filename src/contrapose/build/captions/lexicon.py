"""English lexicon: articles, inflection of nouns and verbs, and classes of contrasting words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal


@cache
def load_table(name: str) -> Any:
    """Load one of the JSON word tables of this package, cached."""
    return json.loads(files(__package__).joinpath("tables", name).read_text("utf-8"))


def word_list(name: str) -> frozenset[str]:
    """Set of words under a name in `words.json`."""
    return frozenset(load_table("words.json")[name].split())


@cache
def compound_nouns() -> frozenset[str]:
    """Compounds of an adjective and a noun, such as “hot dog”, in the singular."""
    listed = load_table("wordnet.json")["compounds"].split(" | ")
    return frozenset((*listed, *load_table("words.json")["compounds"]))


SILENT_H = re.compile(r"(?:hour|honest|honou?r|heir|homage)", re.IGNORECASE)
"""Words with a silent h."""

CONSONANT_SOUND = re.compile(
    r"(?:one(?!r)|once\b|eu|ew|uni(?!n[a-z]|m[a-z]|de)|una(?=n)|us(?:e|ing|ual|abl|ur)|"
    r"ut(?:il|en|op)|ubiq|ural|uran|uke|ufo\b|ouija)",
    re.IGNORECASE,
)
"""Words whose first vowel sounds like “you” or “won”."""

SPELLED_LETTERS = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Za-z](?=$|[-0-9])")
"""Letters that are spelled out: LCD, X-ray."""

VOWEL_LETTERS = frozenset("AEFHILMNORSX")
ACRONYMS = frozenset(("NASA", "NATO", "LEGO", "LED", "LAN", "RAM", "NASCAR", "MIDI"))
EIGHT_SOUND = re.compile(r"8|1[18](?!\d)")
DIGIT = re.compile(r"\d")


def is_article(word: str) -> bool:
    """Whether a word is “a” or “an”."""
    return word.lower() in ("a", "an")


def article_for(word: str) -> str:
    """Indefinite article that goes before a word."""
    return "an" if _has_vowel_sound(word) else "a"


def _has_vowel_sound(word: str) -> bool:
    if DIGIT.match(word):
        return EIGHT_SOUND.match(word) is not None
    if SPELLED_LETTERS.match(word) and word not in ACRONYMS:
        return word[0].upper() in VOWEL_LETTERS
    if SILENT_H.match(word):
        return True
    if CONSONANT_SOUND.match(word):
        return False
    return word[:1].lower() in tuple("aeiou")


VerbForm = Literal["base", "s", "ing", "past", "participle"]
VERB_FORMS: tuple[VerbForm, ...] = ("base", "s", "ing", "past", "participle")

IRREGULAR_VERBS: Mapping[str, tuple[str, str]] = {
    verb: (past, participle)
    for verb, (past, participle) in load_table("words.json")["irregular_verbs"].items()
}
"""Past and participle."""

DOUBLING_VERBS = word_list("doubled")
"""Verbs whose last letter is doubled. (“travel” is not, as in the published table.)"""

INVARIABLE_NOUNS = word_list("same")
IRREGULAR_NOUNS: Mapping[str, str] = load_table("words.json")["irregular_nouns"]
SINGULARS = {plural: singular for singular, plural in IRREGULAR_NOUNS.items()}
PLURAL_ONLY = word_list("plural_only")
PLURAL_ENDS = (
    ("women", "woman"), ("men", "man"), ("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"),
    ("shes", "sh"), ("s", ""),
)  # fmt: skip
"""Plural and singular endings; the first that matches applies."""
SIBILANT_END = re.compile(r"(?:s|x|z|ch|sh)$")
SINGULAR_S_END = re.compile(r"(?:ss|us|is)$")


@cache
def verb_forms(lemma: str) -> Mapping[VerbForm, str]:
    """All forms of a verb; of a phrase (“travel on”) those of its first word."""
    head, *rest = lemma.split(" ")
    past, participle = IRREGULAR_VERBS.get(head, (_past_form(head), _past_form(head)))
    forms: dict[VerbForm, str] = {
        "base": head, "s": _s_form(head), "ing": _ing(head), "past": past, "participle": participle,
    }  # fmt: skip
    return {form: " ".join([word, *rest]) for form, word in forms.items()}


def pluralize(noun: str) -> str:
    """Plural of a noun; of a compound (“tennis ball”) that of its last word."""
    *first, last = noun.split(" ")
    return " ".join([*first, _pluralize_word(last)])


def singularize(noun: str) -> str:
    """Singular of a noun; a noun that is no plural is returned unchanged."""
    *first, last = noun.split(" ")
    return " ".join([*first, _singularize_word(last)])


@cache
def _pluralize_word(noun: str) -> str:
    if noun in INVARIABLE_NOUNS or noun in PLURAL_ONLY:
        return noun
    if noun in IRREGULAR_NOUNS:
        return IRREGULAR_NOUNS[noun]
    for singular_end, plural_end in (("woman", "women"), ("man", "men")):
        if noun.endswith(singular_end) and noun not in ("human", "german"):
            return noun.removesuffix(singular_end) + plural_end
    if SIBILANT_END.search(noun):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


@cache
def _singularize_word(noun: str) -> str:
    if noun in INVARIABLE_NOUNS or noun in PLURAL_ONLY:
        return noun
    if noun in SINGULARS:
        return SINGULARS[noun]
    ends = next((pair for pair in PLURAL_ENDS if noun.endswith(pair[0])), None)
    if ends is None or SINGULAR_S_END.search(noun):
        return noun
    return noun.removesuffix(ends[0]) + ends[1]


def _s_form(verb: str) -> str:
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if SIBILANT_END.search(verb) or verb.endswith("o") else f"{verb}s"


def _ing(verb: str) -> str:
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be":
        return f"{verb[:-1]}ing"
    return f"{verb}{verb[-1] if verb in DOUBLING_VERBS else ''}ing"


def _past_form(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ied"
    return f"{verb}{verb[-1] if verb in DOUBLING_VERBS else ''}ed"


Sides = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Contrast:
    """Set of relations that exclude each other.

    Attributes:
        sides: phrases, or verbs in their base form; those of one side may hold together.
        verbs: whether they are verbs.
        intransitive: verbs that here take no object.
        subjects: classes of the noun that must come before; any where there are none.
        objects: classes of the noun that must follow; any where there are none.
        words: nouns that may follow beside those of the classes.
        only: phrases or verbs that may be replaced; all where there are none.
        unless: words that must not come later in the caption.
    """

    sides: Sides
    verbs: bool
    intransitive: bool
    subjects: frozenset[str]
    objects: frozenset[str]
    words: frozenset[str]
    only: frozenset[str]
    unless: frozenset[str]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Indexed table of contrasts.

    Attributes:
        attributes: classes, each with its sides.
        objects: the same for nouns, in the singular.
        relations: relations and the verbs that stand for them.
        nouns: of every noun, singular or plural, its classes.
        verbs: of every form of a known verb, its base form and which form it is.
        near: of an attribute, those of other sides that may be seen as it.
        heads: of a class of attributes, the classes of nouns that it is said of.
        not_heads: of a class of attributes, the classes of nouns that it is not said of.
        together: classes of things that are often seen together.
        places: of a preposition, the places that it goes with.
    """

    attributes: Mapping[str, Sides]
    objects: Mapping[str, Sides]
    relations: tuple[Contrast, ...]
    nouns: Mapping[str, frozenset[str]]
    verbs: Mapping[str, tuple[str, VerbForm]]
    near: Mapping[str, frozenset[str]]
    heads: Mapping[str, frozenset[str]]
    not_heads: Mapping[str, frozenset[str]]
    together: frozenset[str]
    places: Mapping[str, frozenset[str]]

    def classes(self, noun: str) -> frozenset[str]:
        """Classes of a noun; empty if it is unknown."""
        return self.nouns.get(noun, frozenset())

    def is_attribute(self, word: str) -> bool:
        """Whether a word is a known attribute."""
        return word in _attribute_words()


@cache
def load_lexicon() -> Lexicon:
    """Load the table of contrasts, cached."""
    table = load_table("contrasts.json")
    attributes = {name: _as_sides(sides) for name, sides in table["attributes"].items()}
    objects = {name: _as_sides(sides) for name, sides in table["objects"].items()}
    relations = tuple(_read_contrast(entry) for entry in table["relations"])
    more = {name: tuple(words) for name, words in table["more"].items()}
    sets = {
        name: {key: frozenset(words) for key, words in table[name].items()}
        for name in ("near", "heads", "not", "places")
    }
    return Lexicon(
        attributes=attributes,
        objects=objects,
        relations=relations,
        nouns=_noun_classes(objects, more),
        verbs=_verb_index(relations),
        near=sets["near"],
        heads=sets["heads"],
        not_heads=sets["not"],
        together=frozenset(table["together"]),
        places=sets["places"],
    )


@cache
def side_index(sides: Sides) -> Mapping[str, int]:
    """Side of a contrast by word."""
    return {word: i for i, side in enumerate(sides) for word in side}


@cache
def relation_phrases() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Multi-word relations by their first word, the longest first."""
    known = {
        tuple(phrase.split()) for contrast in load_lexicon().relations if not contrast.verbs
        for side in contrast.sides for phrase in side if " " in phrase
    }  # fmt: skip
    by_first: dict[str, tuple[tuple[str, ...], ...]] = {}
    for words in sorted(known, key=lambda words: (-len(words), words)):
        by_first[words[0]] = (*by_first.get(words[0], ()), words)
    return by_first


@cache
def _attribute_words() -> frozenset[str]:
    sides = load_lexicon().attributes.values()
    return frozenset(word for contrast in sides for side in contrast for word in side)


def _as_sides(value: list[list[str]]) -> Sides:
    return tuple(tuple(side) for side in value)


def _read_contrast(value: Mapping[str, Any]) -> Contrast:
    return Contrast(
        sides=_as_sides(value.get("verbs") or value["phrases"]),
        verbs="verbs" in value,
        intransitive=bool(value.get("intransitive")),
        subjects=frozenset(value.get("subject", ())),
        objects=frozenset(value.get("object", ())),
        words=frozenset(value.get("words", ())),
        only=frozenset(value.get("from", ())),
        unless=frozenset(value.get("unless", ())),
    )


def _noun_classes(
    objects: Mapping[str, Sides], more: Mapping[str, tuple[str, ...]]
) -> dict[str, frozenset[str]]:
    classes: dict[str, set[str]] = {}
    listed = [(name, word) for name, sides in objects.items() for side in sides for word in side]
    listed += [(name, word) for name, words in more.items() for word in words]
    for name, word in listed:
        for form in (word, pluralize(singularize(word)), singularize(word)):
            classes.setdefault(form, set()).add(name)
    return {word: frozenset(names) for word, names in classes.items()}


def _verb_index(relations: tuple[Contrast, ...]) -> dict[str, tuple[str, VerbForm]]:
    index: dict[str, tuple[str, VerbForm]] = {}
    for contrast in relations:
        for lemma in (word for side in contrast.sides for word in side if contrast.verbs):
            for form, word in verb_forms(lemma).items():
                index.setdefault(word, (lemma, form))
    # “lay” is far more often used for “lie” than as its past.
    index["lay"] = ("lay", "base")
    return index
