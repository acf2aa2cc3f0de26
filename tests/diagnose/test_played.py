from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from contrapose.diagnose.played import LeftOut
from contrapose.errors import InputError
from tests.diagnose.scorers import play, random


def test_some_examples_alone() -> None:
    played = dataclasses.replace(play(random, 5), left_out=(LeftOut("e9", "no groups."),), naive=7)
    some = played.only(["e3", "e1", "e8"])
    assert some.ids == ("e1", "e3")
    assert some.images == (played.images[1], played.images[3])
    np.testing.assert_array_equal(some.values, played.values[[1, 3]])
    assert some.match.shape == (2, 2, 2)
    assert (some.left_out, some.naive) == (played.left_out, 7)
    assert played.only([]).values.shape == (0, 2, 2, 4, 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text_players": ("O",)}, r"must be of shape \(3, m, n, 4, 2\)"),
        ({"ids": ("a",)}, "the games of 1 examples"),
        ({"values": np.zeros((3, 2, 2, 4, 4), dtype=np.float32)}, "float64, not float32"),
        ({"match": np.ones((3, 2, 1), dtype=bool)}, r"match must be of shape \(3, 2, 2\)"),
        ({"images": (("a",), ("b",), ("c",))}, "2 images for each of 3"),
    ],
)
def test_refuses_what_does_not_fit(change: dict[str, object], words: str) -> None:
    played = play(random, 3)
    with pytest.raises(InputError, match=words):
        dataclasses.replace(played, **change)  # type: ignore[arg-type]
