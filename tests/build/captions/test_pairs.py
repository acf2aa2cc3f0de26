"""From a caption to pairs: no negative that fits, the same by seed, counted at every filter."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.build.captions import (
    ALL,
    NEGATIVE,
    POSITIVE,
    CaptionPairs,
    CaptionRecord,
    Recipe,
    Tally,
    apply_changes,
    make_pairs,
    parse_kinds,
)
from contrapose.build.captions.edits import _find_word_before
from contrapose.build.captions.verification import normalize_words, reads_alike

MANY = 1000
CAPTIONS = (
    "A red cube and a blue ball.",
    "a man riding a brown horse next to two dogs",
    "There is a cat sitting on a wooden table.",
    "A cat and a dog on a bed",
    "a dog next to a cat",
)


def make(caption: str, recipe: Recipe, tally: Tally | None = None) -> CaptionPairs:
    (pairs,) = make_pairs([CaptionRecord(caption, "x.jpg")], recipe, tally=tally)
    return pairs


def test_pairs_of_a_caption() -> None:
    pairs = make(CAPTIONS[0], Recipe(per_caption=MANY))
    assert {one.text for one in pairs.positives} == {
        "A blue ball and a red cube.",
        "A crimson cube and a blue ball.",
        "A red cube and a sapphire ball.",
    }
    negatives = {one.text: one.kind for one in pairs.negatives}
    assert negatives["A blue cube and a red ball."] == "exchange-attribute"
    assert negatives["A red ball and a blue cube."] == "exchange-object"
    assert negatives["A green cube and a blue ball."] == "attribute"
    assert {one.kind for one in pairs.positives} <= set(POSITIVE)
    assert set(negatives.values()) <= set(NEGATIVE)


def test_equivalent_swap_is_not_a_negative() -> None:
    for caption, same in (
        ("A cat and a dog on a bed", "A dog and a cat on a bed"),
        ("a dog next to a cat", "a cat next to a dog"),
    ):
        negatives = make(caption, Recipe(per_caption=MANY)).negatives
        assert same not in {one.text for one in negatives}
    kinds = {one.text: one.kind for one in make("a dog on a cat", Recipe(per_caption=9)).negatives}
    assert kinds["a cat on a dog"] == "exchange-object"


def test_pairs_depend_on_seed_and_caption_only() -> None:
    alone = [make(caption, Recipe(seed=3)) for caption in CAPTIONS]
    rows = [CaptionRecord(caption, "x.jpg") for caption in reversed(CAPTIONS)]
    together = list(make_pairs(rows, Recipe(seed=3)))
    assert together == alone[::-1]
    assert alone != [make(caption, Recipe(seed=4)) for caption in CAPTIONS]


def test_one_of_each_kind_before_a_second() -> None:
    pairs = make(CAPTIONS[1], Recipe(per_caption=5))
    assert len(pairs.negatives) == 5
    assert max(Counter(one.kind.split("-")[0] for one in pairs.negatives).values()) == 1
    kinds = parse_kinds(["number"])
    assert {one.kind for one in make(CAPTIONS[1], Recipe(kinds)).negatives} == {"number"}
    assert make(CAPTIONS[1], Recipe(kinds)).positives == ()


def test_negative_is_never_a_positive_of_another_kind() -> None:
    for per_caption in (1, MANY):
        recipe = Recipe(parse_kinds(["negative"]), per_caption=per_caption)
        pairs = make("A cat and a dog on a bed", recipe)
        assert pairs.positives == ()
        assert normalize_words("A dog and a cat on a bed") not in {
            normalize_words(one.text) for one in pairs.negatives
        }


def test_every_proposal_is_counted() -> None:
    tally = Tally()
    rows = [CaptionRecord(caption) for caption in CAPTIONS]
    pairs = list(make_pairs(rows, Recipe(per_caption=2), tally=tally))
    assert tally.captions["made"] == len(CAPTIONS)
    assert tally.kept.total() == sum(len(one.positives) + len(one.negatives) for one in pairs)
    for kind, count in tally.proposed.items():
        dropped = tally.dropped.get(kind, Counter()).total()
        assert count == tally.kept[kind] + dropped


@pytest.mark.parametrize(
    ("caption", "changed"),
    [
        ("a red bus. is the dog black? no.", False),
        ("a red bus. is the dog black? yes.", True),
        ("a red bus. is the dog black?", False),
    ],
)
def test_changes_in_questions(caption: str, changed: bool) -> None:
    tally = Tally()
    negatives = make(caption, Recipe(parse_kinds(["contrast"]), per_caption=MANY), tally).negatives
    start = caption.index("is the")
    asked = [one for one in negatives if any(change.start >= start for change in one.changes)]
    assert bool(asked) == changed
    assert any(one.text.startswith("a blue bus") for one in negatives)
    reasons = sum(counts["in a question"] for counts in tally.dropped.values())
    assert (reasons > 0) != changed


def test_most_captions_have_a_positive(shared: Path) -> None:
    file = shared / "flickr8k_features" / "test_captions.txt"
    rows = [CaptionRecord(line) for line in file.read_text().splitlines()[::25]]
    tally = Tally()
    list(make_pairs(rows, Recipe(parse_kinds(["positive"])), tally=tally))
    assert tally.captions["without a positive"] < 0.25 * tally.captions["made"]


ATTRIBUTES = st.sampled_from(["red", "blue", "large", "small", "wooden", "old", "orange"])
THINGS = st.sampled_from(["dog", "cat", "man", "woman", "table", "chair", "umbrella", "apple"])
JOINS = st.sampled_from(
    ["and", "next to", "on", "in front of", "with", "riding", "holding", "near", "chasing", "or"]
)


@st.composite
def captions(draw: st.DrawFn) -> str:
    parts = []
    for i in range(draw(st.integers(1, 3))):
        phrase = ["the", *draw(st.lists(ATTRIBUTES, max_size=2)), draw(THINGS)]
        parts += [*([draw(JOINS)] if i else []), *phrase]
    text = " ".join(parts)
    return draw(st.sampled_from([text, text.capitalize() + ".", text.upper()]))


@settings(deadline=None, max_examples=150)
@given(captions(), st.integers(0, 3), st.sampled_from([1, 4, MANY]))
def test_a_negative_never_equals_the_caption_or_a_positive(
    caption: str, seed: int, per_caption: int
) -> None:
    recipe = Recipe(ALL, seed, per_caption)
    pairs = make(caption, recipe)
    everything = make(caption, Recipe(ALL, seed, MANY))
    fitting = {
        normalize_words(caption),
        *(normalize_words(one.text) for one in everything.positives),
    }
    assert len(pairs.positives) <= per_caption
    assert len(pairs.negatives) <= per_caption
    for negative in pairs.negatives:
        assert normalize_words(negative.text) not in fitting
        assert not reads_alike(caption, negative.text)
    for one in (*pairs.positives, *pairs.negatives):
        assert apply_changes(caption, one.changes) == one.text
        assert normalize_words(one.text) != normalize_words(caption)
    for side in (pairs.positives, pairs.negatives):
        assert len({normalize_words(one.text) for one in side}) == len(side)


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=60))
def test_any_text_is_accepted(caption: str) -> None:
    pairs = make(caption, Recipe(per_caption=3))
    for one in (*pairs.positives, *pairs.negatives):
        assert apply_changes(caption, one.changes) == one.text


@pytest.mark.parametrize(
    "caption",
    [
        f"a cat, a {'x' * 30_000}, and a dog",
        f"a red {'x' * 30_000} on a mat",
        f"a dog{' ' * 30_000}on a mat .",
        f"is it a dog? no, a {'x' * 30_000}. a mat",
    ],
    ids=["list", "noun", "blanks", "question"],
)
def test_a_caption_with_a_very_long_word_takes_linear_work(caption: str) -> None:
    """The work of some searches was quadratic or cubic: minutes for such captions."""
    (made,) = make_pairs([CaptionRecord(caption)], Recipe(), None, Tally())
    assert made.caption == caption


@settings(deadline=None)
@given(st.text("aAn '-’\t.x", max_size=12))
def test_the_word_before_is_that_of_a_search(text: str) -> None:
    for at in range(len(text) + 1):
        match = re.compile(r"(\w[\w'’-]*)[ \t]+$").search(text, 0, at)
        start, end = _find_word_before(text, at)
        assert text[start:end] == ("" if match is None else match[1])
        assert match is None or match.span(1) == (start, end)
