"""How the captions of an example differ: what a model ought to react to.

An interaction has to dominate its parts only where the parts stay the same. So each claim is tested
on the examples that are of its kind, and on no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from contrapose.data import Example
from contrapose.data.tagging import words_of
from contrapose.diagnose.players import Groups, Missing, Words
from contrapose.errors import MissingExtraError

SWAPPED_OBJECTS = "objects change places"
SWAPPED_ATTRIBUTES = "attributes change hands"
SAME_THINGS = "the things stay the same"

KIND: Mapping[str, str] = {
    "Q_R&O": SWAPPED_OBJECTS,
    "Q_A&O": SWAPPED_ATTRIBUTES,
    "D_O1&O2": SAME_THINGS,
    "Q_T:R&O->I:O1&O2": SAME_THINGS,
    "D_I:O1&O2->T:R&O": SAME_THINGS,
}
"""The kind of change on which each interaction is tested."""


def examples_by_kind(examples: Sequence[Example], words: Words) -> dict[str, frozenset[str]] | None:
    """For each kind of change the ids of the examples that are of it.

    None where nothing is known of the captions' words, because the tagger is not installed.
    """
    try:
        found = words.find(examples)
    except MissingExtraError:
        return None
    kinds = {
        example.id: kinds_of(example.texts, groups)
        for example, groups in zip(examples, found, strict=True)
        if not isinstance(groups, Missing)
    }
    return {
        kind: frozenset(id_ for id_, each in kinds.items() if kind in each)
        for kind in dict.fromkeys(KIND.values())
    }


def kinds_of(texts: Sequence[str], groups: Sequence[Groups]) -> frozenset[str]:
    """The kinds of change among captions; every one of them must differ so from the first.

    - objects change places: the words are the same, and the object words come in another order;
    - attributes change hands: the words are the same, the objects' order too, the attributes' not;
    - the things stay the same: the same object and attribute words, whatever becomes of the rest.
    """
    if len(texts) < 2:
        return frozenset()
    bags = [Counter(words_of(text.lower())) for text in texts]
    orders = {
        name: [_words(text, own, name) for text, own in zip(texts, groups, strict=True)]
        for name in ("O", "A")
    }
    objects, attributes = orders["O"], orders["A"]
    kinds = set()
    if all(
        sorted(objects[0]) == sorted(objects[j]) and sorted(attributes[0]) == sorted(attributes[j])
        for j in range(1, len(texts))
    ):
        kinds.add(SAME_THINGS)
    if all(bag == bags[0] for bag in bags[1:]):
        if all(order != objects[0] for order in objects[1:]):
            kinds.add(SWAPPED_OBJECTS)
        elif all(order == objects[0] for order in objects[1:]) and all(
            order != attributes[0] for order in attributes[1:]
        ):
            # The attribute itself is another thing then, though its words are all there.
            kinds.add(SWAPPED_ATTRIBUTES)
            kinds.discard(SAME_THINGS)
    return frozenset(kinds)


def _words(text: str, groups: Groups, name: str) -> list[str]:
    return [text[start:end].lower() for start, end in sorted(groups.get(name, ()))]
