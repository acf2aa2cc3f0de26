"""Images in Parquet files: the right bytes, each row group read once, little kept."""

from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from contrapose.data import ImageRef, images, open_image
from contrapose.data.images import Cell, read_cell
from contrapose.errors import InputError


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
        found = list(pool.map(lambda row: read_cell(path, Cell("bare", row)), range(100)))
    assert found == [f"b{i}".encode() for i in range(100)]
    assert len(reads) == 20


def test_only_so_much_is_kept(
    tmp_path: Path, reads: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "ROW_GROUP_BYTES", 1)
    path = write(tmp_path / "a.parquet")
    for row in range(12):
        read_cell(path, Cell("bare", row))
        assert len(images._ROW_GROUPS.kept) == 1
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
    with pytest.raises(InputError, match="holds no image bytes in column 'text', row 3"):
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
