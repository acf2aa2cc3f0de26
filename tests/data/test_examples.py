"""An example is m images × n captions, and refuses to be anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.data import Example, ImageRef
from contrapose.data.examples import diagonal_match, single_match
from contrapose.files import MalformedError

IMAGE = ImageRef("a", Path("a.png"))


def test_shapes() -> None:
    assert Example("1", (IMAGE,), ("x", "y", "z"), single_match(3, 1)).shape == (1, 3)
    assert Example("1", (IMAGE, IMAGE), ("x", "y"), diagonal_match(2)).shape == (2, 2)


def test_matches() -> None:
    assert single_match(3, 1) == ((False, True, False),)
    assert diagonal_match(2) == ((True, False), (False, True))


@pytest.mark.parametrize(
    ("images", "texts", "match", "what"),
    [
        ((), ("x",), (), "at least one image"),
        ((IMAGE,), (), ((),), "at least one image and one caption"),
        ((IMAGE,), ("x", " "), single_match(2, 0), "a caption is empty"),
        ((IMAGE,), None, single_match(2, 0), "captions are texts, and no NoneType"),
        ((IMAGE,), ("x", 3), single_match(2, 0), "a caption is empty"),
        ((IMAGE,), ("x", "\udfff"), single_match(2, 0), "half of a surrogate pair"),
        ((IMAGE,), ("x", "y"), single_match(3, 0), r"1 rows \(images\) of 2 \(captions\)"),
        ((IMAGE, IMAGE), ("x", "y"), single_match(2, 0), r"2 rows \(images\) of 2"),
        ((IMAGE, IMAGE), ("x", "y"), ((True, False), (True,)), r"2 rows \(images\) of 2"),
        ((IMAGE,), ("x", "y"), np.array([True, False]), "a row for each image"),
        ((IMAGE,), ("x", "y"), [["yes", "no"]], "true and false"),
        ((IMAGE,), ("x",), np.ones((1, 1, 2)), "a row for each image"),
        ((IMAGE,), ("x",), None, "a row for each image"),
    ],
)
def test_what_is_no_example(images: Any, texts: Any, match: Any, what: str) -> None:
    with pytest.raises(MalformedError, match=what) as raised:
        Example("seven", images, texts, match)
    assert "example seven" in str(raised.value)


@pytest.mark.parametrize(
    "match", [np.array([[True, False]]), ((np.bool_(1), np.bool_(0)),), [[1, 0]], [[True, False]]]
)
def test_a_match_of_arrays_and_numbers(match: Any) -> None:
    example = Example("a", (IMAGE,), ("x", "y"), match)
    assert example.match == ((True, False),)
    assert {type(fits) for fits in example.match[0]} == {bool}
    assert hash(example.match)
