"""A line of edits: changes, words to avoid, free text, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.search.queries import SearchQuery, WordChange, parse_edits


@pytest.mark.parametrize(
    ("line", "text", "changes"),
    [
        ("", None, []),
        (" , ; ", None, []),
        ("a street at night", "a street at night", []),
        ("cat -> dog", None, [("cat", "dog")]),
        ("cat→dog; red => blue", None, [("cat", "dog"), ("red", "blue")]),
        ("-> hat", None, [("", "hat")]),
        ("rain ->", None, [("rain", "")]),
        ("-rain", None, [("rain", "")]),
        ('a street -cars -"red vans"', "a street", [("cars", ""), ("red vans", "")]),
        ("cat -> dog -rain, at night", "at night", [("cat", "dog"), ("rain", "")]),
        ("a red cube, left of a ball", "a red cube, left of a ball", []),
        ("a T-shirt, black-and-white", "a T-shirt, black-and-white", []),
        ("-rain, -rain", None, [("rain", "")]),
    ],
)
def test_lines(line: str, text: str | None, changes: list[tuple[str, str]]) -> None:
    assert parse_edits(line) == (text, tuple(WordChange(*change) for change in changes))


@pytest.mark.parametrize(
    "given",
    [
        {"text": "\ud800"},
        {"text": "a", "changes": (WordChange("a", "\udc80"),)},
        {"text": "a", "captions": ("a", "\udc80")},
    ],
)
def test_halves_of_surrogate_pairs_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"must be valid Unicode; .*surrogate"):
        SearchQuery(**given)


@pytest.mark.parametrize("line", ["->", "cat -> cat", "a -> b -> c"])
def test_malformed_changes_are_refused(line: str) -> None:
    with pytest.raises(InputError, match="change"):
        parse_edits(line)


@settings(max_examples=50)
@given(st.text(alphabet='ab ->=→",;\n', max_size=20))
def test_any_line_is_read_or_refused(line: str) -> None:
    try:
        text, changes = parse_edits(line)
    except InputError:
        return
    assert text is None or text.strip() == text != ""
    assert all(change.source != change.target for change in changes)
