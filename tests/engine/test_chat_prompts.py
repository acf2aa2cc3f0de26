"""Chat prompts in all orders, and strict parsing of replies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from contrapose.data import Example, ImageRef, content_id, open_image
from contrapose.data.examples import diagonal_match, single_match
from contrapose.engine import chat_prompts
from contrapose.engine.chat_prompts import (
    EQBEN,
    SUGARCREPE,
    ChatRound,
    SideBySide,
    build_rounds,
    explain_unfit,
    find_template,
    join_images,
)
from contrapose.engine.chat_replies import parse_choice, parse_pairing, parse_yes_no
from contrapose.errors import InputError
from contrapose.results.shapes import shapes
from tests.chatting import captions_in
from tests.fakes import pairs, patch


def build(example: Example, score: str, family: str) -> tuple[ChatRound, ...] | str:
    chat = shapes()[family].chat
    return build_rounds(example, find_template(score, tuple(chat.metrics)), chat.options)


def rounds(example: Example, template: str, family: str) -> tuple[ChatRound, ...]:
    result = build(example, template, family)
    assert not isinstance(result, str), result
    return result


@pytest.mark.parametrize(
    ("reply", "option"),
    [
        ("Yes.", 0), ("no", 1), ("**No**, there is no dog.", 1), ("No. Yes would be wrong.", 1),
        ("There is no dog.", 1), ("I think yes", 0), ("Not sure: yes or no", -1), ("", -1),
        ("A dog", -1), ("yesterday", -1),
    ],
)  # fmt: skip
def test_yes_and_no(reply: str, option: int) -> None:
    assert parse_yes_no(reply) == option


def test_templates_are_those_of_the_papers() -> None:
    assert EQBEN.fill(["a cat", "a dog"]) == (
        "There are two images (left and right). Now you have two captions: caption 1: a cat; "
        "caption 2: a dog. Please indicate which caption corresponds to the left image and which "
        "caption corresponds to the right one. The answer should follow the format: \"#index for "
        "the left image; #index for the right image\". For example, \"1;2\" represents that "
        "caption 1 corresponds to image left."
    )  # fmt: skip
    assert SUGARCREPE.fill(["a cat", "a dog"]) == (
        "Which caption best describes the image?\n(1) a cat\n (2) a dog\nOutput (1) or (2)."
    )
    assert SUGARCREPE.fill(["x", "y", "z"]).endswith("\n (3) z\nOutput (1), (2) or (3).")
    # Captions are put in as they are.
    assert "{2} {x} \\1" in SUGARCREPE.fill(["{2} {x} \\1", "b"])
    assert EQBEN.fill(["{2}", "b"]).count("{2}") == 1


def test_a_pair_is_asked_in_both_caption_orders_and_both_image_orders() -> None:
    example = pairs(1)[0]
    (one,) = rounds(example, "chat", "pairs")
    asked = [(turn.images, tuple(captions_in(turn.text))) for turn in one.turns]
    t0, t1 = example.texts
    assert asked == [
        ((0, 1), (t0, t1)), ((0, 1), (t1, t0)), ((1, 0), (t0, t1)), ((1, 0), (t1, t0)),
    ]  # fmt: skip
    right = ["1;2", "2;1", "2;1", "1;2"]
    assert [turn.parse(reply) for turn, reply in zip(one.turns, right, strict=True)] == [0] * 4
    assert [turn.parse(reply[::-1]) for turn, reply in zip(one.turns, right, strict=True)] == [
        1
    ] * 4
    assert [one.turns[0].parse(reply) for reply in ("1;1", "2;2", "what?")] == [-1] * 3
    assert (one.right, one.options) == (0, 2)
    crossed = Example("x", example.images, example.texts, ((False, True), (True, False)), {})
    assert rounds(crossed, "chat:eqben", "pairs")[0].right == 1


@given(st.integers(2, 6), st.data())
def test_cyclic_orders_put_each_caption_once_at_each_position(
    count: int, data: st.DataObject
) -> None:
    right = data.draw(st.integers(0, count - 1))
    texts = tuple(f"caption {'abcdef'[i]}" for i in range(count))
    example = Example("x", (patch(0),), texts, single_match(count, right), {})
    (one,) = rounds(example, "chat", "choice")
    places = Counter(
        (text, position)
        for turn in one.turns
        for position, text in enumerate(captions_in(turn.text))
    )
    assert places == Counter({(text, position): 1 for text in texts for position in range(count)})
    assert (one.right, one.options, len(one.turns)) == (right, count, count)
    for position, turn in enumerate(one.turns):
        assert captions_in(turn.text)[position] == texts[right]
        assert turn.parse(f"({position + 1})") == right
        for said, text in enumerate(captions_in(turn.text)):
            assert turn.parse(f"({said + 1})") == texts.index(text)


def test_choice_rounds_of_each_image_of_a_pair() -> None:
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
    for item in (one, two):
        assert (item.right, item.options) == (0, 2)
        assert [turn.parse("2") for turn in item.turns] == [1, 0]


@pytest.mark.parametrize(
    ("texts", "match", "score", "family", "why"),
    [
        (("a", "b"), ((True, True),), "chat", "choice", "not exactly one right"),
        (("a",), ((True,),), "chat", "choice", "not exactly one right"),
        (("a", "b"), single_match(2, 0), "chat:eqben", "pairs", "not two images"),
        (("a", "b"), single_match(2, 0), "chat", "triple", "not exactly 3 captions"),
    ],
)
def test_examples_that_do_not_fit_the_template(
    texts: tuple[str, ...], match: tuple[tuple[bool, ...], ...], score: str, family: str, why: str
) -> None:
    example = Example("x", (patch(0),), texts, match, {})
    result = build(example, score, family)
    assert isinstance(result, str)
    assert why in result


def test_both_captions_for_both_images_are_no_pairing() -> None:
    example = Example("x", (patch(0), patch(1)), ("a", "b"), ((True, True), (True, True)), {})
    assert isinstance(build_rounds(example, EQBEN), str)
    assert not isinstance(build_rounds(pairs(1)[0], EQBEN), str)
    assert diagonal_match(2) == pairs(1)[0].match


def test_families_that_do_not_fit_the_template() -> None:
    assert "two images with two captions" in explain_unfit("chat:eqben", EQBEN, ("sugarcrepe",))
    for family, shape in shapes().items():
        fitting = tuple(shape.chat.metrics)
        why = explain_unfit("chat", find_template("chat", fitting), fitting)
        chooses = family in ("choice", "foil", "images", "pairs", "sets", "triple")
        chooses |= family in ("judgement", "question_groups")
        assert ("which of a few captions" in why) != chooses


def test_side_by_side_without_a_gap() -> None:
    rng = np.random.default_rng(0)
    left, right = (rng.integers(0, 256, (8, width, 3), dtype=np.uint8) for width in (5, 9))
    full = join_images(Image.fromarray(left), Image.fromarray(right))
    assert np.array_equal(np.asarray(full), np.concatenate([left, right], axis=1))


def test_the_lower_image_is_scaled_up() -> None:
    left, right = Image.new("RGB", (10, 20), "red"), Image.new("RGB", (7, 5), "blue")
    full = join_images(left, right)
    assert full.size == (10 + 28, 20)
    assert full.getpixel((9, 19)) == (255, 0, 0)
    assert full.getpixel((10, 19)) == (0, 0, 255)
    assert join_images(right, left).size == full.size


def test_too_large_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_prompts, "MAX_PIXELS", 100)
    with pytest.raises(InputError, match="too large side by side"):
        join_images(Image.new("RGB", (1, 100)), Image.new("RGB", (30, 1)))


def test_side_by_side_as_an_image_source(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    Image.new("RGB", (4, 4), "red").save(file)
    read = ImageRef("a", file)
    refs = [
        ImageRef("x", source=SideBySide(read, patch(1), "a | b")),
        ImageRef("y", source=SideBySide(patch(1), read, "b | a")),
    ]
    one, other = (np.asarray(open_image(ref)) for ref in refs)
    assert one.shape == (4, 8, 3)
    assert np.array_equal(one[:, :4], other[:, 4:])
    assert np.array_equal(one[:, 4:], other[:, :4])
    assert content_id(refs[0]) != content_id(refs[1])
    missing = ImageRef("z", source=SideBySide(read, ImageRef("no", tmp_path / "no.png"), "c"))
    with pytest.raises(InputError, match="the image is not there"):
        open_image(missing)


CAPTIONS = ("A man in a red shirt walks 2 dogs.", "Two dogs walk a man in a red shirt.")


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        # A label alone.
        ("1", 0), ("(2)", 1), (" (1).\n", 0), ("[2]", 1), ("**(2)**", 1), ("A", 0), ("(B)", 1),
        ("b.", 1), ('"1"', 0), ("２", 1), ("Caption 1", 0), ("Option B", 1), ("Answer: (2)", 1),
        ("Output (1)", 0), ("The best caption is (2).", 1), ("The correct answer is caption 1.", 0),
        ("(1)\n\nThe man is walking; (2) has it the wrong way round.", 0), ("2)", 1),
        # The caption itself.
        (CAPTIONS[1], 1), (f"(1) {CAPTIONS[0]}", 0), (f'2. "{CAPTIONS[1].lower()}"', 1),
        ("Caption 2: two dogs walk a man in a red shirt", 1),
        # One label, named in a sentence.
        ("The caption that best describes the image is (2).", 1),
        ("(1) because the man holds the leash.", 0), ("1. The image shows a man.", 0),
        ("Looking at the 2 dogs, I would choose option 1", 0),
        ("(2), since it is not the man who leads.", 1),
    ],
)  # fmt: skip
def test_parsable_choices(reply: str, place: int) -> None:
    assert parse_choice(reply, CAPTIONS) == place


@pytest.mark.parametrize(
    "reply",
    [
        "", "  \n ", "3", "(0)", "C", "(1) or (2)", "1 2", "(1)\n(2)", "12", "yes",
        "Neither caption is right: it is neither (1).", "Both", "I'm sorry, I cannot tell. (1)",
        "It is not (1).", "Caption 1 is better than caption 2.", "A man walks dogs.",
        "There are 2 dogs.", f"(1) {CAPTIONS[1]}", "I can't help with that.",
        "Therefore, the correct description would neither be (1) nor (2).",
        "refused: against rule (1)", "A dog", "the first one", "(1/2)",
    ],
)  # fmt: skip
def test_unparsable_choices(reply: str) -> None:
    assert parse_choice(reply, CAPTIONS) == -1


def test_choices_among_many_captions() -> None:
    five = [f"caption number {i}" for i in range(5)]
    assert parse_choice("(5)", five) == 4
    assert parse_choice("E", five) == 4
    assert parse_choice("(6)", five) == -1
    assert parse_choice("caption number 3", five) == 3  # the caption itself, not the third
    assert parse_choice("same", ["same", "same"]) == -1


@given(st.text(max_size=80))
def test_a_choice_is_a_position_or_unparsable(reply: str) -> None:
    assert parse_choice(reply, CAPTIONS) in (-1, 0, 1)
    result = parse_pairing(reply)
    assert result is None or set(result) <= {1, 2}


@given(st.integers(0, 1), st.sampled_from(["{}", "({})", "Answer: {}.", "**{}**", "Caption {}"]))
def test_the_label_decides_whatever_the_captions(place: int, form: str) -> None:
    assert parse_choice(form.format(place + 1), CAPTIONS) == place
    assert parse_choice(form.format(place + 1), CAPTIONS[::-1]) == place
    assert parse_choice(form.format("ab"[place]), CAPTIONS) == place


@pytest.mark.parametrize(
    ("reply", "pairing"),
    [
        ("1;2", (1, 2)), ("2;1", (2, 1)), (" 2 ; 1.\n", (2, 1)), ('"1;2"', (1, 2)), ("1,2", (1, 2)),
        ("#2; #1", (2, 1)), ("(1;2)", (1, 2)), ("caption 2 and caption 1", (2, 1)), ("1/2", (1, 2)),
        ("Answer: 2;1", (2, 1)), ("1;1", (1, 1)), ("1;2\n\nThe left image shows 3 dogs.", (1, 2)),
        ("#1 for the left image; #2 for the right image", (1, 2)),
        ("Left: caption 2; right: caption 1", (2, 1)), ("Right: 1\nLeft: 2", (2, 1)),
        ("Caption 1 corresponds to the right image and caption 2 to the left.", (2, 1)),
        ("The left image is caption 1 and the right image is caption 2.", (1, 2)),
        ("Left: 2; right: 1.\nThe left one has 5 things.", (2, 1)),
    ],
)  # fmt: skip
def test_parsable_pairings(reply: str, pairing: tuple[int, int]) -> None:
    assert parse_pairing(reply) == pairing


@pytest.mark.parametrize(
    "reply",
    [
        "", "1", "12", "1;3", "1;2 or 2;1", "The right answer is 1;2", "left",
        "left and right: 1 and 2",
        "Caption 1 is not the left image, caption 2 not the right.", "left: 1; left: 2",
        "Neither: left 1; right 2", "left 1, 2 right", "I cannot see two images.",
        "left: A; right: B", "refused: left 1, right 2",
    ],
)  # fmt: skip
def test_unparsable_pairings(reply: str) -> None:
    assert parse_pairing(reply) is None
