"""Images: decoding by content, Parquet cells, generated images, content ids."""

from __future__ import annotations

import io
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from contrapose.data import (
    ImageRef,
    content_id,
    content_ids,
    images,
    open_image,
    open_images,
    text_id,
)
from contrapose.data.images import Cell, decode_image, read_bytes, read_cell
from contrapose.errors import InputError
from tests.fakes import MADE, Patch, patch

Colour = tuple[int, int, int]


def ref(path: Path, **more: object) -> ImageRef:
    return ImageRef(path.name, path, **more)  # type: ignore[arg-type]


def near(image: Image.Image, at: tuple[int, int], colour: Colour, within: int = 8) -> bool:
    result = image.getpixel(at)
    assert isinstance(result, tuple)
    return all(abs(a - b) <= within for a, b in zip(result, colour, strict=True))


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
    full = ref(tmp_path / "a.png", crop=(0, 0, pixels, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_image(full).size == (pixels, 1)
        with ThreadPoolExecutor(4) as pool:
            assert {image.size for image in pool.map(open_image, [full] * 16)} == {(pixels, 1)}


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000_000)
    Image.new("1", (2_001, 1_000)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"too large .*2 megapixels"):
        open_image(ref(tmp_path / "a.png"))


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.png").open("wb") as stream:
        stream.truncate(10**12)  # takes no room on the disk
    with pytest.raises(InputError, match="too large"):
        open_image(ref(tmp_path / "a.png"))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_ROW_GROUPS", images._RowGroupCache())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The (column, row) for which a row group was read from disk."""
    seen: list[tuple[str, int]] = []
    read = images._read_row_group

    def counted(path: Path, cell: Cell) -> tuple[int, object]:
        seen.append((cell.column, cell.row))
        return read(path, cell)

    monkeypatch.setattr(images, "_read_row_group", counted)
    return seen


def write(path: Path, rows: int = 12, mark: str = "") -> Path:
    structs = [{"bytes": f"s{mark}{i}".encode(), "path": f"{i}.png"} for i in range(rows)]
    bare = [f"b{mark}{i}".encode() for i in range(rows)]
    text = [str(i) for i in range(rows)]
    pq.write_table(pa.table({"image": structs, "bare": bare, "text": text}), path, row_group_size=5)
    return path


def test_bytes_of_structs_and_bare(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    for row in (11, 0, 5, 4):
        assert read_cell(path, Cell("image", row)) == f"s{row}".encode()
        assert read_cell(path, Cell("bare", row)) == f"b{row}".encode()


def test_an_image_in_a_cell(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (6, 4), (0, 255, 0)).save(buffer, "PNG")
    table = pa.table({"image_0": [{"bytes": buffer.getvalue(), "path": None}]})
    pq.write_table(table, tmp_path / "a.parquet")
    ref = ImageRef("x", tmp_path / "a.parquet", crop=(0, 0, 3, 4), cell=Cell("image_0", 0))
    image = open_image(ref)
    assert image.size == (3, 4)
    assert image.getpixel((0, 0)) == (0, 255, 0)


def test_each_row_group_is_read_once(tmp_path: Path, reads: list[tuple[str, int]]) -> None:
    path = write(tmp_path / "a.parquet")
    for row in range(12):
        for column in ("image", "bare"):
            read_cell(path, Cell(column, row))
    assert reads == [(c, r) for r in (0, 5, 10) for c in ("image", "bare")]


def test_threads_share_what_was_read(tmp_path: Path, reads: list[tuple[str, int]]) -> None:
    path = write(tmp_path / "a.parquet", rows=100)
    with ThreadPoolExecutor(8) as pool:
        result = list(pool.map(lambda row: read_cell(path, Cell("bare", row)), range(100)))
    assert result == [f"b{i}".encode() for i in range(100)]
    assert len(reads) == 20


def test_only_so_much_is_kept(
    tmp_path: Path, reads: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "ROW_GROUP_BYTES", 1)
    path = write(tmp_path / "a.parquet")
    for row in range(12):
        read_cell(path, Cell("bare", row))
        assert len(images._ROW_GROUPS.groups) == 1
    assert len(reads) == 3


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    assert read_cell(path, Cell("bare", 0)) == b"b0"
    write(path, mark="new")
    os.utime(path, ns=(1, 1))
    assert read_cell(path, Cell("bare", 0)) == b"bnew0"


@pytest.mark.parametrize("cell", [Cell("none", 0), Cell("bare", 12), Cell("bare", -1)])
def test_cells_that_are_not_there(tmp_path: Path, cell: Cell) -> None:
    path = write(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="holds no image bytes"):
        read_cell(path, cell)


def test_cells_without_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column 'text', row 3"):
        read_cell(path, Cell("text", 3))
    pq.write_table(pa.table({"image": [{"bytes": None, "path": "a.png"}]}), path)
    with pytest.raises(InputError, match="holds no image bytes"):
        read_cell(path, Cell("image", 0))


def test_files_that_are_no_parquet(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_cell(tmp_path / "none.parquet", Cell("a", 0))
    (tmp_path / "a.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_cell(tmp_path / "a.parquet", Cell("a", 0))
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_cell(tmp_path, Cell("a", 0))


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
    full, part = (
        ImageRef("a", source=Patch((1, 2, 3))),
        ImageRef("a", crop=(0, 0, 2, 3), source=Patch((1, 2, 3))),
    )
    assert content_id(full) != content_id(part)
    assert open_image(part).size == (2, 3)
    assert hash(full) != hash(part)


def test_a_path_or_a_source() -> None:
    with pytest.raises(ValueError, match="either a path or a source"):
        ImageRef("a")
    with pytest.raises(ValueError, match="either a path or a source"):
        ImageRef("a", Path("a.png"), source=Patch((1, 2, 3)))
    with pytest.raises(InputError, match="has no stored bytes"):
        read_bytes(patch(1))


def test_a_jpeg_is_decoded_smaller_where_a_thumbnail_is_made() -> None:
    stream = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90°
    Image.new("RGB", (800, 400), "red").save(stream, "JPEG", exif=exif)
    assert decode_image(stream.getvalue()).size == (400, 800)
    small = decode_image(stream.getvalue(), side=90)
    assert small.size == (100, 200)
    assert small.getpixel((50, 100)) == decode_image(stream.getvalue()).getpixel((200, 400))
    assert decode_image(stream.getvalue(), side=500).size == (400, 800)
    stream = io.BytesIO()
    Image.new("RGB", (80, 40)).save(stream, "PNG")
    assert decode_image(stream.getvalue(), side=9).size == (80, 40)
