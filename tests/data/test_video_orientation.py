"""Turned and mirrored videos, against the matrix applied by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.data.video import probe_video, read_frames
from tests.videos import encode_video


@pytest.mark.parametrize(
    ("a", "b", "c", "d"),
    [
        *((1, 0, 0, 1), (-1, 0, 0, -1), (-1, 0, 0, 1), (1, 0, 0, -1)),
        *((0, 1, -1, 0), (0, -1, 1, 0), (0, 1, 1, 0), (0, -1, -1, 0)),
    ],
)
def test_display_matrix(tmp_path: Path, a: int, b: int, c: int, d: int) -> None:
    """All turns and mirrorings; (0, 1, -1, 0) is that of a telephone that is held upright."""
    grays = np.array([[20, 90], [160, 230]])
    image = Image.fromarray(np.kron(grays, np.ones((16, 32))).astype(np.uint8)).convert("RGB")
    path = encode_video(tmp_path / "turned.mp4", [image] * 3)
    content = bytearray(path.read_bytes())
    matrix = [value << 16 for value in (a, b, 0, c, d, 0, 0, 0)]
    struct.pack_into(">8i", content, content.index(b"tkhd") + 44, *matrix)
    path.write_bytes(content)

    expected = np.zeros((2, 2))
    for row, column in np.ndindex(2, 2):
        x, y = 2 * column - 1, 2 * row - 1  # from the center, y downwards
        expected[(b * x + d * y + 1) // 2, (a * x + c * y + 1) // 2] = grays[row, column]
    shown = np.asarray(read_frames(path, [0.1])[0].convert("L"), dtype=float)
    assert shown.shape == ((32, 64) if a else (64, 32))
    rows, columns = shown.shape[0] // 2, shown.shape[1] // 2
    means = shown.reshape(2, rows, 2, columns).mean(axis=(1, 3))
    assert means == pytest.approx(expected, abs=8)
    info = probe_video(path)
    assert (info.height, info.width) == shown.shape
