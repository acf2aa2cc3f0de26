"""Players as they are typed."""

from __future__ import annotations

import pytest

from contrapose.data import Example
from contrapose.diagnose.explain import TypedWords, parse_typed_regions
from contrapose.errors import InputError
from tests.fakes import patch


def groups(typed: str, text: str) -> dict[str, list[str]]:
    example = Example("e", (patch(1),), (text,), ((True,),))
    (found,) = TypedWords.read(typed).find([example])[0]  # type: ignore[misc]
    return {name: [text[a:b] for a, b in spans] for name, spans in found.items()}


def test_typed_words_match_every_occurrence() -> None:
    assert groups("O=cat, mat ; R=sits on", "the Cat sits on a mat with a catalogue") == {
        "O": ["Cat", "mat"],
        "R": ["sits on"],
    }


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("", "names no players"),
        ("cat", "NAME=…"),
        ("O=", "names nothing"),
        ("O=,", "the group O is empty"),
        ("O=cat;O=mat", "names O twice"),
        ("O=dog", "has none of the words of O"),
        ("O=the cat;R=cat", "O and R share words"),
        (";".join(f"P{i}=cat" for i in range(17)), "there are 17 groups of words"),
    ],
)
def test_bad_typed_groups_are_refused(typed: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        groups(typed, "the cat sat")


def test_typed_boxes_and_mask_files() -> None:
    found = parse_typed_regions("O1=1,2,3,4.5;O2=masks/a.png", "e").regions["e", 0][0]
    assert found["O1"] == [1, 2, 3, 4.5]
    assert found["O2"].endswith("masks/a.png")
    with pytest.raises(InputError, match="x,y,width,height"):
        parse_typed_regions("O1=1,2,3", "e")


def test_a_typed_group_may_be_in_one_caption_only() -> None:
    example = Example("e", (patch(1),), ("a cat", "a red cat"), ((True, False),))
    assert TypedWords.read("O=cat;A=red").find([example]) == [
        [{"O": ((2, 5),)}, {"O": ((6, 9),), "A": ((2, 5),)}]
    ]
    with pytest.raises(InputError, match="have none of the words of R"):
        TypedWords.read("O=cat;R=on").find([example])
