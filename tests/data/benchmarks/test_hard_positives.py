"""Hard positives: two files walk side by side, and never out of step."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.data import find_single_benchmark, open_image
from contrapose.data.benchmarks.hard_positives import (
    find_replacement,
    read_replace,
    read_swap,
    swap_sides,
)
from contrapose.errors import InputError
from contrapose.files import MalformedError, ProblemList, StrictProblems


def row(caption: str, number: int = 1, **more: object) -> dict[str, Any]:
    return {
        "image_id": str(number),
        "true_caption": caption,
        "false_caption": f"chair out of room {number}",
        "image_path": f"data/VG_100K_2/{number}.jpg",
        **more,
    }


def write(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[" + ",\n".join(map(json.dumps, rows)) + "]")
    return path


@pytest.mark.parametrize(
    ("original", "positive"),
    [
        ("data/vl_checklist_relations.json", "swapped_data/vl_checklist_relations.json"),
        ("replace_relations_original.json", "replace_relations_hard_positive.json"),
    ],
)
def test_replace_in_both_layouts(tmp_path: Path, original: str, positive: str) -> None:
    write(tmp_path / original, [row("chair in room", i) for i in range(2)])
    write(tmp_path / positive, [row("chair within room", i) for i in range(2)])
    result = list(read_replace(tmp_path, StrictProblems()))
    assert [example.id for example in result] == ["relations/0", "relations/1"]
    assert result[1].texts == ("chair in room", "chair out of room 1", "chair within room")
    assert result[1].match == ((True, False, True),)
    assert result[1].tags == {"subset": "relations", "replaced": "in -> within"}
    assert result[1].images[0].key == "VG_100K_2/1.jpg"
    assert result[1].images[0].path == tmp_path / "data/VG_100K_2/1.jpg"


def test_images_with_and_without_the_leading_folder(tmp_path: Path) -> None:
    write(tmp_path / "replace_attributes_original.json", [row("x", i) for i in range(2)])
    write(tmp_path / "replace_attributes_hard_positive.json", [row("y", i) for i in range(2)])
    for path in (tmp_path / "data/VG_100K_2/0.jpg", tmp_path / "VG_100K_2/1.jpg"):
        path.parent.mkdir(parents=True)
        Image.new("RGB", (2, 2)).save(path)
    for example in read_replace(tmp_path, StrictProblems()):
        assert open_image(example.images[0]).size == (2, 2)


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ({"false_caption": "another"}, "'false_caption' is not that of the same row"),
        ({"image_path": "data/VG_100K/9.jpg"}, "'image_path' is not that of the same row"),
        ({"true_caption": " "}, "'true_caption' must be text"),
    ],
)
def test_rows_out_of_step(tmp_path: Path, bad: dict[str, str], what: str) -> None:
    write(tmp_path / "replace_relations_original.json", [row("a", i) for i in range(3)])
    positives = [row("b", i) for i in range(3)]
    positives[1] |= bad
    path = write(tmp_path / "replace_relations_hard_positive.json", positives)
    with pytest.raises(InputError) as refused:
        list(read_replace(tmp_path, StrictProblems()))
    assert f"{path}, line 2: record 1: " in str(refused.value)
    assert what in str(refused.value)
    problems = ProblemList()
    result = list(read_replace(tmp_path, problems))
    assert [example.id for example in result] == ["relations/0", "relations/2"]
    assert len(problems.problems) == 1


def test_a_malformed_original_is_told_in_its_own_file(tmp_path: Path) -> None:
    originals = [row("a", 0), {"image_id": "1"}, row("a", 2, image_path="data/../../x.jpg")]
    path = write(tmp_path / "replace_relations_original.json", originals)
    positives = [row("b", 0), row("b", 1), row("b", 2, image_path="data/../../x.jpg")]
    write(tmp_path / "replace_relations_hard_positive.json", positives)
    problems = ProblemList()
    assert [e.id for e in read_replace(tmp_path, problems)] == ["relations/0"]
    assert [(p.file, p.line) for p in problems.problems] == [(path, 2), (path, 3)]
    assert "climbs out" in problems.problems[1].message


def test_files_of_different_length(tmp_path: Path) -> None:
    write(tmp_path / "replace_relations_original.json", [row("a", i) for i in range(3)])
    write(tmp_path / "replace_relations_hard_positive.json", [row("b", i) for i in range(2)])
    problems = ProblemList()
    assert len(list(read_replace(tmp_path, problems))) == 2
    assert "record 2 has no partner" in problems.problems[0].message


def test_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds neither"):
        list(read_replace(tmp_path, StrictProblems()))
    write(tmp_path / "replace_relations_original.json", [])
    with pytest.raises(InputError, match=r"replace_relations_hard_positive\.json"):
        list(read_replace(tmp_path, StrictProblems()))
    with pytest.raises(InputError, match=r"visual_genome_attribution\.json"):
        list(read_swap(tmp_path, StrictProblems()))


@pytest.mark.parametrize(
    ("original", "positive", "replaced"),
    [
        ("van behind truck", "van to the rear of truck", "behind -> to the rear of"),
        ("trees behind trees", "trees to the rear of trees", "behind -> to the rear of"),
        ("dishes on top of table", "dishes on table", "on top of -> on"),
        ("room in building in city", "room within building within city", "in -> within"),
        ("silverware IN silver", "metallicware IN metallic", "silver -> metallic"),
        ("walking elephant", "strolling elephant", "walking -> strolling"),
        ("a cat", "a cat", ""),
        ("cat", "", "cat -> "),
    ],
)
def test_the_replaced_word(original: str, positive: str, replaced: str) -> None:
    assert find_replacement(original, positive) == replaced


def test_real_replace(shared: Path) -> None:
    result = list(read_replace(shared / "hard_positives", StrictProblems()))
    words = Counter((example.tags["subset"], example.tags["replaced"]) for example in result)
    # Frequencies of the paper's tables 1 to 3 of the supplement.
    for subset, replaced, count in (
        ("relations", "in -> within", 6173),
        ("relations", "behind -> to the rear of", 1057),
        ("relations", "on top of -> on", 683),
        ("relations", "by -> near", 394),
        ("attributes", "white -> ivory", 2742),
        ("attributes", "silver -> metallic", 242),
        ("attributes", "long -> lengthy", 271),
    ):
        assert words[subset, replaced] == count
    assert words["relations", "wearing -> in"] + words["relations", "wears -> in"] == 3976
    counted = Counter(example.tags["subset"] for example in result)
    assert counted == {"relations": 16868, "attributes": 10575}
    assert counted == find_single_benchmark("hard-positives-replace").card.counts
    assert len({example.id for example in result}) == 27443
    assert result[0].texts == (
        "chair in conference room",
        "chair out of conference room",
        "chair within conference room",
    )
    original, _, positive = zip(*(example.texts for example in result), strict=True)
    assert all(c != p for c, p in zip(original, positive, strict=True))
    # “in” became “within” 6,173 times, as the paper's Table 1 counts.
    pairs = zip(original, positive, strict=True)
    within = [p for c, p in pairs if "within" in p and "within" not in c]
    assert len(within) == 6173


def box(caption: str, number: int = 1, **more: object) -> dict[str, Any]:
    return {
        "image_id": number,
        "image_path": f"{number}.jpg",
        "true_caption": caption,
        "false_caption": "the green fence and the white tree",
        "attributes": ["white", "green"],
        **{"bbox_x": 2, "bbox_y": 1, "bbox_w": 5, "bbox_h": 4},
        **more,
    }


SWAP = "visual_genome_attribution.json"
CAPTION = "the white fence and the green tree"


def test_swap_is_made_where_no_file_has_it(tmp_path: Path) -> None:
    write(tmp_path / SWAP, [box(CAPTION)])
    (tmp_path / "images").mkdir()
    Image.new("RGB", (20, 20)).save(tmp_path / "images" / "1.jpg")
    (example,) = read_swap(tmp_path, StrictProblems())
    assert example.id == "0"
    assert example.texts == (
        "the white fence and the green tree",
        "the green fence and the white tree",
        "the green tree and the white fence",
    )
    assert example.match == ((True, False, True),)
    assert example.tags == {"attributes": "white_green"}
    assert example.images[0].crop == (2, 1, 5, 4)
    assert open_image(example.images[0]).size == (5, 4)


def test_swap_is_read_where_a_file_has_it(tmp_path: Path) -> None:
    write(tmp_path / "data" / SWAP, [box(CAPTION), box("a cat and a dog", 2)])
    positives = [box("a hard positive"), box("a dog and a cat", 2)]
    write(tmp_path / "swapped_data" / SWAP, positives)
    result = list(read_swap(tmp_path, StrictProblems()))
    assert [example.texts[2] for example in result] == ["a hard positive", "a dog and a cat"]
    assert result[0].images[0].path == tmp_path / "data/images/1.jpg"


def test_swap_rows_out_of_step(tmp_path: Path) -> None:
    write(tmp_path / "data" / SWAP, [box(CAPTION), box(CAPTION, 2)])
    path = write(tmp_path / "swapped_data" / SWAP, [box("x", 3), box("y", 2)])
    with pytest.raises(InputError, match=f"{path}, line 1"):
        list(read_swap(tmp_path, StrictProblems()))
    problems = ProblemList()
    assert [example.id for example in read_swap(tmp_path, problems)] == ["1"]
    assert len(problems.problems) == 1


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (box("a fence, a tree"), "expected “the … and the …”"),
        (box("the cup and the bowl and the cat"), "expected “the … and the …”"),
        (box(CAPTION, bbox_w=0), "is empty"),
        (box(CAPTION, bbox_x="left"), "'bbox_x' must be a finite number"),
        ([], "expected an object"),
    ],
)
def test_malformed_swap_records(tmp_path: Path, bad: Any, what: str) -> None:
    path = write(tmp_path / SWAP, [box(CAPTION), bad, box(CAPTION)])
    with pytest.raises(InputError) as refused:
        list(read_swap(tmp_path, StrictProblems()))
    assert f"{path}, line 2: " in str(refused.value)
    assert what in str(refused.value)
    problems = ProblemList()
    assert [example.id for example in read_swap(tmp_path, problems)] == ["0", "2"]


def test_the_two_sides_of_and() -> None:
    made = swap_sides("the black and white dog and the red ball")
    assert made == "the red ball and the black and white dog"
    assert swap_sides(made) == "the black and white dog and the red ball"
    with pytest.raises(MalformedError):
        swap_sides("the dog")
