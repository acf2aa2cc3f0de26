"""From examples to questions: the prompts word for word, every order, what answers mean."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.data import Example, Family
from contrapose.data.example import diagonal, one_right
from contrapose.scoring.chat import rounds_of, template_for, unfit_for_chat
from contrapose.scoring.chat.rounds import Round
from contrapose.scoring.chat.templates import EQBEN, SUGARCREPE
from tests.chatting import captions_in
from tests.fakes import pairs, patch


def rounds(example: Example, template: str, family: str) -> tuple[Round, ...]:
    found = rounds_of(example, template_for(template, family), family)  # type: ignore[arg-type]
    assert not isinstance(found, str), found
    return found


def test_the_prompts_are_those_of_the_papers() -> None:
    assert EQBEN.about(["a cat", "a dog"]) == (
        "There are two images (left and right). Now you have two captions: caption 1: a cat; "
        "caption 2: a dog. Please indicate which caption corresponds to the left image and which "
        "caption corresponds to the right one. The answer should follow the format: \"#index for "
        "the left image; #index for the right image\". For example, \"1;2\" represents that "
        "caption 1 corresponds to image left."
    )  # fmt: skip
    assert SUGARCREPE.about(["a cat", "a dog"]) == (
        "Which caption best describes the image?\n(1) a cat\n (2) a dog\nOutput (1) or (2)."
    )
    assert SUGARCREPE.about(["x", "y", "z"]).endswith("\n (3) z\nOutput (1), (2) or (3).")
    # Captions are put in as they are.
    assert "{2} {x} \\1" in SUGARCREPE.about(["{2} {x} \\1", "b"])
    assert EQBEN.about(["{2}", "b"]).count("{2}") == 1


def test_a_pair_is_asked_in_both_caption_orders_and_both_image_orders() -> None:
    example = pairs(1)[0]
    (one,) = rounds(example, "chat", "pairs")
    asked = [(turn.images, tuple(captions_in(turn.text))) for turn in one.turns]
    t0, t1 = example.texts
    assert asked == [
        ((0, 1), (t0, t1)), ((0, 1), (t1, t0)), ((1, 0), (t0, t1)), ((1, 0), (t1, t0)),
    ]  # fmt: skip
    right = ["1;2", "2;1", "2;1", "1;2"]
    assert [turn.read(reply) for turn, reply in zip(one.turns, right, strict=True)] == [0] * 4
    assert [turn.read(reply[::-1]) for turn, reply in zip(one.turns, right, strict=True)] == [1] * 4
    assert [one.turns[0].read(reply) for reply in ("1;1", "2;2", "what?")] == [-1] * 3
    assert (one.right, one.options) == (0, 2)
    crossed = Example("x", example.images, example.texts, ((False, True), (True, False)), {})
    assert rounds(crossed, "chat:eqben", "pairs")[0].right == 1


@given(st.integers(2, 6), st.data())
def test_captions_go_round_so_that_each_stands_once_in_each_place(
    count: int, data: st.DataObject
) -> None:
    right = data.draw(st.integers(0, count - 1))
    texts = tuple(f"caption {'abcdef'[i]}" for i in range(count))
    example = Example("x", (patch(0),), texts, one_right(count, right), {})
    (one,) = rounds(example, "chat", "choice")
    places = Counter(
        (text, place) for turn in one.turns for place, text in enumerate(captions_in(turn.text))
    )
    assert places == Counter({(text, place): 1 for text in texts for place in range(count)})
    assert (one.right, one.options, len(one.turns)) == (right, count, count)
    for place, turn in enumerate(one.turns):
        assert captions_in(turn.text)[place] == texts[right]
        assert turn.read(f"({place + 1})") == right
        for said, text in enumerate(captions_in(turn.text)):
            assert turn.read(f"({said + 1})") == texts.index(text)


def test_each_image_of_a_pair_by_itself() -> None:
    one, two = rounds(pairs(1)[0], "chat:sugarcrepe", "pairs")
    assert [turn.images for turn in (*one.turns, *two.turns)] == [(0,), (0,), (1,), (1,)]
    assert (one.right, two.right) == (0, 1)


def test_a_triple_is_each_right_caption_against_the_wrong_one() -> None:
    match = ((True, False, True),)
    example = Example("x", (patch(0),), ("original", "negative", "positive"), match, {})
    one, two = rounds(example, "chat", "triple")
    assert [captions_in(turn.text) for turn in one.turns] == [
        ["original", "negative"], ["negative", "original"],
    ]  # fmt: skip
    assert [captions_in(turn.text) for turn in two.turns] == [
        ["positive", "negative"], ["negative", "positive"],
    ]  # fmt: skip
    for each in (one, two):
        assert (each.right, each.options) == (0, 2)
        assert [turn.read("2") for turn in each.turns] == [1, 0]


@pytest.mark.parametrize(
    ("texts", "match", "score", "family", "why"),
    [
        (("a", "b"), ((True, True),), "chat", "choice", "not exactly one right"),
        (("a",), ((True,),), "chat", "choice", "not exactly one right"),
        (("a", "b"), one_right(2, 0), "chat:eqben", "pairs", "not two images"),
        (("a", "b"), one_right(2, 0), "chat", "triple", "hard positive"),
    ],
)
def test_examples_that_have_no_such_question(
    texts: tuple[str, ...], match: tuple[tuple[bool, ...], ...], score: str, family: str, why: str
) -> None:
    example = Example("x", (patch(0),), texts, match, {})
    found = rounds_of(example, template_for(score, family), family)  # type: ignore[arg-type]
    assert isinstance(found, str)
    assert why in found


def test_both_captions_for_both_images_are_no_pairing() -> None:
    example = Example("x", (patch(0), patch(1)), ("a", "b"), ((True, True), (True, True)), {})
    assert isinstance(rounds_of(example, EQBEN, "pairs"), str)
    assert not isinstance(rounds_of(pairs(1)[0], EQBEN, "images"), str)
    assert diagonal(2) == pairs(1)[0].match


def test_families_that_cannot_be_asked() -> None:
    assert unfit_for_chat("chat:eqben", EQBEN, "choice") == (
        "chat:eqben shows two images with two captions"
    )
    others: tuple[Family, ...] = ("retrieval", "classes", "edits")
    for family in others:
        why = unfit_for_chat("chat", template_for("chat", family), family)
        assert "which of a few captions" in why
    able: tuple[Family, ...] = ("choice", "foil", "triple", "pairs", "images")
    for family in able:
        assert unfit_for_chat("chat", template_for("chat", family), family) == ""
