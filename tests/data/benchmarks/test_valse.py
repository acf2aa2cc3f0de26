from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contrapose.data import Example, find_single_benchmark
from contrapose.data.benchmarks import valse
from contrapose.data.benchmarks.valse import INSTRUMENTS
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems


def read(root: Path) -> list[Example]:
    return list(valse.read(root, StrictProblems()))


def record(votes: int = 3, **fields: Any) -> dict[str, Any]:
    base = {
        "dataset": "visual7w",
        "image_file": "v7w_1.jpg",
        "caption": "There is a dog.",
        "foil": "There is no dog.",
        "mturk": {"caption": votes, "foil": 3 - votes, "other": 0},
    }
    return base | fields


def write(root: Path, **files: dict[str, Any]) -> None:
    """All eleven files; those that are not given hold nothing."""
    given = {name.replace("_", "-"): value for name, value in files.items()}
    root.mkdir(parents=True, exist_ok=True)
    for name in INSTRUMENTS:
        text = json.dumps(given.get(name, {}), indent=0)
        (root / f"{name}.json").write_text(text, encoding="utf-8-sig")


def test_ids_count_invalid_records_too(tmp_path: Path) -> None:
    write(
        tmp_path,
        actant_swap={"a": record(), "b": record(votes=1)},
        plurals={"c": record(votes=2), "d": record(votes=0), "e": record()},
    )
    examples = read(tmp_path)
    assert [e.id for e in examples] == ["0", "2", "4"]
    assert examples[0].texts == ("There is a dog.", "There is no dog.")
    assert examples[0].match == ((True, False),)
    assert examples[1].tags == {
        "subset": "plurals",
        "phenomenon": "plurality",
        "dataset": "visual7w",
    }


def test_all_eleven_files_must_be_there(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "foil-it.json").unlink()
    (tmp_path / "plurals.json").unlink()
    with pytest.raises(InputError, match=r"lacks foil-it\.json, plurals\.json;"):
        read(tmp_path)


def test_files_may_lie_in_data_and_captions_may_be_listed(tmp_path: Path) -> None:
    write(tmp_path / "data", existence={"a": record(caption=["First.", "Second."])})
    (example,) = read(tmp_path)
    assert example.texts == ("First.", "There is no dog.")


def test_a_malformed_record_is_named_and_keeps_its_number(tmp_path: Path) -> None:
    write(tmp_path, existence={"a": record(), "b": record(foil=7), "c": record()})
    with pytest.raises(InputError, match=r"line 13: .*'foil' must be text"):
        read(tmp_path)
    problems = ProblemList()
    assert [e.id for e in valse.read(tmp_path, problems)] == ["0", "2"]
    assert [p.kind for p in problems.problems] == ["malformed record"]


@pytest.mark.parametrize("mturk", [None, {}, {"caption": "many"}, 3])
def test_votes_must_be_there(tmp_path: Path, mturk: object) -> None:
    write(tmp_path, existence={"a": record(mturk=mturk)})
    with pytest.raises(InputError, match="record a"):
        read(tmp_path)


def test_images_stay_inside(tmp_path: Path) -> None:
    write(tmp_path, existence={"a": record(image_file="../v7w.jpg")})
    with pytest.raises(InputError, match="climbs out"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("dataset", "image", "folder"),
    [
        ("visual7w", "v7w_1.jpg", "visual7w/images"),
        ("SWiG", "biting_3.jpg", "images_512"),
        ("SWiG", "coconuts_3.jpg", "images_512"),
        ("coco2017", "000000291619.jpg", "val2017"),
        ("coco_2017", "000000291619.jpg", "val2017"),
        ("FOIL dataset", "COCO_val2014_000000165831.jpg", "val2014"),
        ("VisDial_v1.0", "COCO_val2014_000000165831.jpg", "val2014"),
        ("VisDial_v1.0", "COCO_train2014_000000254009.jpg", "train2014"),
        ("VisDial_v1.0", "VisualDialog_val2018_000000284024.jpg", "VisualDialog_val2018"),
    ],
)
@pytest.mark.parametrize("above", ["", "images"])
def test_each_source_has_its_folder(
    tmp_path: Path, dataset: str, image: str, folder: str, above: str
) -> None:
    write(tmp_path, existence={"a": record(dataset=dataset, image_file=image)})
    position = tmp_path / above / folder
    position.mkdir(parents=True)
    assert read(tmp_path)[0].images[0].path == position / image


def test_one_flat_folder_will_do(tmp_path: Path) -> None:
    write(tmp_path, existence={"a": record()})
    (tmp_path / "images").mkdir()
    assert read(tmp_path)[0].images[0].path == tmp_path / "images" / "v7w_1.jpg"


@pytest.fixture(scope="module")
def released(shared: Path) -> list[Example]:
    return read(shared / "valse")


def test_the_released_annotations(released: list[Example]) -> None:
    examples = released
    card = find_single_benchmark("valse").card
    assert len(examples) == 7702
    assert len({e.id for e in examples}) == 7702
    assert Counter(e.tags["subset"] for e in examples) == card.counts
    assert examples[-1].id == "8781"


def test_ids_and_names_agree_with_released_scores(shared: Path, released: list[Example]) -> None:
    """The score files hold the valid examples only, with instrument and piece beside each."""
    expected = {}
    with (shared / "valse" / "scores" / "x-vlm_4m.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                row = json.loads(line)
                expected[row["label"].split("_")[0]] = (row["instrument"], row["piece"])
    result = {e.id: (e.tags["subset"], e.tags["phenomenon"]) for e in released}
    assert result == expected
