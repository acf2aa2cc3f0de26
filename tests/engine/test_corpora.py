"""Word lists of fusions: distinct plain words, and texts from a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contrapose.engine.corpora import STYLES, SUBJECTS, read_texts
from contrapose.errors import InputError


@pytest.mark.parametrize("words", [SUBJECTS, STYLES])
def test_lists_hold_distinct_plain_words(words: tuple[str, ...]) -> None:
    assert len(set(words)) == len(words) >= 40
    assert all(re.fullmatch(r"[a-z][a-z -]*", word) for word in words)


def test_texts_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("a cat\n\na dog\na cat\n")
    assert read_texts(file) == ("a cat", "a dog")
    file.write_text("\n")
    with pytest.raises(InputError, match="no text"):
        read_texts(file)
