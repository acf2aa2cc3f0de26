"""Game planning: the visible words and regions of each coalition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contrapose.data import ImageRef
from contrapose.diagnose.planning import (
    Baseline,
    choose_fill,
    image_coalitions,
    parse_baseline,
    text_coalitions,
)
from contrapose.engine import Filling, RegionMask
from contrapose.engine.images import HiddenRegions
from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.masking.text import MaskedText
from tests.fakes import Fake

CAPTION = "the red cube is left of the ball"
GROUPS = {"O": ((8, 12), (28, 32)), "R": ((16, 23),), "A": ((4, 7),)}


def test_bit_i_means_that_player_i_is_present() -> None:
    found = text_coalitions(CAPTION, GROUPS, ("O", "R"), "zero")
    assert len(found) == 4
    assert found[3] is CAPTION
    hidden = [text.hidden if isinstance(text, MaskedText) else () for text in found]
    assert hidden == [((8, 12), (16, 23), (28, 32)), ((16, 23),), ((8, 12), (28, 32)), ()]


def test_other_words_are_always_present() -> None:
    assert text_coalitions(CAPTION, GROUPS, (), "zero") == [CAPTION]
    deleted = text_coalitions(CAPTION, GROUPS, ("O", "R", "A"), "delete")
    assert deleted[0] == "the is the"
    assert deleted[0b011] == "the cube is left of the ball"


def test_image_coalitions() -> None:
    ref = ImageRef("a", Path("a.png"))
    top = np.zeros((4, 6), dtype=np.bool_)
    top[:2] = True
    masks = {"O1": RegionMask.of(top), "O2": RegionMask.of(~top)}
    found = image_coalitions(ref, "id", masks, ("O1", "O2"), Filling())
    assert found[3] is ref
    sources = [each.source for each in found[:3]]
    assert all(isinstance(source, HiddenRegions) for source in sources)
    counts = [
        sum(int(mask.array().sum()) for mask in source.masks)
        for source in sources
        if isinstance(source, HiddenRegions)
    ]
    assert counts == [24, 12, 12]
    assert len({source.content for source in sources if source is not None}) == 3


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("zero", Baseline()),
        ("delete", Baseline("delete", "zero")),
        ("blur", Baseline("zero", "blur")),
        ("pad,mean", Baseline("pad", "mean")),
        ("text=zero,image=noise", Baseline("zero", "noise")),
        ("token-0", Baseline("token-0", "zero")),
    ],
)
def test_baselines_are_parsed(text: str, wanted: Baseline) -> None:
    assert parse_baseline(text) == wanted
    assert ";" in wanted.in_words()


def test_bad_baselines_are_refused() -> None:
    with pytest.raises(InputError, match=r"no baseline 'black'.*zero"):
        parse_baseline("black")
    with pytest.raises(InputError, match="two ways to hide words"):
        parse_baseline("pad,delete")
    with pytest.raises(InputError, match="no baseline 'text=blur'"):
        parse_baseline("text=blur")


def test_black_box_gets_gray_for_zero() -> None:
    filling, notes = choose_fill(Fake(), Baseline())
    assert filling == Filling("colour", (0.5, 0.5, 0.5))
    assert len(notes) == 1
    assert "(128, 128, 128)" in notes[0]
    assert choose_fill(Fake(), Baseline(image="blur")) == (Filling("blur"), ())
    assert choose_fill(load_model("tiny-clip"), Baseline()) == (Filling("zero"), ())
    with pytest.raises(InputError, match="regions cannot be hidden by 'black'"):
        choose_fill(Fake(), Baseline(image="black"))
