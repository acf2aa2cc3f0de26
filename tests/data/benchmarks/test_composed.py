"""Readers of composed retrieval: CIRR, FashionIQ, CIRCO and GeneCIS, real and malformed files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contrapose.data import ComposedSet, find_single_benchmark
from contrapose.data.images import content_id, open_image
from contrapose.errors import InputError
from contrapose.files import ProblemList, StrictProblems


def read(name: str, root: Path, problems: ProblemList | None = None) -> ComposedSet:
    data = find_single_benchmark(name).read(root, problems or StrictProblems())
    assert isinstance(data, ComposedSet)
    return data


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("name", "folder", "images"),
    [
        ("cirr", "cirr", 2297),
        ("cirr-test", "cirr", 2315),
        ("fashioniq", "fashioniq", 15415),
        ("fashioniq-one-order", "fashioniq", 15415),
        ("circo", "circo", 1121),
        ("circo-test", "circo", 798),
        ("genecis-change-object", "genecis", 2739),
    ],
)
def test_the_released_files(shared: Path, name: str, folder: str, images: int) -> None:
    data = read(name, shared / "cir" / folder)
    card = find_single_benchmark(name).card
    assert len(data.queries) == sum(card.counts.values())
    assert len(data.images) == images
    assert len({query.id for query in data.queries}) == len(data.queries)
    assert all(bool(query.relevant) == (not name.endswith("test")) for query in data.queries)
    assert all(set(query.relevant) <= set(data.galleries[query.gallery]) for query in data.queries)
    assert {len(query.texts) for query in data.queries} <= (
        {1, 2} if name == "fashioniq" else {0, 1} if name == "cirr-test" else {1}
    )


CIRR = {
    "pairid": 7,
    "reference": "a",
    "target_hard": "b",
    "caption": "make it red",
    "img_set": {"members": ["b", "c", "a"]},
}


def cirr(root: Path, **changes: Any) -> Path:
    write(root / "captions" / "cap.rc2.val.json", [CIRR, {**CIRR, "pairid": 8, **changes}])
    write(root / "image_splits" / "split.rc2.val.json", {n: f"./dev/{n}.png" for n in "abc"})
    return root


def test_cirr_ranks_without_the_reference(tmp_path: Path) -> None:
    (tmp_path / "img_raw" / "dev").mkdir(parents=True)
    data = read("cirr", cirr(tmp_path))
    query = data.queries[0]
    assert (query.id, query.image, query.relevant, query.subset) == ("7", 0, (1,), (1, 2))
    assert data.images[1].path == tmp_path / "img_raw" / "dev" / "b.png"
    assert not data.keep_reference
    assert "3 images" in data.rule


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"caption": " "}, "caption"),
        ({"caption": None}, "caption"),
        ({"reference": "z"}, "'z' is not in split.rc2.val.json"),
        ({"target_hard": "a"}, "target is the reference"),
        ({"target_hard": 3}, "'3' is not in"),
        ({"img_set": {}}, "members"),
        ({"img_set": {"members": ["a", "a", "b"]}}, "twice"),
        ({"img_set": {"members": ["c", "a"]}}, "img_set"),
        ({"img_set": 5}, "object"),
    ],
)
def test_malformed_cirr_records(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    root = cirr(tmp_path, **changes)
    with pytest.raises(InputError, match=words):
        read("cirr", root)
    problems = ProblemList()
    assert [query.id for query in read("cirr", root, problems).queries] == ["7"]
    assert len(problems.problems) == 1


def test_a_cirr_path_cannot_climb_out(tmp_path: Path) -> None:
    root = cirr(tmp_path)
    write(root / "image_splits" / "split.rc2.val.json", {"a": "../../secret.png"})
    with pytest.raises(InputError, match="climbs out"):
        read("cirr", root)


def fashioniq(root: Path, **changes: Any) -> Path:
    record = {"candidate": "a", "target": "b", "captions": ["is red.", "has long sleeves, "]}
    for category in ("dress", "shirt", "toptee"):
        changed = {**record, **changes} if category == "shirt" else record
        write(root / "captions" / f"cap.{category}.val.json", [changed])
        write(root / "image_splits" / f"split.{category}.val.json", ["a", "b", category])
    return root


def test_fashioniq_joins_both_orders(tmp_path: Path) -> None:
    data = read("fashioniq", fashioniq(tmp_path))
    assert data.queries[0].texts == (
        "is red and has long sleeves",
        "has long sleeves and is red",
    )
    one = read("fashioniq-one-order", tmp_path)
    assert one.queries[0].texts == ("is red and has long sleeves",)
    assert [query.tags["subset"] for query in data.queries] == ["dress", "shirt", "toptee"]
    assert data.galleries == ((0, 1, 2), (0, 1, 3), (0, 1, 4))
    assert data.keep_reference


def test_an_empty_fashioniq_caption_leaves_the_other(tmp_path: Path) -> None:
    data = read("fashioniq", fashioniq(tmp_path, captions=["", "is blue"]))
    assert data.queries[1].texts == ("is blue",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"captions": ["one"]}, "two texts"),
        ({"captions": ["", ""]}, "captions"),
        ({"captions": ["a", 3]}, "captions"),
        ({"candidate": "zzz"}, "zzz"),
        ({"target": "dress"}, "not in split.shirt"),
    ],
)
def test_malformed_fashioniq_records(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read("fashioniq", fashioniq(tmp_path, **changes))


CIRCO = {
    "id": 0,
    "reference_img_id": 5,
    "target_img_id": 6,
    "gt_img_ids": [6, 7],
    "relative_caption": "is indoors",
    "semantic_aspects": ["negation"],
}


def circo(root: Path, **changes: Any) -> Path:
    write(root / "annotations" / "val.json", [{**CIRCO, **changes}])
    return root


def test_circo_takes_its_gallery_from_coco(tmp_path: Path) -> None:
    data = read("circo", circo(tmp_path))
    assert not data.listed
    (tmp_path / "unlabeled2017").mkdir()
    for number in (5, 6, 7, 8):
        (tmp_path / "unlabeled2017" / f"{number:012d}.jpg").write_bytes(b"")
    data = read("circo", tmp_path)
    assert data.listed
    assert [image.key for image in data.images] == ["5", "6", "7", "8"]
    listed = {"images": [{"id": i, "file_name": "x"} for i in (9, 7, 6, 5, 4)]}
    write(tmp_path / "COCO2017_unlabeled" / "annotations" / "image_info_unlabeled2017.json", listed)
    data = read("circo", tmp_path)
    assert [image.key for image in data.images] == ["9", "7", "6", "5", "4"]
    assert data.queries[0].relevant == (2, 1)
    assert data.queries[0].tags == {"aspect": ("negation",)}
    assert data.images[0].path == tmp_path / "unlabeled2017" / "000000000009.jpg"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gt_img_ids": []}, "empty"),
        ({"gt_img_ids": [6, 6]}, "twice"),
        ({"gt_img_ids": 6}, "list"),
        ({"gt_img_ids": [6, "x"]}, "whole numbers"),
        ({"gt_img_ids": [6, -7]}, "whole numbers"),
        ({"reference_img_id": "x"}, "reference_img_id"),
        ({"relative_caption": ""}, "relative_caption"),
        ({"id": None}, "id"),
    ],
)
def test_malformed_circo_records(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read("circo", circo(tmp_path, **changes))


GENECIS = {
    "condition": "wall",
    "reference": {"val_image_id": 1},
    "target": {"val_image_id": 2},
    "gallery": [{"val_image_id": 3}, {"val_image_id": 2}, {"val_image_id": 4}],
}


def test_a_genecis_query_has_its_own_gallery(tmp_path: Path) -> None:
    write(tmp_path / "focus_object.json", [GENECIS])
    data = read("genecis-focus-object", tmp_path)
    assert data.galleries == ((1, 2, 3),)  # the target once
    assert data.queries[0].relevant == (1,)
    assert data.images[0].path == tmp_path / "val2017" / "000000000001.jpg"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gallery": []}, "gallery"),
        ({"gallery": [{"val_image_id": 1}]}, "reference image is in its gallery"),
        ({"gallery": [{}]}, "val_image_id"),
        ({"target": 3}, "object"),
        ({"condition": ""}, "condition"),
    ],
)
def test_malformed_genecis_records(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    write(tmp_path / "change_object.json", [{**GENECIS, **changes}])
    with pytest.raises(InputError, match=words):
        read("genecis-change-object", tmp_path)


GENECIS_ATTRIBUTE = {
    "condition": "color",
    "reference": {"image_id": "7", "instance_bbox": [40, 20, 20, 10]},
    "target": {"image_id": 8, "instance_bbox": [2.0, 1.0, 10.5, 20]},
    "gallery": [
        {"image_id": 7, "instance_bbox": [0, 0, 30, 30]},
        {"image_id": 8, "instance_bbox": [2, 1, 10.5, 20.0]},
    ],
}


def test_a_genecis_attribute_query_is_on_objects(tmp_path: Path) -> None:
    """The released code takes 0.7 of the box to the left and upwards, then pads to a square."""
    write(tmp_path / "genecis" / "focus_attribute.json", [GENECIS_ATTRIBUTE])
    folder = tmp_path / "VG_100K_2"
    folder.mkdir()
    Image.new("RGB", (55, 50), (200, 100, 50)).save(folder / "7.jpg", quality=95)
    data = read("genecis-focus-attribute", tmp_path)
    assert data.galleries == ((1, 2),)  # the target once, another object of the query's photograph
    reference, target, other = data.images
    assert [image.path for image in (reference, other)] == [folder / "7.jpg"] * 2
    assert target.path == tmp_path / "VG_100K" / "8.jpg"
    assert len({image.key for image in data.images}) == 3
    assert (reference.crop, target.crop) == ((26, 13, 34, 17), (0, 0, 18, 34))
    opened = open_image(reference)
    assert opened.size == (29, 29)  # clipped at the right, then padded above and below
    assert opened.getpixel((10, 0)) == (0, 0, 0) == opened.getpixel((10, 28))
    assert opened.getextrema()[0][1] > 150  # type: ignore[index]
    assert content_id(reference) != content_id(replace(reference, square=False))
    card = find_single_benchmark("genecis-focus-attribute").card
    assert card.chance["r1"] == 0.1
    assert "not seen" in card.layout


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"image_id": 8}, "instance_bbox"),
        ({"image_id": 8, "instance_bbox": [1, 2, 3]}, "4 numbers"),
        ({"image_id": 8, "instance_bbox": [1, 2, 0, 4]}, "empty"),
        ({"image_id": 8, "instance_bbox": [1, 2, "nan", 4]}, "finite"),
        ({"image_id": "../../8", "instance_bbox": [1, 2, 3, 4]}, "8.jpg"),
        ({"val_image_id": 8}, "image_id"),
        (GENECIS_ATTRIBUTE["reference"], "reference image is in its gallery"),
    ],
)
def test_malformed_genecis_objects(tmp_path: Path, target: Any, words: str) -> None:
    record = {**GENECIS_ATTRIBUTE, "target": target}
    write(tmp_path / "change_attribute.json", [record])
    with pytest.raises(InputError, match=words):
        read("genecis-change-attribute", tmp_path)


@pytest.mark.parametrize(
    "name", ["cirr", "fashioniq", "circo", "genecis-focus-object", "genecis-focus-attribute"]
)
def test_a_folder_without_the_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="holds no"):
        read(name, tmp_path)
