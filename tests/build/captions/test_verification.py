"""Verification of rewritten captions: accepted and refused ones."""

from __future__ import annotations

import pytest

from contrapose.build.captions.edits import apply_changes
from contrapose.build.captions.verification import (
    DoubtError,
    are_exclusive,
    reads_alike,
    verify_one_word,
    verify_reordering,
)

CAPTION = "A man rides a horse and holds a flag."


def test_one_word_is_replaced() -> None:
    made = verify_one_word(CAPTION, "a man rides a horse and holds an ensign", "x", keeps=True)
    assert made.text == "A man rides a horse and holds an ensign."
    assert [(one.before, one.after) for one in made.changes] == [("a", "an"), ("flag", "ensign")]
    assert apply_changes(CAPTION, made.changes) == made.text


@pytest.mark.parametrize(
    ("text", "keeps", "why"),
    [
        (CAPTION, True, "none was"),
        ("A man rides a pony and holds a banner.", True, "2 were"),
        ("A man rides a horse and holds up a flag.", True, "exactly one other word"),
        ("", True, "exactly one other word"),
        ("A woman rides a horse and holds a flag.", True, "does not mean the same"),
        ("A man rides a horse and grasps a flag.", False, "means the same"),
        ("A man rides a horse and holds a flags.", True, "another form"),
    ],
)
def test_bad_one_word_rewrites_are_refused(text: str, keeps: bool, why: str) -> None:
    with pytest.raises(DoubtError, match=why):
        verify_one_word(CAPTION, text, "x", keeps=keeps)


def test_have_same_words() -> None:
    made = verify_reordering("An owl and a cat.", "a cat and an owl", "x", keeps=True)
    assert made.text == "A cat and an owl."
    other = verify_reordering("a dog on a cat", "a cat on a dog", "x", keeps=False)
    assert other.text == "a cat on a dog"


@pytest.mark.parametrize(
    ("caption", "text", "keeps", "why"),
    [
        ("a cat and a dog", "a dog and a mouse", True, "must stay the same"),
        ("a cat and a dog", "a cat and a dog", True, "must change"),
        ("a red cat and a blue dog", "a blue cat and a red dog", True, "two sides"),
        ("a dog next to a cat", "a cat next to a dog", True, "two sides"),
        ("a dog next to a cat", "a cat next to a dog", False, "may be exchanged"),
        ("a cat and a dog", "a dog and a cat", False, "may be exchanged"),
    ],
)
def test_bad_reorderings_are_refused(caption: str, text: str, keeps: bool, why: str) -> None:
    with pytest.raises(DoubtError, match=why):
        verify_reordering(caption, text, "x", keeps=keeps)


def test_words_that_exclude_each_other() -> None:
    assert are_exclusive("red", "blue")
    assert are_exclusive("dogs", "cats")
    assert not are_exclusive("red", "crimson")
    assert not are_exclusive("dog", "puppy")
    assert not are_exclusive("dog", "red")


def test_reads_alike() -> None:
    assert reads_alike("a cat and a dog", "A dog and a cat.")
    assert reads_alike("a cat", "A cat!")
    assert not reads_alike("a cat on a dog", "a dog on a cat")
    assert not reads_alike("a cat and a dog", "a dog and a cow")
