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
def test_a_gray_image_is_every_channel(steps: ResizeCrop, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    for values in (rng.integers(0, 256, size), 255 * rng.integers(0, 2, size)):
        gray = Image.fromarray(values.astype(np.uint8))
        for channel in steps.to_bytes(gray.convert("RGB")):
            assert np.array_equal(channel, steps.to_gray(gray))


def test_a_long_gray_image_is_resized_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resize_crop, "MAX_PIXELS", 1000)
    values = np.random.default_rng(0).integers(0, 256, (40, 900), dtype=np.uint8)
    gray = Image.fromarray(values)
    for channel in STEPS[0].to_bytes(gray.convert("RGB")):
        assert np.array_equal(channel, STEPS[0].to_gray(gray))


@pytest.mark.parametrize("steps", STEPS)
def test_json_holds_the_steps(steps: ResizeCrop) -> None:
    assert ResizeCrop.from_json(json.loads(json.dumps(steps.to_json()))) == steps
