"""SWAP around “and”: what is swapped, what is refused, and that twice is the identity."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.build.captions import apply_changes, parse_sentence, swap_conjuncts
from contrapose.build.captions.lexicon import load_lexicon
from contrapose.build.captions.verification import have_same_words
from contrapose.data.benchmarks.hard_positives import swap_sides

CAPITALS = st.booleans()


def swap(caption: str) -> str | None:
    made = swap_conjuncts(parse_sentence(caption))
    if made is None:
        return None
    assert apply_changes(caption, made.changes) == made.text
    assert made.kind == "swap-and"
    return made.text


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a red cube and a blue ball", "a blue ball and a red cube"),
        ("A red cube and a blue ball.", "A blue ball and a red cube."),
        ("the white fence and the green tree", "the green tree and the white fence"),
        ("a sofa and a lamp in a room", "a lamp and a sofa in a room"),
        ("three giraffes and two antelopes", "two antelopes and three giraffes"),
        ("Bushes and trees", "Trees and bushes"),
        ("a blue and white clock shows the time", "a white and blue clock shows the time"),
        ("An orange and white cat.", "A white and orange cat."),
        ("a white and orange cat", "an orange and white cat"),
        ("the bus is red and white", "the bus is white and red"),
        ("a man in a white shirt and black tie", "a man in a black tie and white shirt"),
        (
            "a room with green vases and a wooden bench",
            "a room with a wooden bench and green vases",
        ),
        (
            "a lady wearing skis and a man holding poles",
            "a man holding poles and a lady wearing skis",
        ),
        (
            "there is a man wearing glasses and holding a bottle",
            "there is a man holding a bottle and wearing glasses",
        ),
        ("A man and a woman are sitting on a bench.", "A woman and a man are sitting on a bench."),
        ("a mixture of rice and broccoli", "a mixture of broccoli and rice"),
        ("a cup on a plate and a fork on a napkin", "a fork on a napkin and a cup on a plate"),
        ("a ball between a cube and a cone", "a ball between a cone and a cube"),
    ],
)
def test_safe_conjuncts_are_swapped(caption: str, expected: str) -> None:
    assert swap(caption) == expected
    assert swap(expected) == caption


@pytest.mark.parametrize(
    ("caption", "why"),
    [
        ("a cat on a bed", "no and"),
        ("a man wearing a black mask and black clothing", "a mass noun has no article"),
        ("there are three sinks and a toilet", "a verb that does not agree"),
        ("a herd of sheep on the road and a car", "one known, one not"),
        ("a boy in jeans and an orange shirt chases bubbles", "whose shirt"),
        ("a cat and a dog and a mouse", "two of them"),
        ("a sink, toilet and shower", "a list"),
        ("a cat and its kitten", "a pronoun"),
        ("trees and bushes near them", "a pronoun"),
        ("a piece of cake and a fork", "an of-phrase on the left"),
        ("a fork and a piece of cake", "an of-phrase on the right"),
        ("a glass of wine and cheese", "an of-phrase that is not of both"),
        ("a red shirt and hat", "the adjective may belong to both"),
        ("a pineapple and ham pizza", "the noun may belong to both"),
        ("a man with a hat and a dog", "the dog may stand beside the man"),
        ("a dog and a man with a hat", "the hat belongs to the man"),
        ("a cat and a man in a coat", "the coat belongs to the man"),
        ("a bed and a plate of food", "an of-phrase"),
        ("a room with a bed and a lamp on a desk", "only the lamp is on the desk"),
        ("a cup on a plate and a fork on a napkin near a knife", "not alike on both sides"),
        ("women cutting and preparing a pizza", "the pizza belongs to both verbs"),
        ("a black and white photo", "a set phrase"),
        ("salt and pepper", "a set phrase"),
        ("there is a dog and two cats", "is would no longer agree"),
        ("a dog and not a cat", "a negation"),
        ("a cat and", "nothing on the right"),
        ("and a cat", "nothing on the left"),
        ("a cat and a cat", "nothing would change"),
    ],
)
def test_bad_input_is_refused(caption: str, why: str) -> None:
    assert swap(caption) is None, why


def test_swaps_equal_the_benchmark() -> None:
    """SWAP's captions are ARO's: “the white fence and the green tree”."""
    attributes = [side[0] for side in load_lexicon().attributes["colour"]]
    nouns = [side[0] for side in load_lexicon().objects["vehicle"]]
    captions = [
        f"the {one} {noun} and the {other} {nouns[i - 1]}"
        for i, noun in enumerate(nouns) for one in attributes for other in ("open", "large")
    ]  # fmt: skip
    assert [swap(caption) for caption in captions] == [swap_sides(caption) for caption in captions]


COLOURS = st.sampled_from(["red", "blue", "green", "white", "orange", "purple"])
NOUNS = st.sampled_from(["cube", "ball", "dog", "cat", "chair", "table", "lamp", "umbrella", "owl"])
ENDS = st.sampled_from(["", " on a table", " in a room", " near a house", " are sitting on a bed"])
DETERMINERS = st.sampled_from(["a", "the"])


@st.composite
def pairs(draw: st.DrawFn) -> str:
    """“a red cube and the blue ball in a room”, with the right articles."""
    sides = []
    for _ in range(2):
        words = [*draw(st.lists(COLOURS, max_size=1)), draw(NOUNS)]
        determiner = draw(DETERMINERS)
        if determiner == "a" and words[0][0] in "aeiou":
            determiner = "an"
        sides.append(" ".join([determiner, *words]))
    caption = " and ".join(sides) + draw(ENDS)
    if draw(CAPITALS):
        caption = f"{caption[0].upper()}{caption[1:]}."
    return caption


@settings(deadline=None)
@given(pairs())
def test_swapping_twice_is_the_identity(caption: str) -> None:
    once = swap(caption)
    if once is None:
        left, right = caption.rstrip(".").lower().split(" and ")
        assert right.startswith(left), "two noun phrases with their articles are always swapped"
        return
    assert once != caption
    assert have_same_words(caption, once)
    assert swap(once) == caption


@settings(deadline=None)
@given(COLOURS, COLOURS, NOUNS)
def test_two_adjectives_of_one_noun(first: str, second: str, noun: str) -> None:
    article = "an" if first[0] in "aeiou" else "a"
    caption = f"{article} {first} and {second} {noun}"
    once = swap(caption)
    if first == second:
        assert once is None
    else:
        assert once is not None
        assert once.split()[1:] == [second, "and", first, noun]
        assert once.split()[0] == ("an" if second[0] in "aeiou" else "a")
        assert swap(once) == caption
