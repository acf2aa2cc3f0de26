"""Two images as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.data import ImageRef, content_id, open_image
from contrapose.errors import InputError
from contrapose.scoring.chat import sides
from contrapose.scoring.chat.sides import SideBySide, joined
from tests.fakes import patch


def test_side_by_side_without_a_gap() -> None:
    rng = np.random.default_rng(0)
    left, right = (rng.integers(0, 256, (8, width, 3), dtype=np.uint8) for width in (5, 9))
    whole = joined(Image.fromarray(left), Image.fromarray(right))
    assert np.array_equal(np.asarray(whole), np.concatenate([left, right], axis=1))


def test_the_lower_one_is_scaled_up() -> None:
    left, right = Image.new("RGB", (10, 20), "red"), Image.new("RGB", (7, 5), "blue")
    whole = joined(left, right)
    assert whole.size == (10 + 28, 20)
    assert whole.getpixel((9, 19)) == (255, 0, 0)
    assert whole.getpixel((10, 19)) == (0, 0, 255)
    assert joined(right, left).size == whole.size


def test_too_large_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "LARGEST", 100)
    with pytest.raises(InputError, match="too large side by side"):
        joined(Image.new("RGB", (1, 100)), Image.new("RGB", (30, 1)))


def test_as_a_source_of_images(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    Image.new("RGB", (4, 4), "red").save(file)
    read = ImageRef("a", file)
    refs = [
        ImageRef("x", source=SideBySide(read, patch(1), "a | b")),
        ImageRef("y", source=SideBySide(patch(1), read, "b | a")),
    ]
    one, other = (np.asarray(open_image(ref)) for ref in refs)
    assert one.shape == (4, 8, 3)
    assert np.array_equal(one[:, :4], other[:, 4:])
    assert np.array_equal(one[:, 4:], other[:, :4])
    assert content_id(refs[0]) != content_id(refs[1])
    missing = ImageRef("z", source=SideBySide(read, ImageRef("no", tmp_path / "no.png"), "c"))
    with pytest.raises(InputError, match="the image is not there"):
        open_image(missing)
