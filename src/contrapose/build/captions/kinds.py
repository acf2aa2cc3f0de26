"""Kinds of caption changes by name, and groups of kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contrapose.build.captions import conjunction, hard_negatives
from contrapose.errors import InputError
from contrapose.files.suggest import did_you_mean

REPLACE = ("replace-relation", "replace-attribute")
CONTRAST = ("attribute", "object", "relation", "number")
EXCHANGE = ("exchange-attribute", "exchange-object")
REWRITTEN_POSITIVE = ("rewrite-synonym", "rewrite-swap")
REWRITTEN_NEGATIVE = ("rewrite-contrast", "rewrite-exchange")

POSITIVE = (*REPLACE, conjunction.SWAP_KIND, *REWRITTEN_POSITIVE)
"""Kinds of hard positives: the caption still fits."""
NEGATIVE = (
    *CONTRAST,
    *EXCHANGE,
    *hard_negatives.ORDER_KINDS,
    hard_negatives.NEGATION_KIND,
    *REWRITTEN_NEGATIVE,
)
"""Kinds of hard negatives: it no longer does."""
REWRITTEN = (*REWRITTEN_POSITIVE, *REWRITTEN_NEGATIVE)
"""Those that only a language model writes."""
ALL = (*POSITIVE, *NEGATIVE)

GROUPS: Mapping[str, tuple[str, ...]] = {
    "all": ALL,
    "positive": POSITIVE,
    "negative": NEGATIVE,
    "replace": REPLACE,
    "swap": (conjunction.SWAP_KIND,),
    "contrast": CONTRAST,
    "exchange": EXCHANGE,
    "order": hard_negatives.ORDER_KINDS,
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
