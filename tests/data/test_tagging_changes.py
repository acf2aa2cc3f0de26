"""Words that differ between captions: the group that changed, by a diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from contrapose.data import Example, ImageRef
from contrapose.data.examples import single_match
from contrapose.data.tagging import group_by_changes, named_group
from contrapose.diagnose.players import MissingPlayers
from contrapose.diagnose.words import TaggerWords


def example(*texts: str, right: int = 0, subset: str = "") -> Example:
    ref = ImageRef("a", Path("a.png"))
    return Example("7", (ref,), texts, single_match(len(texts), right), {"subset": subset})


def groups(one: Example) -> list[dict[str, list[str]]]:
    (found,) = TaggerWords().find([one])
    assert not isinstance(found, MissingPlayers)
    return [
        {name: [text[a:b] for a, b in spans] for name, spans in groups.items()}
        for groups, text in zip(found, one.texts, strict=True)
    ]


@pytest.mark.parametrize(
    ("subset", "group"),
    [
        ("replace_att", "A"),
        ("add_obj", "O"),
        ("relations", "R"),
        ("attribute", "A"),
        ("swap_att", None),
        ("", None),
        ("object relation", None),
    ],
)
def test_the_benchmark_names_the_group_that_changes(subset: str, group: str | None) -> None:
    assert named_group(example("a", "b", subset=subset)) == group


def test_a_group_that_only_the_added_words_have() -> None:
    one = example("a man sits on a bench", "a man sits on a metallic bench")
    assert groups(one) == [
        {"O": ["man", "bench"], "R": ["sits", "on"]},
        {"O": ["man", "bench"], "R": ["sits", "on"], "A": ["metallic"]},
    ]


def test_words_that_take_each_others_place_have_one_group() -> None:
    """The tagger takes “tattooed” for a verb; it stands where “young” stood."""
    for texts, right in (
        (("a young woman on a bench", "a tattooed woman on a bench"), 0),
        (("a tattooed woman on a bench", "a young woman on a bench"), 1),
    ):
        found = groups(example(*texts, right=right))
        assert [one["A"] for one in found] == [[text.split()[1]] for text in texts]
        assert [one["R"] for one in found] == [["on"], ["on"]]


def test_the_named_group_takes_all_words_that_differ() -> None:
    texts = ("a woman with a dog", "a woman tattooed with a dog")
    assert groups(example(*texts))[1]["R"] == ["tattooed", "with"]
    assert groups(example(*texts, subset="add_att"))[1] == {
        "O": ["woman", "dog"],
        "R": ["with"],
        "A": ["tattooed"],
    }
    more = ("a cat on a couch", "a cat on a couch and a red ball")
    assert groups(example(*more, subset="add_obj"))[1]["O"] == [
        "cat", "couch", "and", "a", "red", "ball",
    ]  # fmt: skip


def test_words_added_before_an_object_word_are_attributes() -> None:
    for added in ("spotted", "garden", "big tattooed"):
        one = groups(example("a cat on a mat", f"a {added} cat on a mat"))[1]
        assert one == {"O": ["cat", "mat"], "R": ["on"], "A": added.split()}
    assert groups(example("men on a mat", "men riding on a mat"))[1]["R"] == ["riding", "on"]
    two = groups(example("a cat on a mat", "a dog and a cat on a mat"))[1]
    assert two == {"O": ["a", "dog", "and", "cat", "mat"], "R": ["on"]}


def test_no_difference_stays_in_the_background() -> None:
    found = groups(example("a dog is sitting here", "a dog is not sitting here."))
    assert found[0]["R"] == ["is", "sitting"]
    assert found[1]["R"] == ["is", "not", "sitting"]  # and the full stop is in no group


def test_moved_words_keep_their_group() -> None:
    one = example("a dog left of a cat", "a cat left of a dog")
    assert groups(one) == [
        {"O": ["dog", "cat"], "R": ["left of"]},
        {"O": ["cat", "dog"], "R": ["left of"]},
    ]
    # Another tagger may see the same word otherwise in the other caption: the right one decides.
    spans = ((0, 1), (2, 5), (6, 13), (14, 15), (16, 19))
    words_of = [
        list(zip((None, "O", "R", None, "O"), spans, strict=True)),
        list(zip((None, "O", "R", None, "A"), spans, strict=True)),
    ]
    right, other = group_by_changes(one, words_of)
    assert right == other == {"O": ((2, 5), (16, 19)), "R": ((6, 13),)}
