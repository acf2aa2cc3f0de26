"""Paths from annotations, and plug-in files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.files import MalformedError, include, local_path, resolve_name, safe_join
from tests.special_files import make_special_file


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
        result = safe_join(root, "/".join(parts))
    except MalformedError:
        return
    assert ".." not in result.parts
    assert Path(os.path.normpath(result)).is_relative_to(root)


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
    result = {
        name: resolve_name(tmp_path / name)
        for name in ("a.jpg", "A.Jpg", "b.jpg", "b", "ex_0_img_0", "n.v1", "plain.jpg", "b.png")
    }
    assert {name: path.name if path else None for name, path in result.items()} == {
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


def test_a_file_is_run_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("runs = []\nruns.append(1)\n")
    first = include(file)
    file.write_text("raise RuntimeError")
    assert include(str(file)) is first
    assert first.runs == [1]
    assert "mine" not in sys.modules
    assert sys.modules[first.__name__] is first


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("x = 1\ny = z\n", r"line 2: fails when it is included \(NameError: name 'z'"),
        ("x = 1\n\ndef f(:\n", r"line 3: fails when it is included \(SyntaxError"),
        ("import no_such_package\n", "line 1: .*ModuleNotFoundError"),
        ("import json\n\njson.loads('{')\n", "line 3: .*JSONDecodeError"),
    ],
)
def test_what_fails_is_told_with_its_line(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(content)
    before = set(sys.modules)
    with pytest.raises(InputError, match=says):
        include(file)
    assert not {name for name in set(sys.modules) - before if name.startswith("contrapose")}
    file.write_text("x = 2\n")
    assert include(file).x == 2


def test_an_error_of_ours_passes(tmp_path: Path) -> None:
    file = tmp_path / "taken.py"
    file.write_text("from contrapose.models import register_model\nregister_model('tiny')(print)\n")
    with pytest.raises(InputError, match=r"^there is a model 'tiny' already"):
        include(file)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        include(tmp_path / "none.py")
    (tmp_path / "text.txt").write_text("")
    with pytest.raises(InputError, match=r"ends in \.py"):
        include(tmp_path / "text.txt")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("s3://bucket/runs", "URL"),
        ("memory://runs", "URL"),
        (Path("gs://bucket/runs"), "URL"),
        ("x" * 300, "too long"),
        ("a\0b", "cannot be used"),
        ("caf\udce9", "UTF-8"),
    ],
)
def test_paths_that_cannot_be_used(name: Path | str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        local_path(name)


@pytest.mark.parametrize("name", ["C:/runs", "runs/s3:/x", "a:b", "out@hf:org/name", "née"])
def test_paths_that_can(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_path(name) == Path(name)


def test_a_link_that_leads_to_itself(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (loop, loop / "out"):
        with pytest.raises(InputError, match="cannot be used"):
            local_path(path)
    for name in ("loop/x.py", "loop.py"):
        (tmp_path / "loop.py").unlink(missing_ok=True)
        (tmp_path / "loop.py").symlink_to("loop.py")
        with pytest.raises(InputError, match="cannot be used"):
            include(tmp_path / name)


def test_a_pipe_is_not_included(tmp_path: Path) -> None:
    make_special_file(tmp_path / "a.py", "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        include(tmp_path / "a.py")


def test_a_folder_that_may_not_be_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(InputError, match="Permission denied"):
        local_path(tmp_path / "closed" / "out")
