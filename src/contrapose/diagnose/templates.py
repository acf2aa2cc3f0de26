"""The templates of ARO's captions.

VG-Relation says “the X is REL the Y”, VG-Attribution “the A1 X and the A2 Y”. The relation and the
attributes are the examples' tags, so that “to the left of” is one relation and “light brown” one
attribute.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from contrapose.data import Example
from contrapose.data.tagging import words_of
from contrapose.diagnose.players import Groups, Missing
from contrapose.models.masks import Span

NO_TEMPLATE = "its captions follow no template of ARO"
REPEATED = "the relation's first word comes twice in a caption"


@dataclass(frozen=True, slots=True)
class TemplateWords:
    """Word groups of ARO's captions.

    Attributes:
        released: as the authors' script takes them: the word before the relation belongs to it,
            and captions in which the relation's first word comes again are left out.
    """

    released: bool = False
    joint: bool = True

    @property
    def name(self) -> str:
        """Which templates."""
        return f"the captions' templates (ARO{', as released' if self.released else ''})"

    def find(self, examples: Sequence[Example]) -> list[Sequence[Groups] | Missing]:
        """The groups of each caption, where all captions of an example follow a template."""
        return [self._one(example) for example in examples]

    def _one(self, example: Example) -> Sequence[Groups] | Missing:
        relation, attributes = example.tags.get("relation"), example.tags.get("attributes")
        found: list[Groups] = []
        for text in example.texts:
            groups = None
            if isinstance(relation, str):
                groups = related(text, relation, before=self.released)
                if groups is not None and self.released:
                    first = relation.split()[0]
                    if words_of(text).count(first) > 1:
                        return Missing(REPEATED)
            elif isinstance(attributes, str):
                groups = attributed(text, attributes)
            if groups is None:
                return Missing(NO_TEMPLATE)
            found.append(groups)
        return found


def related(text: str, relation: str, *, before: bool = False) -> Groups | None:
    """The groups of “the X is REL the Y”; None where it is no such caption.

    Args:
        text: the caption.
        relation: REL.
        before: whether the word before the relation, “is”, belongs to it.
    """
    match = re.fullmatch(rf"the (?P<x>.+) (?P<is>is {re.escape(relation)}) the (?P<y>.+)", text)
    if match is None:
        return None
    start, end = match.span("is")
    if not before:
        start = end - len(relation)
    return {"O": (match.span("x"), match.span("y")), "R": ((start, end),)}


def attributed(text: str, attributes: str) -> Groups | None:
    """The groups of “the A1 X and the A2 Y”; None where it is no such caption.

    Args:
        text: the caption.
        attributes: both, joined by `_`, in any order.
    """
    match = re.fullmatch(r"the (.+) and the (.+)", text)
    if match is None:
        return None
    objects: list[Span] = []
    said: list[Span] = []
    for group in (1, 2):
        phrase, start = match.group(group), match.start(group)
        known = [each for each in attributes.split("_") if phrase.startswith(f"{each} ")]
        length = len(max(known, key=len)) if known else phrase.find(" ")
        if length < 1:
            return None
        said.append((start, start + length))
        objects.append((start + length + 1, match.end(group)))
    return {"O": tuple(objects), "A": tuple(said)}
