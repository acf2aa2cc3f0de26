"""Regions in all the forms in which people write them down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from contrapose.data.masks import decode_rle, decompress_rle, read_region
from contrapose.errors import InputError
from contrapose.metrics import BoolArray

HERE = Path()


def lengths(mask: BoolArray) -> list[int]:
    """Run lengths of a mask, column by column, zeros first."""
    runs, last = [0], False
    for value in mask.T.reshape(-1).tolist():
        if value == last:
            runs[-1] += 1
        else:
            runs.append(1)
            last = value
    return runs


def compressed(runs: list[int]) -> str:
    """As COCO's own code writes them (rleToString)."""
    text = ""
    for i, run in enumerate(runs):
        number = run - (runs[i - 2] if i > 2 else 0)
        more = True
        while more:
            bits = number & 31
            number >>= 5
            more = number != (-1 if bits & 16 else 0)
            text += chr((bits | (32 if more else 0)) + 48)
    return text


@given(arrays(np.bool_, st.tuples(st.integers(1, 40), st.integers(1, 40))))
def test_run_lengths_round_trip(mask: BoolArray) -> None:
    runs = lengths(mask)
    size = list(mask.shape)
    assert np.array_equal(decode_rle({"size": size, "counts": runs}, [mask.shape]), mask)
    assert decompress_rle(compressed(runs)) == runs
    assert np.array_equal(
        decode_rle({"size": size, "counts": compressed(runs)}, [mask.shape]), mask
    )


def test_a_known_compressed_mask() -> None:
    """Rows 2–4 of columns 3–5 of a 9 × 10 image, worked out by hand after rleToString.

    29 is 11101, whose sign bit asks for a second character; 40 is 34 more than the 6 before.
    """
    mask = np.zeros((9, 10), dtype=np.bool_)
    mask[2:5, 3:6] = True
    assert decompress_rle("m036000R1") == [29, 3, 6, 3, 6, 3, 40] == lengths(mask)
    assert np.array_equal(decode_rle({"size": [9, 10], "counts": "m036000R1"}, [(9, 10)]), mask)


def test_boxes_and_polygons_are_in_pixels() -> None:
    box = read_region([2, 1, 3, 4], (8, 10), HERE)
    assert box.shape == (8, 10)
    assert np.array_equal(np.argwhere(box)[[0, -1]], [[1, 2], [4, 4]])
    square = read_region([[2, 1, 4, 1, 4, 4, 2, 4]], (8, 10), HERE)
    assert np.array_equal(square, box)
    assert np.array_equal(read_region({"box": [2, 1, 3, 4]}, (8, 10), HERE), box)
    beyond = read_region([-3, 5, 100, 100], (8, 10), HERE)
    assert np.array_equal(np.flatnonzero(beyond.any(axis=1)), [5, 6, 7])
    two = read_region(
        {"polygons": [[0, 0, 1, 0, 1, 1, 0, 1], [5, 5, 6, 5, 6, 6, 5, 6]]}, (8, 10), HERE
    )
    assert two.sum() == 8


def test_mask_files_are_relative_to_the_list(tmp_path: Path) -> None:
    mask = np.zeros((8, 10), dtype=np.uint8)
    mask[2:4] = 255
    Image.fromarray(mask).save(tmp_path / "one.png")
    assert np.array_equal(read_region("one.png", (8, 10), tmp_path), mask > 0)
    assert np.array_equal(read_region({"mask": "one.png"}, (8, 10), tmp_path), mask > 0)
    with pytest.raises(InputError, match="climbs out of the root"):
        read_region("../one.png", (8, 10), tmp_path)
    with pytest.raises(InputError, match="is not there"):
        read_region("two.png", (8, 10), tmp_path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "must be a mask file, run lengths, polygons or a box"),
        ([1, 2, 3], "must be a mask file"),
        ({"box": [0, 0, 1, 1], "mask": "a.png"}, "must have one of"),
        ([1, 2, 0, 4], "must have a width and a height"),
        ([[1, 2, 3, 4]], "at least three corners"),
        ({"size": [8, 10], "counts": [1, 2]}, "add up to 3, and 8 × 10 pixels are 80"),
        ({"size": [100_000, 100_000], "counts": [0, 10**10]}, "and the image 10 × 8"),
        ({"size": [8, 10], "counts": "o" * 1000}, "too long"),
        ([0, 0, float("nan"), 4], "must be a mask file"),
        ([0, 0, float("inf"), 4], "must be a mask file"),
        ([0, 0, 10**400, 4], "must be a mask file"),
        ([[0, 0, 1, float("nan"), 1, 1]], "at least three corners"),
        ({"rle": {"mask": {"rle": {}}}}, "must be a mask file"),
        ({"size": [3], "counts": [1, 2]}, "need a size"),
        ({"size": [8, 10], "counts": [81, -1]}, "must be whole numbers"),
        ({"size": [8, 10], "counts": "~"}, "does not occur"),
        ({"size": [8, 10], "counts": "P"}, "are cut off"),
    ],
)
def test_invalid_regions_are_refused(value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_region(value, (8, 10), HERE)
