"""“a” or “an”: by the sound a word starts with, as far as its letters tell it."""

from __future__ import annotations

import re

SILENT = re.compile(r"(?:hour|honest|honou?r|heir|homage)", re.IGNORECASE)
"""An h that is not heard."""

CONSONANT = re.compile(
    r"(?:one(?!r)|once\b|eu|ew|uni(?!n[a-z]|m[a-z]|de)|una(?=n)|us(?:e|ing|ual|abl|ur)|"
    r"ut(?:il|en|op)|ubiq|ural|uran|uke|ufo\b|ouija)",
    re.IGNORECASE,
)
"""A vowel that is heard as “you” or “won”."""

SPELT = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Za-z](?=$|[-0-9])")
"""Letters that are read one by one: LCD, X-ray."""

LIKE_VOWELS = frozenset("AEFHILMNORSX")
READ_AS_WORDS = frozenset(("NASA", "NATO", "LEGO", "LED", "LAN", "RAM", "NASCAR", "MIDI"))
EIGHTS = re.compile(r"8|1[18](?!\d)")
NUMBER = re.compile(r"\d")


def is_article(word: str) -> bool:
    """Whether a word is “a” or “an”."""
    return word.lower() in ("a", "an")


def article_for(word: str) -> str:
    """The indefinite article that goes before a word."""
    return "an" if _vowel_sound(word) else "a"


def _vowel_sound(word: str) -> bool:
    if NUMBER.match(word):
        return EIGHTS.match(word) is not None
    if SPELT.match(word) and word not in READ_AS_WORDS:
        return word[0].upper() in LIKE_VOWELS
    if SILENT.match(word):
        return True
    if CONSONANT.match(word):
        return False
    return word[:1].lower() in tuple("aeiou")
