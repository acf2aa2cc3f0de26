"""Resize and crop without torch."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from contrapose import resize_crop
from contrapose.resize_crop import ResizeCrop

STEPS = [
    ResizeCrop(32, (32, 32), int(Image.Resampling.BICUBIC), even=True),
    ResizeCrop(17, (16, 15), int(Image.Resampling.BILINEAR)),
    ResizeCrop((24, 40), None, int(Image.Resampling.LANCZOS)),
    ResizeCrop((24, 40), None, int(Image.Resampling.NEAREST)),
]


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("size", [(50, 37), (20, 90), (7, 5)])
def test_a_mask_moves_as_the_pixels_under_it(steps: ResizeCrop, size: tuple[int, int]) -> None:
    hidden = np.random.default_rng(0).integers(0, 2, size).astype(np.bool_)
    drawn = Image.fromarray(255 * hidden.astype(np.uint8)).convert("RGB")
    for channel in steps.to_bytes(drawn):
        assert np.array_equal(channel > 127, steps.cover(hidden))


def test_a_mask_of_a_long_image_is_resized_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resize_crop, "MAX_PIXELS", 1000)
    hidden = np.random.default_rng(0).integers(0, 2, (40, 900)).astype(np.bool_)
    drawn = Image.fromarray(255 * hidden.astype(np.uint8)).convert("RGB")
    for channel in STEPS[0].to_bytes(drawn):
        assert np.array_equal(channel > 127, STEPS[0].cover(hidden))


def test_sizes_that_do_not_depend_on_the_image() -> None:
    assert [steps.has_fixed_size for steps in STEPS] == [True] * 4
    assert not ResizeCrop(32, None, 3).has_fixed_size


@pytest.mark.parametrize("steps", STEPS)
def test_json_holds_the_steps(steps: ResizeCrop) -> None:
    assert ResizeCrop.from_json(json.loads(json.dumps(steps.to_json()))) == steps
