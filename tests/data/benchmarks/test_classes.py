"""Class folders: names and templates from text files, or from the folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from contrapose.data.benchmarks.classes import read
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("n01/b.JPEG", "n01/a.jpg", "n02/c.png", ".cache/x.png", "tabby_cat/d.webp"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (2, 2)).save(path, "PNG")
    (tmp_path / "n01" / "notes.txt").write_text("no image")
    (tmp_path / "n01" / "._a.jpg").write_text("left by another system")
    return tmp_path


def test_folders_alone(root: Path) -> None:
    gallery = read(root, StrictProblems())
    assert [image.key for image in gallery.images] == [
        "n01/a.jpg",
        "n01/b.JPEG",
        "n02/c.png",
        "tabby_cat/d.webp",
    ]
    assert gallery.texts == ("n01", "n02", "tabby cat")
    assert gallery.pairs == ((0, 0), (1, 0), (2, 1), (3, 2))
    assert gallery.templates == ("a photo of a {}.",)


def test_names_in_order(root: Path) -> None:
    (root / "classnames.txt").write_text("tench\ngoldfish\ncat\n")
    assert read(root, StrictProblems()).texts == ("tench", "goldfish", "cat")
    (root / "classnames.txt").write_text("tench\ngoldfish\n")
    with pytest.raises(InputError, match="2 names, and there are 3 folders"):
        read(root, StrictProblems())


def test_names_by_folder(root: Path) -> None:
    names = "n02\tgoldfish, gold fish\ntabby_cat\tcat\nn01\ttench\nn99\tnot here\n"
    (root / "classnames.txt").write_text(names)
    assert read(root, StrictProblems()).texts == ("tench", "goldfish, gold fish", "cat")
    (root / "classnames.txt").write_text("n01\ttench\nn02\tgoldfish\n")
    with pytest.raises(InputError, match="no name for the folder 'tabby_cat'"):
        read(root, StrictProblems())


@pytest.mark.parametrize(("line", "what"), [("n77", "is not"), ("n01\tagain", "'n01' twice")])
def test_a_malformed_name(root: Path, line: str, what: str) -> None:
    path = root / "classnames.txt"
    path.write_text(f"n01\ttench\nn02\tgoldfish\n{line}\ntabby_cat\tcat\n")
    with pytest.raises(InputError, match=what) as refused:
        read(root, StrictProblems())
    assert f"{path}, line 3" in str(refused.value)
    problems = ProblemList()
    assert read(root, problems).texts == ("tench", "goldfish", "cat")
    assert len(problems.problems) == 1


def test_templates(root: Path) -> None:
    path = root / "templates.txt"
    path.write_text("a bad photo of a {}.\n\nno place\na {} and a {}.\nart of the {}.\n")
    with pytest.raises(InputError, match="line 3: a template must hold"):
        read(root, StrictProblems())
    problems = ProblemList()
    assert read(root, problems).templates == ("a bad photo of a {}.", "art of the {}.")
    assert [problem.line for problem in problems.problems] == [3, 4]
    path.write_text("none\n")
    with pytest.raises(InputError, match="holds no template"):
        read(root, ProblemList())


def test_folders_without_images(tmp_path: Path) -> None:
    (tmp_path / "n01").mkdir()
    with pytest.raises(InputError, match="no folder with an image"):
        read(tmp_path, StrictProblems())
    with pytest.raises(InputError, match="is not a folder"):
        read(tmp_path / "none", StrictProblems())
