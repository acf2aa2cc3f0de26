"""How captions differ: which examples can show what."""

from __future__ import annotations

import pytest

from contrapose.data import Example
from contrapose.diagnose.model_diagnosis import (
    SAME_THINGS,
    SWAPPED_ATTRIBUTES,
    SWAPPED_OBJECTS,
    change_kinds,
)
from contrapose.diagnose.words import SceneWords
from tests.fakes import patch


def kinds(*texts: str) -> set[str]:
    example = Example("e", (patch(1),), texts, (tuple(i == 0 for i in range(len(texts))),))
    groups = SceneWords().find([example])[0]
    assert not hasattr(groups, "reason")
    return set(change_kinds(texts, groups))


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (
            ("a red cube left of a blue ball", "a blue ball left of a red cube"),
            {SWAPPED_OBJECTS, SAME_THINGS},
        ),
        (
            ("a red cube left of a blue ball", "a blue cube left of a red ball"),
            {SWAPPED_ATTRIBUTES},
        ),
        (("a red cube left of a blue ball", "a red cube right of a blue ball"), {SAME_THINGS}),
        (("a red cube left of a blue ball", "a red cube left of a pink ball"), set()),
        (
            ("a red cube left of a blue cube", "a blue cube left of a red cube"),
            {SWAPPED_ATTRIBUTES},
        ),
        (("a red cube", "a blue cube"), set()),
        (("a red cube",), set()),
    ],
)
def test_kinds_of_change(texts: tuple[str, ...], found: set[str]) -> None:
    assert kinds(*texts) == found


def test_every_caption_must_differ_in_the_same_way() -> None:
    one = "a red cube left of a blue ball"
    assert kinds(one, "a blue ball left of a red cube", "a red cube left of a pink ball") == set()
