"""Names for what is learnt from."""

from __future__ import annotations

import os
from pathlib import Path

from contrapose.tune.data.files import read_rows
from contrapose.tune.data.marks import rows_mark
from contrapose.tune.data.rows import Rows, Saying
from contrapose.tune.data.scenes import scene_rows
from tests.tune.data.test_files import tarred
from tests.tune.small import small_rows, write_pairs


def test_captions_and_images_count_and_changes_do_not() -> None:
    rows = small_rows(6)
    name = rows_mark(rows)
    assert rows_mark(small_rows(6, negatives=False)) == name
    assert rows_mark(rows.take([0, 1, 2, 3, 4])) != name
    assert rows_mark(rows.take([1, 0, 2, 3, 4, 5])) != name
    other = [list(each) for each in rows.sayings]
    other[3][1] = Saying("another caption")
    assert rows_mark(Rows(rows.images, other)) != name


def test_files_by_place_size_and_time(tmp_path: Path) -> None:
    file = write_pairs(tmp_path, 4)
    name = rows_mark(read_rows(file))
    assert rows_mark(read_rows(file)) == name
    assert rows_mark(read_rows(file).take(range(4))) == name
    os.utime(tmp_path / "2.png", ns=(5, 5))
    assert rows_mark(read_rows(file)) != name


def test_places_in_tars(tmp_path: Path) -> None:
    picture = (write_pairs(tmp_path, 1).parent / "0.png").read_bytes()
    members = {"a__png": picture, "a__txt": b"one", "b__png": picture, "b__txt": b"one"}
    file = tarred(tmp_path / "x.tar", **members)
    rows = read_rows(file)
    assert rows.images.mark(0) != rows.images.mark(1)
    name = rows_mark(rows)
    os.utime(file, ns=(5, 5))
    assert rows_mark(rows) != name


def test_scenes_by_their_pixels() -> None:
    assert rows_mark(scene_rows(4, 0)) == rows_mark(scene_rows(4, 0))
    assert rows_mark(scene_rows(4, 0)) != rows_mark(scene_rows(4, 1))
