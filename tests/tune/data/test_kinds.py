from __future__ import annotations

import pytest

from contrapose.errors import InputError
from contrapose.tune.data.kinds import only
from contrapose.tune.data.rows import Rows, Saying
from tests.tune.small import small_rows


def rows() -> Rows:
    saying = Saying(
        "a",
        (("b", "swap-relation"), ("c", "swap-attribute"), ("d", "replace-color"), ("e", "swapped")),
        (("f", "synonym"), ("g", "swap")),
    )
    return Rows(small_rows(2).images, [[saying], [Saying("h")]])


def of(found: Rows) -> tuple[list[str], list[str]]:
    saying = found.sayings[0][0]
    return [text for text, _ in saying.negatives], [text for text, _ in saying.positives]


def test_a_kind_and_those_that_begin_with_it() -> None:
    assert of(only(rows(), ["swap"])) == (["b", "c"], ["g"])
    assert of(only(rows(), ["swap-relation", "replace"])) == (["b", "d"], ["f", "g"])


def test_a_side_of_which_nothing_is_said_stays() -> None:
    assert of(only(rows(), ["synonym"])) == (["b", "c", "d", "e"], ["f"])


def test_images_and_captions_stay() -> None:
    found = only(rows(), ["swap"])
    assert len(found) == 2
    assert found.sayings[1] == [Saying("h")]
    assert "d" not in found.texts


def test_a_kind_that_is_not_there() -> None:
    with pytest.raises(InputError, match="did you mean swap"):
        only(rows(), ["swop"])
