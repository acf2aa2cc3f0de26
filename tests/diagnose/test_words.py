"""Word groups: by grammar, by template, by parts of speech, or by the user's own places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contrapose.data import Example, ImageRef
from contrapose.data.examples import single_match
from contrapose.diagnose.players import MAX_PLAYERS, MissingPlayers, WordGroups
from contrapose.diagnose.words import (
    NO_RELATION,
    REPEATED_RELATION,
    DefaultWords,
    ReleasedWords,
    SceneWords,
    SingleWords,
    TaggerWords,
    TemplateWords,
    UserWords,
    attribute_groups,
    choose_words,
    relation_groups,
)
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.models import load_model
from contrapose.world.benchmark import scenes
from tests.fakes import Fake

RELATION = ("the grass is to the left of the horse", "the horse is to the left of the grass")
ATTRIBUTES = ("the open cat and the light brown door", "the light brown cat and the open door")


def example(*texts: str, id_: str = "7", **tags: str) -> Example:
    return Example(id_, (ImageRef("a", Path("a.png")),), texts, single_match(len(texts), 0), tags)


def group_words(groups: WordGroups, text: str) -> dict[str, list[str]]:
    return {name: [text[a:b] for a, b in spans] for name, spans in groups.items()}


def players(words: Any, one: Example) -> list[dict[str, list[str]]]:
    (groups,) = words.find([one])
    assert not isinstance(groups, MissingPlayers), groups
    return [group_words(each, text) for each, text in zip(groups, one.texts, strict=True)]


def test_scenes_by_their_grammar() -> None:
    suite = scenes(examples=3)
    for part in ("swap-relation", "swap-attribute", "counting"):
        examples: Any = suite.parts[part].read(Path(), StrictProblems())
        for one in examples:
            for groups in players(SceneWords(), one):
                assert groups["O"]
                assert ("R" in groups) or ("A" in groups)
            assert players(DefaultWords(), one) == players(SceneWords(), one)


def test_relations_of_aro() -> None:
    one = example(*RELATION, relation="to the left of")
    assert players(TemplateWords(), one) == [
        {"O": ["grass", "horse"], "R": ["to the left of"]},
        {"O": ["horse", "grass"], "R": ["to the left of"]},
    ]
    assert players(DefaultWords(), one) == players(TemplateWords(), one)
    assert relation_groups("a grass is to the left of the horse", "to the left of") is None


def test_attributes_of_aro() -> None:
    one = example(*ATTRIBUTES, attributes="light brown_open")
    assert players(TemplateWords(), one) == [
        {"O": ["cat", "door"], "A": ["open", "light brown"]},
        {"O": ["cat", "door"], "A": ["light brown", "open"]},
    ]
    assert attribute_groups("the cat and the door", "red_blue") is None


def test_released_preset_leaves_no_word_in_the_background() -> None:
    words = choose_words(preset="released")
    one = example("the man is riding the horse", "the horse is riding the man", relation="riding")
    assert players(words, one) == [
        {"O": ["the", "man", "the", "horse"], "R": ["is riding"]},
        {"O": ["the", "horse", "the", "man"], "R": ["is riding"]},
    ]
    assert words.find([example(*ATTRIBUTES, attributes="light brown_open")]) == [
        MissingPlayers(NO_RELATION)
    ]
    assert words.find([example("a cat", "a dog", relation="on")]) == [MissingPlayers(NO_RELATION)]


def test_released_preset_drops_captions_that_repeat_the_first_token() -> None:
    """For `tiny` words that it does not know are bytes: “zq” and “zx” begin alike."""
    again = example("the cube on is on the ball", "the ball is on the cube on", relation="on")
    bytes_ = example("the zq is zx the cube", "the cube is zx the zq", relation="zx")
    once = example("the cube is zx the ball", "the ball is zx the cube", relation="zx")
    found = ReleasedWords(load_model("tiny-clip")).find([again, bytes_, once])
    assert found[:2] == [MissingPlayers(REPEATED_RELATION)] * 2
    assert not isinstance(found[2], MissingPlayers)
    by_words = ReleasedWords(Fake()).find([again, bytes_])  # it gives no tokens
    assert by_words[0] == MissingPlayers(REPEATED_RELATION)
    assert not isinstance(by_words[1], MissingPlayers)


def test_parts_of_speech() -> None:
    one = example("a small dog sits on two red chairs")
    assert players(TaggerWords(), one) == [
        {"O": ["dog", "chairs"], "R": ["sits", "on"], "A": ["small", "two", "red"]}
    ]
    assert players(DefaultWords(), one) == players(TaggerWords(), one)


def test_every_word_by_itself() -> None:
    (groups,) = players(SingleWords(), example("the cat, the dog and the t-shirt"))
    assert groups == {
        "the": ["the"], "cat": ["cat"], "the·2": ["the"], "dog": ["dog"], "and": ["and"],
        "the·3": ["the"], "t-shirt": ["t-shirt"],
    }  # fmt: skip


@pytest.mark.parametrize("relation", ["in front of", "next to", "on top of", "to the left of"])
def test_a_relation_of_several_words_is_one_player(relation: str) -> None:
    (groups,) = players(SingleWords(), example(f"cats {relation} a mat"))
    assert list(groups) == ["cats", relation, "a", "mat"]


def lines(folder: Path, *records: Any) -> Path:
    file = folder / "spans.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def test_user_spans(tmp_path: Path) -> None:
    file = lines(
        tmp_path,
        {"id": 7, "caption": 0, "spans": {"X": [[4, 9]], "Y": [[13, 27], [32, 37]]}},
        {"id": "7", "caption": 1, "spans": {"X": [[4, 9]]}},
    )
    words = choose_words(spans=file)
    assert players(words, example(*RELATION)) == [
        {"X": ["grass"], "Y": ["to the left of", "horse"]},
        {"X": ["horse"]},
    ]
    (missing,) = words.find([example(*RELATION, id_="8")])
    assert isinstance(missing, MissingPlayers)
    assert "spans.jsonl has no word groups" in missing.reason


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": "7", "caption": 0, "spans": {}}, "must name at least one group"),
        ({"id": "7", "caption": 0, "spans": {"O": []}}, "the group 'O' is empty"),
        ({"id": "7", "caption": 0, "spans": {"O": [[1, 2, 3]]}}, r"must be \[start, end\]"),
        ({"id": "7", "spans": {"O": [[1, 2]]}}, "'caption' is missing"),
        (
            {
                "id": "7",
                "caption": 0,
                "spans": {f"w{i}": [[i, i + 1]] for i in range(MAX_PLAYERS + 1)},
            },
            "there are 17 groups of words, and 16 is the most",
        ),
    ],
)
def test_bad_spans_are_refused_with_their_line(record: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"spans.jsonl, line 1: .*{message}"):
        UserWords.read(lines(tmp_path, record))


def test_spans_that_do_not_fit_the_caption(tmp_path: Path) -> None:
    for spans, message in (
        ({"O": [[4, 99]]}, "are not in the caption"),
        ({"O": [[4, 9]], "R": [[8, 12]]}, "'O' and 'R' share words"),
    ):
        words = UserWords.read(lines(tmp_path, {"id": "7", "caption": 0, "spans": spans}))
        with pytest.raises(InputError, match=f"line 1: .*{message}"):
            words.find([example(RELATION[0])])
    twice = {"id": "7", "caption": 0, "spans": {"O": [[0, 3]]}}
    with pytest.raises(InputError, match=r"line 2: .*caption 0 twice"):
        UserWords.read(lines(tmp_path, twice, twice))
    with pytest.raises(InputError, match="holds no word groups"):
        UserWords.read(lines(tmp_path))


def test_an_unknown_preset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no preset 'mine'"):
        choose_words(preset="mine")
    with pytest.raises(InputError, match="word groups of its own"):
        choose_words("words", preset="released")
