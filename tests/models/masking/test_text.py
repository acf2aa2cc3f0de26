"""Captions with hidden words: how they are written down, and which tokens are theirs."""

from __future__ import annotations

import copy
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.data import text_id
from contrapose.errors import InputError
from contrapose.models.masking.text import (
    TEXT_MASKS,
    MaskedText,
    delete_words,
    flag_by_offsets,
    flag_by_prefix,
    full_caption,
    hide,
    merge_spans,
    replace_tokens,
    require_text_mask,
)

CAPTION = "the red cube is left of the ball"


def test_a_masked_caption_is_never_taken_for_another() -> None:
    made = [
        MaskedText(CAPTION, spans, kind)
        for kind in ("zero", "pad")
        for spans in ([(4, 7)], [(8, 12)], [(4, 7), (8, 12)], [])
    ]
    every = [*made, CAPTION]
    assert len(set(every)) == len({text_id(text) for text in every}) == len(every)
    assert MaskedText(CAPTION, [(8, 12), (4, 7)]) == MaskedText(CAPTION, [(4, 7), (8, 12)])


def test_its_parts_are_kept() -> None:
    text = MaskedText(CAPTION, [(8, 12), (4, 7)], "pad")
    assert (text.caption, text.hidden, text.kind) == (CAPTION, ((4, 7), (8, 12)), "pad")
    again = copy.deepcopy(text)
    assert (again, again.caption, again.hidden, again.kind) == (text, CAPTION, text.hidden, "pad")
    assert full_caption(text) == CAPTION
    assert full_caption(CAPTION) == CAPTION


def test_hiding_nothing_is_the_caption_itself() -> None:
    for kind in TEXT_MASKS:
        assert hide(CAPTION, [], kind) is CAPTION


def test_words_that_are_taken_out_leave_plain_text() -> None:
    assert hide(CAPTION, [(4, 7)], "delete") == "the cube is left of the ball"
    assert type(hide(CAPTION, [(4, 7)], "delete")) is str
    assert delete_words("a cube, a ball", [(2, 6)]) == "a, a ball"
    assert delete_words("cube", [(0, 4)]) == ""


@pytest.mark.parametrize("span", [(3, 3), (5, 4), (-1, 3), (30, 99)])
def test_places_outside_the_caption_are_refused(span: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="are not in the caption"):
        hide(CAPTION, [span])


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be hidden by 'magic'; there are zero, pad"):
        hide(CAPTION, [(4, 7)], "magic")


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(1, 8))))
def test_merged_places_cover_the_same_characters(lengths: list[tuple[int, int]]) -> None:
    caption = "x" * 28
    spans = [(start, start + length) for start, length in lengths]
    found = merge_spans(spans, caption)
    assert {i for a, b in spans for i in range(a, b)} == {i for a, b in found for i in range(a, b)}
    assert all(first[1] < second[0] for first, second in pairwise(found))


def words(text: str) -> list[int]:
    """Two tokens a word: its first letter and its length."""
    return [number for word in text.split() for number in (ord(word[0]), len(word))]


def test_tokens_by_the_text_before_them() -> None:
    flags = flag_by_prefix(words, CAPTION, [(4, 7), (28, 32)])
    assert [i for i, flag in enumerate(flags) if flag] == [2, 3, 14, 15]
    assert flag_by_prefix(words, CAPTION, [(0, 3)])[:3] == [True, True, False]


def test_tokens_that_look_ahead_cannot_be_told() -> None:
    with pytest.raises(InputError, match=r"'red' cannot be told .* use baseline='delete'"):
        flag_by_prefix(lambda text: [len(text), *words(text)], CAPTION, [(4, 7)])


def test_tokens_by_their_places() -> None:
    # A token with the space before it, one of nothing, one of a space alone, pieces of a word.
    offsets = [(0, 1), (1, 5), (6, 6), (5, 6), (6, 8), (8, 10)]
    assert flag_by_offsets(offsets, "a red cube", [(2, 5)]) == [False, True, *[False] * 4]
    assert flag_by_offsets(offsets, "a red cube", [(6, 10)]) == [False, False, *[True] * 4]
    assert flag_by_offsets(offsets, "a red cube", [(0, 1)]) == [True, *[False] * 5]


def test_tokens_are_replaced_in_place() -> None:
    assert replace_tokens([5, 6, 7], [False, True, False], 0) == [5, 0, 7]


def test_what_a_model_cannot_do_is_said() -> None:
    able = SimpleNamespace(name="able", text_masks=("zero", "pad"))
    require_text_mask(able, "pad", "itc")
    require_text_mask(object(), "delete", "vqa")
    with pytest.raises(InputError, match=r"able cannot hide words by 'mask' for itc \(it can by"):
        require_text_mask(able, "mask", "itc")
    with pytest.raises(
        InputError, match="able cannot hide words by 'zero' for vqa: use baseline='delete'"
    ):
        require_text_mask(able, "zero", "vqa")
    with pytest.raises(
        InputError, match="plain cannot hide words by 'zero' for itc: use baseline='delete'"
    ):
        require_text_mask(SimpleNamespace(name="plain"), "zero", "itc")
