"""Decompression bombs: small files that promise much are refused before they are unpacked."""

from __future__ import annotations

import io
import json
import resource
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contrapose.data import ImageRef, open_image
from contrapose.data.images import Cell
from contrapose.data.masks import read_mask
from contrapose.errors import ContraposeError
from contrapose.files.archives import unpack_archive
from contrapose.scores.logs import read_logs
from contrapose.tune.data.files import read_training_set
from tests.results.test_imports import inspect_members
from tests.torture.conftest import Tally
from tests.torture.mutations import LONGEST, WHOLE, time_limit
from tests.torture.test_readers import header_only, read_benchmark

MOST = 700 * 2**20
"""Bytes by which a bomb may raise the peak of memory."""
ZEROS = bytes(2**20)


def png_bomb(path: Path, side: int = 60_000) -> None:
    """Image of 60,000 × 60,000 pixels in some hundred kilobytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    packed = zlib.compress(ZEROS * 8)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
    )


def text_bomb(path: Path) -> None:
    """Image whose comment unpacks to 128 megabytes."""
    packer = zlib.compressobj()
    packed = b"".join(packer.compress(ZEROS) for _ in range(128)) + packer.flush()
    text = b"Comment\0\0" + packed

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(72))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"zTXt", text)
                     + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))  # fmt: skip


def zip_bomb(path: Path, name: str = "header.json", megabytes: int = 600) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for other, value in inspect_members().items():
            if other != name:
                archive.writestr(other, json.dumps(value))
        with archive.open(name, "w", force_zip64=True) as stream:
            for _ in range(megabytes):
                stream.write(ZEROS)


def tar_bomb(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("a.bin")
        info.size = 300 * 2**20
        archive.addfile(info, io.BytesIO(bytes(info.size)))


def sheet_bomb(path: Path) -> None:
    """Spreadsheet whose strings unpack to 600 megabytes, with entities beside."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>")
        with archive.open("xl/sharedStrings.xml", "w", force_zip64=True) as stream:
            for _ in range(600):
                stream.write(ZEROS)


def cell_bomb(path: Path) -> None:
    """Parquet file of some kilobytes whose caption unpacks to 600 megabytes."""
    columns = {"id": ["1"], "image": ["1.jpg"], "text_0": ["a" * (600 << 20)], "text_1": ["b"]}
    pq.write_table(pa.table({**columns, "right": [0]}), path, compression="zstd")


def row_bomb(path: Path) -> None:
    """Parquet file of some kilobytes that holds eight million equal rows."""
    row = pa.table({"id": ["1"], "image": ["1.jpg"], "text_0": ["a"], "text_1": ["b"]})
    rows = row.take(pa.array(np.zeros(2_000_000, np.int64)))
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(rows)


def array_bomb(path: Path) -> None:
    """Array whose header promises thirty gigabytes."""
    path.write_bytes(header_only("(99999, 99999, 3)"))


def read_own(path: Path) -> None:
    read_benchmark(str(path), path.parent)


Bomb = tuple[str, Callable[[Path], None], Callable[[Path], object]]
BOMBS: list[Bomb] = [
    ("a.png", png_bomb, lambda path: open_image(ImageRef("a", path))),
    ("b.png", text_bomb, lambda path: open_image(ImageRef("a", path))),
    ("m.png", png_bomb, lambda path: read_mask(path.name, path.parent)),
    ("a.npy", array_bomb,
     lambda path: open_image(ImageRef("a", path))),
    ("a.parquet", row_bomb, read_own),
    ("b.parquet", cell_bomb, read_own),
    ("c.parquet", cell_bomb, lambda path: open_image(ImageRef("a", path, cell=Cell("text_0", 0)))),
    ("log.eval", zip_bomb, read_logs),
    ("a_b.xlsx", sheet_bomb, read_logs),
    ("a.zip", lambda path: zip_bomb(path, "a.bin", 300),
     lambda path: unpack_archive(path, path.parent / "out", "zip")),
    ("a.tgz", tar_bomb, lambda path: unpack_archive(path, path.parent / "out", "tar")),
    ("t.tar", tar_bomb, read_training_set),
]  # fmt: skip


SMALL = [bomb for bomb in BOMBS if WHOLE or bomb[0] in ("a.png", "m.png", "a.npy", "a.parquet")]
"""Without the bombs that take seconds to make."""


@pytest.mark.parametrize(("name", "make", "read"), SMALL, ids=[name for name, *_ in SMALL])
def test_bombs(
    name: str,
    make: Callable[[Path], None],
    read: Callable[[Path], object],
    tmp_path: Path,
    tally: Tally,
) -> None:
    path = tmp_path / name
    make(path)
    assert path.stat().st_size < 40 * 2**20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with time_limit(LONGEST), pytest.raises(ContraposeError) as raised:
        read(path)
    assert "\n" not in str(raised.value)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < MOST
    left = [one for one in tmp_path.rglob("*") if one.is_file() and one != path]
    assert sum(one.stat().st_size for one in left) < MOST
    tally.add("decompression bombs", 1)
