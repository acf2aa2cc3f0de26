"""From examples to questions: the prompts word for word, every order, what answers mean."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from contrapose.data import Example, Family, ImageRef, content_id, open_image
from contrapose.data.examples import diagonal_match, single_match
from contrapose.engine.chat import build_rounds, explain_unfit, find_template, prompts
from contrapose.engine.chat.prompts import EQBEN, SUGARCREPE, ChatRound, SideBySide, join_images
from contrapose.errors import InputError
from tests.chatting import captions_in
from tests.fakes import pairs, patch


def rounds(example: Example, template: str, family: str) -> tuple[ChatRound, ...]:
    found = build_rounds(example, find_template(template, family), family)
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
    example = Example("x", (patch(0),), texts, single_match(count, right), {})
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
        (("a", "b"), single_match(2, 0), "chat:eqben", "pairs", "not two images"),
        (("a", "b"), single_match(2, 0), "chat", "triple", "hard positive"),
    ],
)
def test_examples_that_have_no_such_question(
    texts: tuple[str, ...], match: tuple[tuple[bool, ...], ...], score: str, family: str, why: str
) -> None:
    example = Example("x", (patch(0),), texts, match, {})
    found = build_rounds(example, find_template(score, family), family)
    assert isinstance(found, str)
    assert why in found


def test_both_captions_for_both_images_are_no_pairing() -> None:
    example = Example("x", (patch(0), patch(1)), ("a", "b"), ((True, True), (True, True)), {})
    assert isinstance(build_rounds(example, EQBEN, "pairs"), str)
    assert not isinstance(build_rounds(pairs(1)[0], EQBEN, "images"), str)
    assert diagonal_match(2) == pairs(1)[0].match


def test_families_that_cannot_be_asked() -> None:
    assert explain_unfit("chat:eqben", EQBEN, "choice") == (
        "chat:eqben shows two images with two captions"
    )
    others: tuple[Family, ...] = ("retrieval", "classes", "edits")
    for family in others:
        why = explain_unfit("chat", find_template("chat", family), family)
        assert "which of a few captions" in why
    able: tuple[Family, ...] = ("choice", "foil", "triple", "pairs", "images")
    for family in able:
        assert explain_unfit("chat", find_template("chat", family), family) == ""


def test_side_by_side_without_a_gap() -> None:
    rng = np.random.default_rng(0)
    left, right = (rng.integers(0, 256, (8, width, 3), dtype=np.uint8) for width in (5, 9))
    whole = join_images(Image.fromarray(left), Image.fromarray(right))
    assert np.array_equal(np.asarray(whole), np.concatenate([left, right], axis=1))


def test_the_lower_one_is_scaled_up() -> None:
    left, right = Image.new("RGB", (10, 20), "red"), Image.new("RGB", (7, 5), "blue")
    whole = join_images(left, right)
    assert whole.size == (10 + 28, 20)
    assert whole.getpixel((9, 19)) == (255, 0, 0)
    assert whole.getpixel((10, 19)) == (0, 0, 255)
    assert join_images(right, left).size == whole.size


def test_too_large_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "MAX_PIXELS", 100)
    with pytest.raises(InputError, match="too large side by side"):
        join_images(Image.new("RGB", (1, 100)), Image.new("RGB", (30, 1)))


def test_as_a_source_of_images(tmp_path: Path) -> None:
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
