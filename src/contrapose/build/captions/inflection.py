"""Forms of English verbs and nouns by rule, with the exceptions that captions meet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from contrapose.build.captions.tables import table, words

VerbForm = Literal["base", "s", "ing", "past", "participle"]
VERB_FORMS: tuple[VerbForm, ...] = ("base", "s", "ing", "past", "participle")

IRREGULAR_VERBS: Mapping[str, tuple[str, str]] = {
    verb: (past, participle)
    for verb, (past, participle) in table("words.json")["irregular_verbs"].items()
}
"""Past and participle."""

DOUBLED = words("doubled")
"""Verbs whose last letter is doubled. (“travel” is not, as in the published table.)"""

SAME = words("same")
IRREGULAR_NOUNS: Mapping[str, str] = table("words.json")["irregular_nouns"]
SINGULARS = {plural: singular for singular, plural in IRREGULAR_NOUNS.items()}
PLURAL_ONLY = words("plural_only")
SINGULAR_ENDS = (
    ("women", "woman"), ("men", "man"), ("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"),
    ("shes", "sh"), ("s", ""),
)  # fmt: skip
"""Ends of plurals and what they were, the first that fits."""
HISSING = re.compile(r"(?:s|x|z|ch|sh)$")
NO_PLURALS = re.compile(r"(?:ss|us|is)$")


@cache
def verb_forms(lemma: str) -> Mapping[VerbForm, str]:
    """All forms of a verb; of a phrase (“travel on”) those of its first word."""
    head, *rest = lemma.split(" ")
    past, participle = IRREGULAR_VERBS.get(head, (_past(head), _past(head)))
    forms: dict[VerbForm, str] = {
        "base": head, "s": _third(head), "ing": _ing(head), "past": past, "participle": participle,
    }  # fmt: skip
    return {form: " ".join([word, *rest]) for form, word in forms.items()}


def plural(noun: str) -> str:
    """The plural of a noun; of a compound (“tennis ball”) that of its last word."""
    *first, last = noun.split(" ")
    return " ".join([*first, _plural(last)])


def singular(noun: str) -> str:
    """The singular of a noun; one that is no plural comes back as it is."""
    *first, last = noun.split(" ")
    return " ".join([*first, _singular(last)])


@cache
def _plural(noun: str) -> str:
    if noun in SAME or noun in PLURAL_ONLY:
        return noun
    if noun in IRREGULAR_NOUNS:
        return IRREGULAR_NOUNS[noun]
    for singular_end, plural_end in (("woman", "women"), ("man", "men")):
        if noun.endswith(singular_end) and noun not in ("human", "german"):
            return noun.removesuffix(singular_end) + plural_end
    if HISSING.search(noun):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


@cache
def _singular(noun: str) -> str:
    if noun in SAME or noun in PLURAL_ONLY:
        return noun
    if noun in SINGULARS:
        return SINGULARS[noun]
    ends = next((pair for pair in SINGULAR_ENDS if noun.endswith(pair[0])), None)
    if ends is None or NO_PLURALS.search(noun):
        return noun
    return noun.removesuffix(ends[0]) + ends[1]


def _third(verb: str) -> str:
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if HISSING.search(verb) or verb.endswith("o") else f"{verb}s"


def _ing(verb: str) -> str:
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and verb != "be":
        return f"{verb[:-1]}ing"
    return f"{verb}{verb[-1] if verb in DOUBLED else ''}ing"


def _past(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ied"
    return f"{verb}{verb[-1] if verb in DOUBLED else ''}ed"
