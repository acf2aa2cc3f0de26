"""Regions: what the renderer drew, what the user marked, and patches of like color."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from contrapose.data import Example, ImageRef, open_images
from contrapose.data.examples import single_match
from contrapose.data.masks import compute_superpixels
from contrapose.diagnose.players import MAX_PLAYERS, MissingPlayers, RegionMasks
from contrapose.diagnose.regions import (
    SceneRegions,
    Superpixels,
    UserRegions,
    choose_regions,
    superpixel_notes,
)
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.world.benchmark import find_mentioned_things, regions, scenes


def part(name: str, count: int = 6) -> list[Example]:
    data: Any = scenes(examples=count).parts[name].read(Path(), StrictProblems())
    return list(data)


def masks(found: Any) -> list[RegionMasks]:
    assert not isinstance(found, MissingPlayers), found
    return list(found)


@pytest.mark.parametrize("name", ["location", "swap-relation", "attribute"])
def test_scene_regions_are_the_renderer_masks(name: str) -> None:
    played = 0
    examples = part(name)
    for example, found in zip(examples, SceneRegions().find(examples), strict=True):
        if isinstance(found, MissingPlayers):
            continue
        played += 1
        for image, each in enumerate(found):
            own = next(j for j, ok in enumerate(example.match[image]) if ok)
            things = regions(example, image)
            said = find_mentioned_things(example, own, image)
            whole = {
                frozenset(np.flatnonzero(things[list(fits)].any(axis=0).ravel())) for fits in said
            }
            seen = {frozenset(np.flatnonzero(mask.array().ravel())) for mask in each.values()}
            assert list(each) == ["O1", "O2"]
            assert seen == whole
            assert not (each["O1"].array() & each["O2"].array()).any()
    assert played >= 3


def test_o1_is_the_same_thing_in_both_images() -> None:
    examples = part("location")
    for example, found in zip(examples, SceneRegions().find(examples), strict=True):
        for image, each in enumerate(masks(found)):
            first, _ = find_mentioned_things(example, 0, image)
            wanted = regions(example, image)[list(first)].any(axis=0)
            assert np.array_equal(each["O1"].array(), wanted)


def test_captions_of_one_thing_have_no_regions() -> None:
    reasons = {
        found.reason
        for found in SceneRegions().find(part("counting", 20))
        if isinstance(found, MissingPlayers)
    }
    assert reasons == {"its caption does not speak of two things"}
    shown = Example("1", (ImageRef("a", Path("a.png")),), ("a cube",), ((True,),))
    assert SceneRegions().find([shown]) == [MissingPlayers("its images are not drawn from scenes")]


@pytest.fixture
def example(tmp_path: Path) -> Example:
    values = np.random.default_rng(0).integers(0, 256, (8, 10, 3), dtype=np.uint8)
    Image.fromarray(values).save(tmp_path / "photo.png")
    ref = ImageRef("photo.png", tmp_path / "photo.png")
    return Example("7", (ref,), ("a man", "a horse"), single_match(2, 0))


def lines(folder: Path, *marked: Any, **changes: Any) -> Path:
    file = folder / "regions.jsonl"
    file.write_text(
        "".join(
            json.dumps({"id": "7", "image": 0, "regions": each, **changes}) + "\n"
            for each in marked
        )
    )
    return file


def test_user_regions(example: Example, tmp_path: Path) -> None:
    grey = np.zeros((8, 10), dtype=np.uint8)
    grey[:2] = 255
    Image.fromarray(grey).save(tmp_path / "top.png")
    file = lines(tmp_path, {"O1": "top.png", "O2": [0, 4, 10, 2], "sky": {"box": [0, 7, 3, 1]}})
    source = choose_regions([example], file=file)
    assert source is not None
    (found,) = source.find([example])
    (each,) = masks(found)
    assert {name: int(mask.array().sum()) for name, mask in each.items()} == {
        "O1": 20,
        "O2": 20,
        "sky": 3,
    }
    other = Example("8", example.images, example.texts, example.match)
    assert isinstance(source.find([other])[0], MissingPlayers)


def test_a_folder_of_masks(example: Example, tmp_path: Path) -> None:
    place = tmp_path / "masks" / "7" / "0"
    place.mkdir(parents=True)
    for row, name in enumerate(("O1", "O2")):
        grey = np.zeros((8, 10), dtype=np.uint8)
        grey[row] = 255
        Image.fromarray(grey).save(place / f"{name}.png")
    (found,) = UserRegions.read(tmp_path / "masks").find([example])
    (each,) = masks(found)
    assert [int(mask.array().sum()) for mask in each.values()] == [10, 10]
    (tmp_path / "masks" / "O3.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"must lie at ID/IMAGE/NAME\.png"):
        UserRegions.read(tmp_path / "masks")


def test_masks_of_the_photograph_are_cropped(example: Example, tmp_path: Path) -> None:
    whole = ImageRef("photo.png", tmp_path / "photo.png", crop=(2, 1, 6, 5))
    shown = Example("7", (whole,), example.texts, example.match)
    grey = np.zeros((8, 10), dtype=np.uint8)
    grey[0:3, 0:4] = 255
    Image.fromarray(grey).save(tmp_path / "part.png")
    (found,) = UserRegions.read(lines(tmp_path, {"O1": "part.png"})).find([shown])
    (each,) = masks(found)
    assert np.array_equal(each["O1"].array(), grey[1:6, 2:8] > 0)


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        ({"O1": [0, 0, 5, 5], "O2": [4, 4, 3, 3]}, "'O1' and 'O2' overlap"),
        (
            {"O1": {"size": [4, 4], "counts": [0, 16]}},
            "is 4 × 4, and the image 10",
        ),
        ({"O1": [50, 50, 2, 2]}, "the region 'O1' is empty"),
        ({"O1": "nowhere.png"}, "is not there"),
    ],
)
def test_regions_that_do_not_fit_are_refused(
    marked: Any, message: str, example: Example, tmp_path: Path
) -> None:
    source = UserRegions.read(lines(tmp_path, marked))
    with pytest.raises(
        InputError, match=rf"regions.jsonl, line 1: example 7, image 0: .*{message}"
    ):
        source.find([example])


def test_bad_lists_of_regions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 1: .*at least one region"):
        UserRegions.read(lines(tmp_path, {}))
    many = {f"r{i}": [i, 0, 1, 1] for i in range(MAX_PLAYERS + 1)}
    with pytest.raises(InputError, match=r"line 1: .*17 regions.*16"):
        UserRegions.read(lines(tmp_path, many))
    with pytest.raises(InputError, match=r"line 2: .*image 0 twice"):
        UserRegions.read(lines(tmp_path, {"O1": [0, 0, 1, 1]}, {"O1": [0, 0, 1, 1]}))
    with pytest.raises(InputError, match="holds no regions"):
        UserRegions.read(lines(tmp_path))


def components(labels: Any, label: int) -> int:
    """Number of connected parts of a region, by flooding over the four neighbors."""
    left = {(int(y), int(x)) for y, x in np.argwhere(labels == label)}
    count = 0
    while left:
        count += 1
        front = [left.pop()]
        while front:
            y, x = front.pop()
            for beside in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if beside in left:
                    left.remove(beside)
                    front.append(beside)
    return count


@pytest.mark.parametrize(
    "size",
    [(64, 64), (8, 8), (120, 40), (1, 200), (200, 1), (4, 4), (300, 7), (17, 16), (2, 9)],
)
def test_superpixels_are_connected_and_as_many_as_asked(size: tuple[int, int]) -> None:
    values = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(values)
    for count in (1, 2, 3, 5, 8, 12, 16):
        labels = compute_superpixels(image, count)
        assert labels.shape == (size[1], size[0])
        assert np.unique(labels).tolist() == list(range(count))
        assert all(components(labels, label) == 1 for label in range(count))
        assert np.array_equal(labels, compute_superpixels(image, count))


def test_superpixels_of_smooth_images_have_about_the_same_size() -> None:
    labels = compute_superpixels(Image.new("RGB", (64, 64), (90, 90, 90)), 8)
    sizes = np.bincount(labels.reshape(-1))
    assert sizes.min() > 64 * 64 / 8 / 2
    assert sizes.max() < 64 * 64 / 8 * 2


def test_superpixels_partition_the_image(example: Example) -> None:
    (found,) = Superpixels(6).find([example])
    (each,) = masks(found)
    stacked = np.stack([mask.array() for mask in each.values()])
    assert list(each) == [f"P{i}" for i in range(1, 7)]
    assert (stacked.sum(axis=0) == 1).all()
    assert superpixel_notes(Superpixels(6), 6, [example]) == []


def test_images_with_too_few_pixels_are_counted(tmp_path: Path) -> None:
    Image.new("RGB", (2, 2)).save(tmp_path / "dot.png")
    dot = Example("1", (ImageRef("dot", tmp_path / "dot.png"),), ("a", "b"), single_match(2, 0))
    (found,) = Superpixels(8).find([dot])
    assert len(masks(found)[0]) == 4
    (note,) = superpixel_notes(Superpixels(8), 8, [dot])
    assert "1 of 1 images have fewer than 8 pixels" in note


def test_superpixels_follow_color() -> None:
    """Two halves that meet off the grid's line are told apart there."""
    values = np.zeros((60, 90, 3), dtype=np.uint8)
    values[:, 52:] = 255
    labels = compute_superpixels(Image.fromarray(values), 2)
    assert set(np.unique(labels[:, :52])) != set(np.unique(labels[:, 52:]))
    assert len(np.unique(labels[:, :52])) == len(np.unique(labels[:, 52:])) == 1
    again = compute_superpixels(Image.fromarray(values), 2)
    assert np.array_equal(labels, again)


def test_too_many_superpixels_are_refused() -> None:
    with pytest.raises(InputError, match=r"17 superpixels.*16"):
        Superpixels(17)
    with pytest.raises(InputError, match="at least one superpixel"):
        choose_regions([], "superpixels", count=0)


def test_choice_of_the_region_source(example: Example) -> None:
    assert choose_regions([example]) is None
    assert isinstance(choose_regions(part("location", 1)), SceneRegions)
    assert isinstance(choose_regions([example], "superpixels"), Superpixels)
    assert open_images(example.images)[0].size == (10, 8)
