"""SugarCrepe and SugarCrepe++: a file a subset, one record an item."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contrapose.data import find_single_benchmark
from contrapose.data.benchmarks import sugarcrepe, sugarcrepe_pp
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems

GOOD = {
    "filename": "000000085329.jpg",
    "caption": "A black bike.",
    "negative_caption": "A red bike.",
}


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
    return path


def test_examples(tmp_path: Path) -> None:
    write(tmp_path / "data" / "add_att.json", {"0": GOOD, "5": GOOD})
    write(tmp_path / "swap_obj.json", {"2": GOOD})
    (tmp_path / "coco" / "val2017").mkdir(parents=True)
    result = list(sugarcrepe.read(tmp_path, StrictProblems()))
    assert [example.id for example in result] == ["add_att/0", "add_att/5", "swap_obj/2"]
    assert result[2].texts == ("A black bike.", "A red bike.")
    assert result[2].match == ((True, False),)
    assert result[2].tags == {"subset": "swap_obj", "change": "swap"}
    assert result[2].images[0].path == tmp_path / "coco/val2017/000000085329.jpg"


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({**GOOD, "negative_caption": None}, "'negative_caption' must be text"),
        ({**GOOD, "filename": "/etc/passwd"}, "is absolute"),
        ({"filename": "a.jpg"}, "'caption' is missing"),
        ("text", "expected an object"),
    ],
)
def test_a_malformed_record(tmp_path: Path, bad: Any, what: str) -> None:
    path = write(tmp_path / "swap_att.json", {"0": GOOD, "1": bad, "2": GOOD})
    with pytest.raises(InputError) as refused:
        list(sugarcrepe.read(tmp_path, StrictProblems()))
    assert f"{path}, line 7: " in str(refused.value)
    assert what in str(refused.value)
    problems = ProblemList()
    result = list(sugarcrepe.read(tmp_path, problems))
    assert [example.id for example in result] == ["swap_att/0", "swap_att/2"]
    assert len(problems.problems) == 1


def test_a_folder_without_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds none of add_att\.json"):
        list(sugarcrepe.read(tmp_path, StrictProblems()))


def test_real_files(shared: Path) -> None:
    result = list(sugarcrepe.read(shared / "sugarcrepe", StrictProblems()))
    counted = Counter(example.tags["subset"] for example in result)
    assert counted == find_single_benchmark("sugarcrepe").card.counts
    assert (counted["swap_obj"], len(result)) == (245, 7511)
    assert len({example.images[0].key for example in result}) == 1560
    ids = {example.id for example in result}
    assert len(ids) == 7511
    assert "swap_obj/107" in ids
    assert "swap_obj/108" not in ids
    assert "swap_obj/245" in ids


PLUS = {"id": 3, **GOOD, "caption2": "The bike is black."}


def test_plus_plus_examples(tmp_path: Path) -> None:
    write(tmp_path / "swap_att.json", [PLUS, {**PLUS, "id": "x4"}])
    result = list(sugarcrepe_pp.read(tmp_path, StrictProblems()))
    assert [example.id for example in result] == ["swap_att/3", "swap_att/x4"]
    assert result[0].texts == ("A black bike.", "A red bike.", "The bike is black.")
    assert result[0].match == ((True, False, True),)
    assert result[0].tags == {"subset": "swap_att", "change": "swap"}


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({**PLUS, "caption2": ""}, "'caption2' must be text"),
        ({**PLUS, "filename": "..\\..\\a.jpg"}, "climbs out"),
        (GOOD, "'id' is missing"),
    ],
)
def test_a_malformed_plus_plus_record(tmp_path: Path, bad: Any, what: str) -> None:
    path = write(tmp_path / "replace_rel.json", [PLUS, bad, {**PLUS, "id": 5}])
    with pytest.raises(InputError) as refused:
        list(sugarcrepe_pp.read(tmp_path, StrictProblems()))
    assert f"{path}, line 9: " in str(refused.value)
    assert what in str(refused.value)
    problems = ProblemList()
    result = list(sugarcrepe_pp.read(tmp_path, problems))
    assert [example.id for example in result] == ["replace_rel/3", "replace_rel/5"]
    assert len(problems.problems) == 1


def test_real_plus_plus_files(shared: Path) -> None:
    result = list(sugarcrepe_pp.read(shared / "sugarcrepe_pp", StrictProblems()))
    counted = Counter(example.tags["subset"] for example in result)
    assert counted == {
        "replace_att": 788,
        "replace_obj": 1652,
        "replace_rel": 1406,
        "swap_att": 666,
        "swap_obj": 245,
    }
    assert counted == find_single_benchmark("sugarcrepe-pp").card.counts
    assert len({example.id for example in result}) == 4757
    assert len({example.images[0].key for example in result}) == 1542
    # The same images as SugarCrepe, but numbered on after its missing 108.
    old = {e.id: e.images[0].key for e in sugarcrepe.read(shared / "sugarcrepe", StrictProblems())}
    moved = [e.id for e in result if old.get(e.id) != e.images[0].key]
    assert {name.split("/")[0] for name in moved} == {"swap_obj"}
    assert min(int(name.split("/")[1]) for name in moved) == 108
