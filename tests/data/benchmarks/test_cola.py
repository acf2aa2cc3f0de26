"""COLA: images by the last part of a link, captions crosswise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.data import find_single_benchmark, open_image
from contrapose.data.benchmarks.cola import FILE, read
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems

LINK = "https://cs-people.bu.edu/array/data/vg_gqa_images/{}.jpg"
GOOD = [LINK.format(1), "red cup", LINK.format(2), "blue cup"]


def write(root: Path, entries: list[Any]) -> Path:
    path = root / FILE
    path.write_text("[" + ",\n".join(map(json.dumps, entries)) + "]")
    return path


def test_examples(tmp_path: Path) -> None:
    write(tmp_path, [GOOD, [LINK.format(3) + "?raw=1", "x", "images/4.jpg", "y"]])
    for folder, name in (("VG_100K", "1"), ("VG_100K_2", "2"), ("vg_gqa_images", "3")):
        (tmp_path / folder).mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / folder / f"{name}.jpg")
    first, second = read(tmp_path, StrictProblems())
    assert (first.id, first.texts) == ("0", ("red cup", "blue cup"))
    assert first.match == ((True, False), (False, True))
    assert [image.key for image in second.images] == ["3.jpg", "4.jpg"]
    for image in (*first.images, second.images[0]):
        assert open_image(image).size == (4, 4)
    assert second.images[1].path == tmp_path / "images/4.jpg"


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (GOOD[:3], "expected [image 1, caption 1, image 2, caption 2]"),
        ([*GOOD[:3], 7], "expected [image 1"),
        ({"image1": "a"}, "expected [image 1"),
        ([GOOD[0], " ", GOOD[2], "x"], "a caption is empty"),
        (["https://host/..", "x", GOOD[2], "y"], "climbs out"),
        (["https://host/", "x", GOOD[2], "y"], "empty"),
    ],
)
def test_a_malformed_record(tmp_path: Path, bad: Any, what: str) -> None:
    path = write(tmp_path, [GOOD, bad, GOOD])
    with pytest.raises(InputError) as refused:
        list(read(tmp_path, StrictProblems()))
    assert f"{path}, line 2: " in str(refused.value)
    assert what in str(refused.value)
    problems = ProblemList()
    assert [example.id for example in read(tmp_path, problems)] == ["0", "2"]
    assert len(problems.problems) == 1


def test_real_file(shared: Path) -> None:
    result = list(read(shared / "cola", StrictProblems()))
    assert {"cola": len(result)} == find_single_benchmark("cola").card.counts == {"cola": 210}
    assert len({image.key for example in result for image in example.images}) == 218
    assert result[0].images[0].key == "2390970.jpg"
    assert result[0].texts[1] == "brown giraffe behind tall white giraffe"
