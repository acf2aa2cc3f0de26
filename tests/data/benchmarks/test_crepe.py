from __future__ import annotations

import csv
from pathlib import Path

import pytest

from contrapose.data import find_single_benchmark
from contrapose.data.benchmarks import crepe
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems

HEADER = ["", "image_id", "caption", "hard_negs", "x", "y", "width", "height"]
NEGATIVES = ["a dog, and a cat", "it's a hat", 'a "red" hat', "a man", "a cup"]


def row(image: str = "5", negatives: str = repr(NEGATIVES), width: str = "30") -> list[str]:
    return ["0", image, "a hat on a man, and a cup", negatives, "10", "20", width, "40.0"]


def write(path: Path, *rows: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8-sig") as stream:
        csv.writer(stream).writerows([HEADER, *rows])
    return path


def name(subset: str, complexity: int) -> str:
    return f"prod_vg_hard_negs_{subset}_complexity_{complexity}.csv"


@pytest.mark.parametrize(
    "place", ["atom", "", "prod_hard_negatives/atom", "crepe/prod_hard_negatives/atom"]
)
def test_one_file(tmp_path: Path, place: str) -> None:
    write(tmp_path / place / name("atom", 4), row(), row(image="6"))
    first, second = crepe.read(tmp_path, StrictProblems())
    assert first.id == "atom/4/0"
    assert first.texts == ("a hat on a man, and a cup", *NEGATIVES)
    assert first.match == ((True, False, False, False, False, False),)
    assert first.tags == {"subset": "atom", "complexity": "4"}
    assert first.images[0].crop == (10, 20, 30, 40)
    assert second.images[0].key == "6.jpg"


def test_the_files_that_are_there_are_read_in_order(tmp_path: Path) -> None:
    write(tmp_path / "negate" / name("negate", 12), row())
    write(tmp_path / "swap" / name("swap", 10), row())
    write(tmp_path / "swap" / name("swap", 9), row())
    write(tmp_path / "swap" / name("swap", 3), row())
    result = [e.id for e in crepe.read(tmp_path, StrictProblems())]
    assert result == ["swap/9/0", "swap/10/0", "negate/12/0"]


def test_images_lie_in_either_part_of_visual_genome(tmp_path: Path) -> None:
    write(tmp_path / name("atom", 4), row(), row(image="6"), row(image="7"))
    for part, image in (("VG_100K", 5), ("VG_100K_2", 6)):
        (tmp_path / part).mkdir()
        (tmp_path / part / f"{image}.jpg").touch()
    paths = [e.images[0].path for e in crepe.read(tmp_path, StrictProblems())]
    assert paths == [
        tmp_path / "VG_100K" / "5.jpg",
        tmp_path / "VG_100K_2" / "6.jpg",
        tmp_path / "VG_100K" / "7.jpg",
    ]


def test_any_number_of_negatives_will_do(tmp_path: Path) -> None:
    write(tmp_path / name("atom", 4), row(negatives="['one', 'two']"))
    (example,) = crepe.read(tmp_path, StrictProblems())
    assert example.match == ((True, False, False),)


@pytest.mark.parametrize(
    "negatives",
    [
        "",
        "[]",
        "['a', 1]",
        "('a', 'b')",
        "['a'",
        "__import__('os').getcwd()",
        "[c for c in 'ab']",
        "[" * 5000,
    ],
)
def test_negatives_must_be_a_list_of_texts(tmp_path: Path, negatives: str) -> None:
    write(tmp_path / name("atom", 4), row(), row(negatives=negatives), row())
    where = rf"{name('atom', 4)}, line 3: record 1: 'hard_negs' must be"
    with pytest.raises(InputError, match=where):
        list(crepe.read(tmp_path, StrictProblems()))
    problems = ProblemList()
    assert [e.id for e in crepe.read(tmp_path, problems)] == ["atom/4/0", "atom/4/2"]
    assert [p.kind for p in problems.problems] == ["malformed record"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (row(width="0"), "0 × 40 pixels is empty"),
        (row(width="wide"), "'width' must be a finite number"),
        (row(image="../5"), "climbs out"),
        (row(image=""), "'image_id' must be text"),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, bad: list[str], says: str) -> None:
    write(tmp_path / name("swap", 5), bad, row())
    with pytest.raises(InputError, match=rf"complexity_5\.csv, line 2: .*{says}"):
        list(crepe.read(tmp_path, StrictProblems()))
    assert [e.id for e in crepe.read(tmp_path, ProblemList())] == ["swap/5/1"]


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds none of prod_vg_hard_negs"):
        list(crepe.read(tmp_path, StrictProblems()))


def test_chance_is_that_of_the_released_shape() -> None:
    assert find_single_benchmark("crepe").card.chance == {"accuracy": 1 / (1 + len(NEGATIVES))}
