"""Images are opened by what their bytes are, whatever the name says."""

from __future__ import annotations

import io
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.data import ImageRef, content_id, open_image, text_id
from contrapose.errors import InputError

Colour = tuple[int, int, int]


def ref(path: Path, **more: object) -> ImageRef:
    return ImageRef(path.name, path, **more)  # type: ignore[arg-type]


def near(image: Image.Image, at: tuple[int, int], colour: Colour, within: int = 8) -> bool:
    found = image.getpixel(at)
    assert isinstance(found, tuple)
    return all(abs(a - b) <= within for a, b in zip(found, colour, strict=True))


def two_colours(mode: str = "RGB") -> Image.Image:
    """20 × 10: left half red, right half blue."""
    image = Image.new("RGB", (20, 10), (255, 0, 0))
    image.paste((0, 0, 255), (10, 0, 20, 10))
    return image.convert(mode)


def test_a_suffix_in_another_case(tmp_path: Path) -> None:
    two_colours().save(tmp_path / "a.JPG", "JPEG")
    assert open_image(ref(tmp_path / "a.jpg")).size == (20, 10)


def test_jpeg_bytes_under_a_png_name(tmp_path: Path) -> None:
    two_colours().save(tmp_path / "a.png", "JPEG")
    assert (tmp_path / "a.png").read_bytes()[:2] == b"\xff\xd8"
    image = open_image(ref(tmp_path / "a.png"))
    assert image.mode == "RGB"
    assert near(image, (2, 5), (255, 0, 0))


def test_a_cmyk_jpeg(tmp_path: Path) -> None:
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as stored:
        assert stored.mode == "CMYK"
    image = open_image(ref(tmp_path / "a.jpg"))
    assert image.mode == "RGB"
    assert near(image, (4, 4), (255, 0, 0))


def test_transparency_is_laid_on_white(tmp_path: Path) -> None:
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([0, 0, 0, 0, 128, 0])
    palette.paste(1, (0, 0, 2, 4))
    palette.save(tmp_path / "p.png", transparency=0)
    image = open_image(ref(tmp_path / "p.png"))
    assert image.getpixel((0, 0)) == (0, 128, 0)
    assert image.getpixel((3, 0)) == (255, 255, 255)

    half = Image.new("RGBA", (2, 2), (255, 0, 0, 128))
    half.save(tmp_path / "h.png")
    assert near(open_image(ref(tmp_path / "h.png")), (0, 0), (255, 127, 127), 1)
    Image.new("LA", (2, 2), (0, 0)).save(tmp_path / "l.png")
    assert open_image(ref(tmp_path / "l.png")).getpixel((0, 0)) == (255, 255, 255)


def test_a_16_bit_png_keeps_its_brightness(tmp_path: Path) -> None:
    values = np.array([[0, 32896, 65535, 255]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    image = open_image(ref(tmp_path / "a.png"))
    assert image.mode == "RGB"
    assert [image.getpixel((x, 0)) for x in range(4)] == [
        (0, 0, 0),
        (128, 128, 128),
        (255, 255, 255),
        (1, 1, 1),
    ]
    Image.fromarray(np.full((2, 2), 200, dtype=np.uint16)).save(tmp_path / "dark.png")
    assert open_image(ref(tmp_path / "dark.png")).getpixel((0, 0)) == (1, 1, 1)


def test_a_float_tiff(tmp_path: Path) -> None:
    values = np.array([[0.0, 100.0, np.nan]], dtype=np.float32)
    Image.fromarray(values).save(tmp_path / "a.tif")
    image = open_image(ref(tmp_path / "a.tif"))
    assert [image.getpixel((x, 0)) for x in range(3)] == [(0, 0, 0), (100, 100, 100), (0, 0, 0)]


def test_exif_rotation(tmp_path: Path) -> None:
    image = two_colours()
    exif = image.getexif()
    exif[0x0112] = 6  # to be seen turned by 90° clockwise
    image.save(tmp_path / "a.jpg", exif=exif, quality=95)
    upright = open_image(ref(tmp_path / "a.jpg"))
    assert upright.size == (10, 20)
    assert near(upright, (5, 2), (255, 0, 0), 12)
    assert near(upright, (5, 17), (0, 0, 255), 12)


def test_a_truncated_file(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, "JPEG")
    (tmp_path / "a.jpg").write_bytes(buffer.getvalue()[:-800])
    with pytest.raises(InputError, match="cannot be decoded") as refused:
        open_image(ref(tmp_path / "a.jpg"))
    assert str(tmp_path / "a.jpg") in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"not an image", b"GIF89a", b"\x89PNG\r\n\x1a\n" * 9])
