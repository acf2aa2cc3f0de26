"""Word groups of a text: by the captions' grammar, or by parts of speech where it is no caption."""

from __future__ import annotations

from collections.abc import Mapping

from contrapose.data.groups import A, Groups, O, R, gathered_groups, tagged_groups
from contrapose.data.tagging import Tagger
from contrapose.world.benchmark.read import read_caption, spans_of

ROLES: Mapping[str, str] = {"object": O, "relation": R, "attribute": A, "number": A}


def scene_groups(text: str) -> Groups:
    """Those of a caption of the built-in world; a shuffled one is read word by word."""
    return gathered_groups((ROLES[span.role], (span.start, span.end)) for span in spans_of(text))


def groups_of(text: str, tagger: Tagger = "textblob") -> Groups:
    """Those of any text.

    Raises:
        MissingExtraError: the text is no caption of the built-in world, and the tagger's package is
            not installed.
    """
    return scene_groups(text) if read_caption(text) is not None else tagged_groups(text, tagger)
