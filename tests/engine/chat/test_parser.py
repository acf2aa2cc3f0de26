"""How replies are read: what counts as an answer, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.engine.chat.parser import parse_choice, parse_pairing

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
def test_choices_that_can_be_read(reply: str, place: int) -> None:
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
def test_choices_that_cannot(reply: str) -> None:
    assert parse_choice(reply, CAPTIONS) == -1


def test_more_captions() -> None:
    five = [f"caption number {i}" for i in range(5)]
    assert parse_choice("(5)", five) == 4
    assert parse_choice("E", five) == 4
    assert parse_choice("(6)", five) == -1
    assert parse_choice("caption number 3", five) == 3  # the caption itself, not the third
    assert parse_choice("same", ["same", "same"]) == -1


@given(st.text(max_size=80))
def test_a_choice_is_a_place_or_nothing(reply: str) -> None:
    assert parse_choice(reply, CAPTIONS) in (-1, 0, 1)
    found = parse_pairing(reply)
    assert found is None or set(found) <= {1, 2}


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
def test_pairings_that_can_be_read(reply: str, pairing: tuple[int, int]) -> None:
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
def test_pairings_that_cannot(reply: str) -> None:
    assert parse_pairing(reply) is None
