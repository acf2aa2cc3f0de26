"""A path in an annotation file stays inside its root and finds what it means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.files import MalformedError, resolve_name, safe_join


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("a.png", "a.png"),
        ("sub/a.png", "sub/a.png"),
        ("sub\\a.png", "sub/a.png"),
        ("./sub//a.png", "sub/a.png"),
        ("sub/../a.png", "a.png"),
        ("..a/b..png", "..a/b..png"),
        ("scène/猫.png", "scène/猫.png"),
        ("10:30.png", "10:30.png"),
    ],
)
def test_paths_inside(tmp_path: Path, name: str, where: str) -> None:
    assert safe_join(tmp_path, name) == tmp_path / where


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0.png", "NUL"),
        ("..", "climbs out"),
        ("../a.png", "climbs out"),
        ("sub/../../a.png", "climbs out"),
        ("sub\\..\\..\\a.png", "climbs out"),
        ("./../a.png", "climbs out"),
        ("/etc/passwd", "absolute"),
        ("//server/share/a.png", "absolute"),
        ("\\\\server\\share\\a.png", "absolute"),
        ("C:\\a.png", "absolute"),
        ("c:/a.png", "absolute"),
        ("C:a.png", "absolute"),
        ("C:", "absolute"),
        (".", "names a folder"),
        ("sub/..", "names a folder"),
    ],
)
def test_paths_that_are_refused(tmp_path: Path, name: str, what: str) -> None:
    with pytest.raises(MalformedError, match=what):
        safe_join(tmp_path, name)


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b\\..", "..\\..", "C:", "\\"]), max_size=8))
def test_no_path_leaves_the_root(parts: list[str]) -> None:
    root = Path("/data/root")
    try:
        found = safe_join(root, "/".join(parts))
    except MalformedError:
        return
    assert ".." not in found.parts
    assert Path(os.path.normpath(found)).is_relative_to(root)


def test_a_link_cannot_be_climbed_through(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other" / "linked"
    root.mkdir()
    other.mkdir(parents=True)
    (tmp_path / "other" / "secret.png").write_bytes(b"x")
    (other / "a.png").write_bytes(b"x")
    (root / "link").symlink_to(other)
    assert safe_join(root, "link/a.png").is_file()
    assert not safe_join(root, "link/../secret.png").exists()


def test_names_in_another_case_or_with_another_suffix(tmp_path: Path) -> None:
    for name in ("a.JPG", "b.png", "ex_0_img_0.png", "n.v1.webp", "plain"):
        (tmp_path / name).write_bytes(b"x")
    found = {
        name: resolve_name(tmp_path / name)
        for name in ("a.jpg", "A.Jpg", "b.jpg", "b", "ex_0_img_0", "n.v1", "plain.jpg", "b.png")
    }
    assert {name: path.name if path else None for name, path in found.items()} == {
        "a.jpg": "a.JPG",
        "A.Jpg": "a.JPG",
        "b.jpg": "b.png",
        "b": "b.png",
        "ex_0_img_0": "ex_0_img_0.png",
        "n.v1": "n.v1.webp",
        "plain.jpg": "plain",
        "b.png": "b.png",
    }


def test_nothing_is_guessed(tmp_path: Path) -> None:
    for name in ("a.png", "a.webp", "b.txt", "n.png", "c.png.part"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "folder.png").mkdir()
    for name in ("a.jpg", "b.jpg", "n.v1", "c.jpg", "folder", "none.png", "no/such/folder.png"):
        assert resolve_name(tmp_path / name) is None, name


def test_a_text_beside_the_image_is_no_second_candidate(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    (tmp_path / "a.txt").write_bytes(b"x")
    assert resolve_name(tmp_path / "a.jpg") == tmp_path / "a.png"


def test_names_no_file_system_takes(tmp_path: Path) -> None:
    assert resolve_name(tmp_path / ("x" * 5000)) is None
    assert resolve_name(tmp_path / "\ud800.png") is None


def test_a_file_that_came_later_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    assert resolve_name(tmp_path / "b.jpg") is None
    (tmp_path / "b.png").write_bytes(b"x")
    os.utime(tmp_path, ns=(1, 1))  # a clock too coarse to tell the two writes apart
    assert resolve_name(tmp_path / "b.jpg") == tmp_path / "b.png"
