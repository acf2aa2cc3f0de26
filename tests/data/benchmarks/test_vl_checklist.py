from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contrapose.data.benchmarks import vl_checklist
from contrapose.data.benchmarks.vl_checklist import parse_file_tags
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems

GOOD = ["VG_100K/1.jpg", {"POS": ["old train", "other"], "NEG": ["little train", "no train"]}]


def write(path: Path, entries: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]")


@pytest.mark.parametrize(
    ("name", "subset", "aspect", "part", "source"),
    [
        ("Attribute/vg/size.json", "attribute", "attribute/size", "attribute/size", "vg"),
        ("Attribute/vaw/color.json", "attribute", "attribute/color", "attribute/color", "vaw"),
        (
            "Object/Location/vg_location/vg_subj_margin.json",
            "object",
            "object/location",
            "object/location/margin",
            "vg",
        ),
        (
            "Object/Size/swig_size/swig_item/swig_item_small.json",
            "object",
            "object/size",
            "object/size/small",
            "swig",
        ),
        (
            "Object/Size/hake_size/hake_obj_large.json",
            "object",
            "object/size",
            "object/size/large",
            "hake",
        ),
        ("Relation/vg/spatial.json", "relation", "relation/spatial", "relation/spatial", "vg"),
        ("Relation/swig_action.json", "relation", "relation/action", "relation/action", "swig"),
        ("Relation/hake_action.json", "relation", "relation/action", "relation/action", "hake"),
    ],
)
def test_what_a_files_place_says(
    name: str, subset: str, aspect: str, part: str, source: str
) -> None:
    assert parse_file_tags(name) == {
        "subset": subset,
        "aspect": aspect,
        "part": part,
        "source": source,
        "file": name,
    }


@pytest.mark.parametrize("above", ["", "data"])
def test_the_first_texts_are_used(tmp_path: Path, above: str) -> None:
    write(tmp_path / above / "Attribute" / "vg" / "size.json", [GOOD, GOOD])
    write(tmp_path / above / "Relation" / "swig_action.json", [GOOD])
    examples = list(vl_checklist.read(tmp_path, StrictProblems()))
    assert [e.id for e in examples] == [
        "Attribute/vg/size/0",
        "Attribute/vg/size/1",
        "Relation/swig_action/0",
    ]
    assert examples[0].texts == ("old train", "little train")
    assert examples[0].match == ((True, False),)


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("Attribute/vg/size.json", "vg"),
        ("Attribute/vaw/size.json", "vg"),
        ("Relation/swig_action.json", "swig"),
        ("Relation/hake_action.json", "hake"),
    ],
)
@pytest.mark.parametrize("above", ["", "images"])
def test_each_source_has_its_images(tmp_path: Path, file: str, folder: str, above: str) -> None:
    write(tmp_path / file, [GOOD])
    (tmp_path / above / folder).mkdir(parents=True)
    (example,) = vl_checklist.read(tmp_path, StrictProblems())
    assert example.images[0].path == tmp_path / above / folder / "VG_100K" / "1.jpg"
    assert example.images[0].key == f"{folder}/VG_100K/1.jpg"


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (["a.jpg"], "expected an image path and its texts"),
        ([1, {"POS": ["a"], "NEG": ["b"]}], "expected an image path and its texts"),
        ({"POS": ["a"]}, "expected an image path and its texts"),
        (["a.jpg", {"POS": ["a"]}], "'NEG' is missing"),
        (["a.jpg", {"POS": [], "NEG": ["b"]}], "'POS' must be text"),
        (["../a.jpg", {"POS": ["a"], "NEG": ["b"]}], "climbs out"),
    ],
)
def test_a_malformed_entry_is_named(tmp_path: Path, entry: Any, says: str) -> None:
    write(tmp_path / "Attribute" / "vg" / "size.json", [GOOD, entry, GOOD])
    with pytest.raises(InputError, match=rf"size\.json, line 3: .*{says}"):
        list(vl_checklist.read(tmp_path, StrictProblems()))
    problems = ProblemList()
    result = [e.id for e in vl_checklist.read(tmp_path, problems)]
    assert result == ["Attribute/vg/size/0", "Attribute/vg/size/2"]
    assert [p.kind for p in problems.problems] == ["malformed record"]


def test_a_file_of_no_known_source_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path / "Attribute" / "mine" / "size.json", [GOOD])
    write(tmp_path / "Attribute" / "vg" / "size.json", [GOOD])
    problems = ProblemList()
    assert len(list(vl_checklist.read(tmp_path, problems))) == 1
    assert [p.kind for p in problems.problems] == ["unknown file"]
    with pytest.raises(InputError, match=r"mine/size\.json: is not named after"):
        list(vl_checklist.read(tmp_path, StrictProblems()))


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds none of Attribute"):
        list(vl_checklist.read(tmp_path, StrictProblems()))


def test_the_released_files_that_are_here(shared: Path) -> None:
    examples = list(vl_checklist.read(shared / "vl_checklist", StrictProblems()))
    assert Counter(e.tags["file"] for e in examples) == {
        "Attribute/vg/action.json": 1892,
        "Attribute/vg/material.json": 2470,
        "Attribute/vg/size.json": 2695,
        "Attribute/vg/state.json": 941,
        "Object/Location/vg_location/vg_subj_margin.json": 5974,
        "Object/Size/swig_size/swig_item/swig_item_small.json": 154,
    }
    assert len({e.id for e in examples}) == len(examples) == 14126