def test_bytes_that_are_no_image(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(InputError, match=r"not an image|cannot be decoded"):
        open_image(ref(tmp_path / "a.jpg"))


def test_a_missing_image(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.jpg: the image is not there"):
        open_image(ref(tmp_path / "a.jpg"))


def test_npy_arrays_in_either_order(tmp_path: Path) -> None:
    array = np.zeros((3, 4, 3), dtype=np.uint8)
    array[:, :, 0] = 200
    np.save(tmp_path / "a.npy", array)
    assert open_image(ref(tmp_path / "a.npy")).getpixel((0, 0)) == (200, 0, 0)
    bgr = open_image(ref(tmp_path / "a.npy", channels="bgr"))
    assert bgr.size == (4, 3)
    assert bgr.getpixel((0, 0)) == (0, 0, 200)
    # YouCook2's frames are named .jpg in some annotation files.
    assert open_image(ref(tmp_path / "a.jpg")).getpixel((0, 0)) == (200, 0, 0)


def test_npy_arrays_that_are_no_image(tmp_path: Path) -> None:
    np.save(tmp_path / "flat.npy", np.zeros((3, 4), dtype=np.uint8))
    np.save(tmp_path / "float.npy", np.zeros((3, 4, 3)))
    objects = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "pickled.npy", objects, allow_pickle=True)
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00")
    for name in ("flat", "float", "pickled", "cut"):
        with pytest.raises(InputError, match="cannot be decoded"):
            open_image(ref(tmp_path / f"{name}.npy"))


def test_crops(tmp_path: Path) -> None:
    two_colours().save(tmp_path / "a.png")
    image = open_image(ref(tmp_path / "a.png", crop=(8, 2, 5, 4)))
    assert image.size == (5, 4)
    assert [image.getpixel((x, 0)) for x in (1, 2)] == [(255, 0, 0), (0, 0, 255)]
    over_the_edge = open_image(ref(tmp_path / "a.png", crop=(-5, 5, 10, 100)))
    assert over_the_edge.size == (5, 5)
    for box in ((20, 0, 5, 5), (-5, 0, 5, 5), (0, 0, 0, 5), (0, 50, 5, 5)):
        with pytest.raises(InputError, match="lies outside the image of 20 × 10"):
            open_image(ref(tmp_path / "a.png", crop=box))


def test_content_ids(tmp_path: Path) -> None:
    two_colours().save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes())
    Image.new("RGB", (4, 4)).save(tmp_path / "c.png")
    a, b, c = (content_id(ref(tmp_path / f"{name}.png")) for name in "abc")
    assert a == b != c
    assert content_id(ref(tmp_path / "a.png", crop=(0, 0, 2, 2))) != a
    assert content_id(ref(tmp_path / "a.png", channels="bgr")) != a
    assert text_id("a dog") == text_id("a dog") != text_id("a dog ")


@pytest.mark.parametrize("pixels", [199, 200, 201, 399, 400])
def test_half_of_what_is_refused_is_opened_in_peace(
    pixels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 200)  # Pillow warns above it
    Image.new("RGB", (pixels, 1), (1, 2, 3)).save(tmp_path / "a.png")
    whole = ref(tmp_path / "a.png", crop=(0, 0, pixels, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_image(whole).size == (pixels, 1)
        with ThreadPoolExecutor(4) as pool:
            assert {image.size for image in pool.map(open_image, [whole] * 16)} == {(pixels, 1)}


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000_000)
    Image.new("1", (2_001, 1_000)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"too large to open \(more than 2 megapixels\); make it"):
        open_image(ref(tmp_path / "a.png"))
