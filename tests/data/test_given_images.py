"""Images as people give them: paths, images of Pillow, references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from contrapose.data import Example, ImageRef, content_id, open_image
from contrapose.data.given_images import PixelImage, to_image_refs
from contrapose.data.video_clips import VideoRef
from contrapose.errors import InputError
from contrapose.files import MalformedError

VALUES = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)


def test_paths(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(VALUES).save(path)
    ref = ImageRef("a", path, crop=(0, 0, 2, 2))
    for given in (path, str(path), [path], (path,)):
        (made,) = to_image_refs(given)
        assert made == ImageRef(str(path), path)
        assert np.array_equal(np.array(open_image(made)), VALUES)
    assert to_image_refs([ref, path])[0] is ref
    assert to_image_refs(ref) == (ref,)
    with pytest.raises(InputError, match="URL"):
        to_image_refs("https://example.org/a.png")


def test_a_path_of_a_video(tmp_path: Path) -> None:
    (made,) = to_image_refs(tmp_path / "a.MP4")
    assert made == VideoRef(tmp_path / "a.MP4", key=str(tmp_path / "a.MP4"))


def test_images_of_pillow_are_named_by_their_pixels() -> None:
    image = Image.fromarray(VALUES)
    first, second = to_image_refs([image, image.copy()])
    assert first == second
    assert hash(first) == hash(second)
    other = Image.fromarray(VALUES.reshape(9, 6, 3))
    assert content_id(first) != content_id(to_image_refs(other)[0])
    image.paste("red", (0, 0, 9, 6))
    opened = open_image(first)
    assert np.array_equal(np.array(opened), VALUES)  # a copy
    opened.paste("red", (0, 0, 9, 6))
    assert np.array_equal(np.array(open_image(first)), VALUES)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "I", "F", "I;16", "1"])
def test_images_of_all_modes_become_rgb(mode: str) -> None:
    image = Image.fromarray(VALUES).convert("L" if mode == "I;16" else mode)
    image = image.convert("I").convert("I;16") if mode == "I;16" else image
    assert PixelImage.of(image).image.mode == "RGB"


def test_an_image_of_pillow_is_that_of_its_file(tmp_path: Path) -> None:
    image = Image.fromarray(VALUES)
    exif = image.getexif()
    exif[0x0112] = 6  # lies on its side
    image.save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as opened:
        (given,) = to_image_refs(opened)
    (named,) = to_image_refs(tmp_path / "a.png")
    assert np.array_equal(np.array(open_image(given)), np.array(open_image(named)))
    assert open_image(given).size == (6, 9)


@pytest.mark.parametrize("given", [3, [None], [VALUES], b"a.png"])
def test_what_is_no_image(given: Any) -> None:
    with pytest.raises(MalformedError, match="example x: an image is a path"):
        Example("x", given, ("a",), ((True,),))


def test_one_image_and_one_caption_need_no_tuples(tmp_path: Path) -> None:
    example = Example("x", tmp_path / "a.png", "a dog", [[1]])  # type: ignore[arg-type]
    assert example.images == (ImageRef(str(tmp_path / "a.png"), tmp_path / "a.png"),)
    assert example.texts == ("a dog",)
    assert Example("x", example.images[0], "a dog", [[1]]).images == example.images  # type: ignore[arg-type]
    several = Example("x", [Image.fromarray(VALUES)], ["a", "b"], [[1, 0]])  # type: ignore[arg-type]
    assert several.shape == (1, 2)
    assert hash(several.images) == hash(several.images)
