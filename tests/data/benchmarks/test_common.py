"""Files are looked for where people's downloads put them."""

from __future__ import annotations

from pathlib import Path

import pytest

from contrapose.data.benchmarks.common import (
    find_annotation_files,
    find_file,
    find_folder,
    find_image,
    require_folder,
)
from contrapose.errors import InputError
from contrapose.files import MalformedError


def test_the_first_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    assert find_folder(tmp_path, "a", "b") == tmp_path / "b"
    assert find_folder(tmp_path, "x", "y") == tmp_path / "x"


def test_an_image_in_any_of_several_folders(tmp_path: Path) -> None:
    for name in ("VG_100K/1.jpg", "VG_100K_2/2.JPG"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"x")
    folders = ("VG_100K", "VG_100K_2")
    assert find_image(tmp_path, "1.jpg", *folders) == tmp_path / "VG_100K/1.jpg"
    assert find_image(tmp_path, "2.jpg", *folders) == tmp_path / "VG_100K_2/2.jpg"
    assert find_image(tmp_path, "3.jpg", *folders) == tmp_path / "VG_100K/3.jpg"
    with pytest.raises(MalformedError, match="climbs out"):
        find_image(tmp_path, "../1.jpg", *folders)


def test_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "b.json").touch()
    (tmp_path / "a.json").touch()
    assert find_file(tmp_path, "b.json", "data/b.json") == tmp_path / "data/b.json"
    with pytest.raises(InputError, match=r"holds none of x\.json, y\.json"):
        find_file(tmp_path, "x.json", "y.json")
    assert list(find_annotation_files(tmp_path, ("a", "b", "c"), "data")) == [
        ("a", tmp_path / "a.json"),
        ("b", tmp_path / "data/b.json"),
    ]
    with pytest.raises(InputError, match=r"holds none of c\.json"):
        list(find_annotation_files(tmp_path, ("c",), "data"))


def test_a_root_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    require_folder(tmp_path)
    with pytest.raises(InputError, match="root must name"):
        require_folder(tmp_path / "file")
