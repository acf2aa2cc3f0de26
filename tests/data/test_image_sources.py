"""Images that are made and not read stand beside files."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from contrapose.data import ImageRef, content_id, content_ids, open_image, open_images
from contrapose.data.images import read_bytes
from contrapose.errors import InputError
from tests.fakes import MADE, Patch, patch


def test_made_in_one_go_and_in_order(tmp_path: Path) -> None:
    Image.new("RGB", (2, 2), "red").save(tmp_path / "red.png")
    file = ImageRef("red", tmp_path / "red.png")
    refs = [patch(3), file, patch(5), patch(3)]
    MADE.clear()
    images = open_images(refs)
    assert MADE == [3]
    assert [image.getpixel((0, 0)) for image in images] == [
        open_image(ref).getpixel((0, 0)) for ref in refs
    ]
    assert content_ids(refs) == [content_id(ref) for ref in refs]
    assert len(set(content_ids(refs))) == 3


def test_the_crop_is_part_of_the_content() -> None:
    whole, part = (
        ImageRef("a", source=Patch((1, 2, 3))),
        ImageRef("a", crop=(0, 0, 2, 3), source=Patch((1, 2, 3))),
    )
    assert content_id(whole) != content_id(part)
    assert open_image(part).size == (2, 3)
    assert hash(whole) != hash(part)


def test_a_path_or_a_source() -> None:
    with pytest.raises(ValueError, match="either a path or a source"):
        ImageRef("a")
    with pytest.raises(ValueError, match="either a path or a source"):
        ImageRef("a", Path("a.png"), source=Patch((1, 2, 3)))
    with pytest.raises(InputError, match="has no stored bytes"):
        read_bytes(patch(1))
