"""Word groups of a caption: object words O, relation words R and attribute words A."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from contrapose.data.tagging import WORD, Tagger, tag

O, R, A = GROUPS = ("O", "R", "A")  # noqa: E741 - the paper's letters
"""Objects, relations, attributes: in the order of the players."""

Span = tuple[int, int]
"""Offsets of a first character and of the one after the last."""
Groups = Mapping[str, tuple[Span, ...]]
"""By name, where a group's words are; a caption need not have every group."""


def group_of(penn: str) -> str | None:
    """The group of a Penn Treebank tag; None for articles, adverbs, marks and the like."""
    if penn.startswith("NN"):
        return O
    if penn.startswith("VB") or penn in ("IN", "TO", "RP"):
        return R
    return A if penn.startswith("JJ") or penn == "CD" else None


def tagged_groups(text: str, tagger: Tagger = "textblob") -> Groups:
    """By parts of speech: nouns; verbs and prepositions; adjectives and numerals.

    Raises:
        MissingExtraError: the tagger's package is not installed.
    """
    places = (match.span() for match in WORD.finditer(text))
    tags = (group_of(penn) for _, penn in tag(text, tagger))
    return gathered_groups(zip(tags, places, strict=True))


def gathered_groups(words: Iterable[tuple[str | None, Span]]) -> Groups:
    """The groups, in their order, of words that each belong to one or to none."""
    found: dict[str, list[Span]] = {}
    for group, place in words:
        if group is not None:
            found.setdefault(group, []).append(place)
    return {name: tuple(found[name]) for name in GROUPS if name in found}
