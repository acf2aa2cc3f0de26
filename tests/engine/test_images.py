"""Images with hidden regions are images of their own: other names, other pixels, opened once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from contrapose.data import ImageRef, content_id
from contrapose.data.images import open_image
from contrapose.engine import Filling, ImageCache, RegionMask
from contrapose.engine.images import (
    PreparedCache,
    mask_image,
    prepare_image,
    unmask_ref,
)
from contrapose.errors import InputError
from contrapose.metrics import BoolArray
from contrapose.models import load_model
from tests.fakes import MADE, patch


@pytest.fixture
def ref(tmp_path: Path) -> ImageRef:
    values = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    Image.fromarray(values).save(tmp_path / "photo.png")
    return ImageRef("photo.png", tmp_path / "photo.png")


def some(shape: tuple[int, int] = (12, 16)) -> BoolArray:
    mask = np.zeros(shape, dtype=np.bool_)
    mask[3:7, 2:9] = True
    return mask


@given(arrays(np.bool_, st.tuples(st.integers(1, 20), st.integers(1, 20))))
def test_masks_round_trip(mask: BoolArray) -> None:
    assert np.array_equal(RegionMask.of(mask).array(), mask)


def test_each_fill_and_region_has_its_own_id(ref: ImageRef) -> None:
    name = content_id(ref)
    one, two = RegionMask.of(some()), RegionMask.of(~some())
    made = [
        mask_image(ref, name, masks, filling)
        for masks in ([one], [two], [one, two])
        for filling in (
            Filling(),
            Filling("mean"),
            Filling("noise", seed=0),
            Filling("noise", seed=1),
        )
    ]
    ids = {content_id(item) for item in (*made, ref)}
    assert len(ids) == len(made) + 1
    assert mask_image(ref, name, [], Filling()) is ref
    again = mask_image(ref, name, [two, one], Filling())
    assert content_id(again) == content_id(mask_image(ref, name, [one, two], Filling()))
    assert unmask_ref("x", again) == (name, ref)
    assert unmask_ref("x", ref) == ("x", ref)


@pytest.mark.parametrize(
    ("filling", "wanted"),
    [
        (Filling("mean"), lambda pixels: np.rint(pixels.mean(axis=(0, 1)))),
        (Filling("colour", (0.5, 0.25, 1.0)), lambda _: np.array([128, 64, 255])),
    ],
)
def test_regions_filled_with_a_color(
    filling: Filling, wanted: Callable[[Any], Any], ref: ImageRef
) -> None:
    before = np.asarray(open_image(ref))
    after = np.asarray(open_image(mask_image(ref, "id", [RegionMask.of(some())], filling)))
    assert np.abs(after[some()] - wanted(before).astype(np.uint8)).max() == 0
    assert np.array_equal(after[~some()], before[~some()])


@pytest.mark.parametrize("kind", ["blur", "noise"])
def test_regions_filled_with_blur_or_noise(kind: str, ref: ImageRef) -> None:
    before = np.asarray(open_image(ref))
    shown = mask_image(ref, "id", [RegionMask.of(some())], Filling(kind))
    after = np.asarray(open_image(shown))
    assert np.array_equal(after, np.asarray(open_image(shown)))
    assert np.array_equal(after[~some()], before[~some()])
    assert (after[some()] != before[some()]).any()
    # What is hidden does not change with what else is.
    both = mask_image(ref, "id", [RegionMask.of(some()), RegionMask.of(~some())], Filling(kind))
    assert np.array_equal(np.asarray(open_image(both))[some()], after[some()])


def test_zero_fill_is_applied_by_the_model(ref: ImageRef) -> None:
    model: Any = load_model("tiny-clip")
    shown = mask_image(ref, "id", [RegionMask.of(some())], Filling())
    image = open_image(shown)
    assert np.array_equal(np.asarray(image), np.asarray(open_image(ref)))
    plain, blank = (prepare_image(model, "id", item, image) for item in (ref, shown))
    assert isinstance(plain, torch.Tensor)
    assert isinstance(blank, torch.Tensor)
    zero = (blank == 0).all(dim=0)
    assert zero.any()
    assert torch.equal(blank[:, ~zero], plain[:, ~zero])
    painted = mask_image(ref, "id", [RegionMask.of(some())], Filling("mean"))
    assert torch.equal(
        torch.as_tensor(prepare_image(model, "id", painted, open_image(painted))),
        model.prepare_image(open_image(painted)),
    )


def test_masks_of_one_image_share_what_is_prepared(ref: ImageRef) -> None:
    class Counting:
        name, fingerprint, batch_size = "counting", "counting-1", 4
        images = 0

        def prepare_image(self, image: Image.Image) -> torch.Tensor:
            self.images += image.size == (16, 12) and len(image.getcolors() or ()) > 2
            return torch.from_numpy(np.array(image)).permute(2, 0, 1).float()

    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    masks = [rng.random((12, 16)) < 0.5 for _ in range(8)]
    refs = [mask_image(ref, "id", [RegionMask.of(mask)], Filling()) for mask in masks]
    model, cache = Counting(), PreparedCache(20 * 4 * 12 * 16 * 3)
    with ThreadPoolExecutor(4) as pool:
        prepared = list(
            pool.map(lambda shown: prepare_image(model, shown.key, shown, image, cache), refs)
        )
    assert model.images == 1
    for mask, pixels in zip(masks, prepared, strict=True):
        assert isinstance(pixels, torch.Tensor)
        expected = np.where(mask[..., None], 0, np.asarray(image)).transpose(2, 0, 1)
        assert np.array_equal(pixels, expected)
    assert cache.prepare(model, "id", image) is cache.prepare(model, "id", image)
    assert model.images == 1
    for i in range(20):
        cache.normalize(model, str(i), image)
    cache.prepare(model, "id", image)
    assert model.images == 22  # the oldest was dropped


def test_a_mask_of_another_size_is_refused(ref: ImageRef) -> None:
    shown = mask_image(ref, "id", [RegionMask.of(some((10, 16)))], Filling("mean"))
    with pytest.raises(InputError, match=r"16 × 10 does not fit .*16 × 12"):
        open_image(shown)


WINDOWS: list[list[int]] = []
"""Numbers of the images that each call made."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """Generated image of a number; negative ones cannot be made."""

    number: int
    pixels: int = 16

    @property
    def content(self) -> str:
        return str(self.number)

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> list[Image.Image]:
        WINDOWS.append([source.number for source in sources])
        if any(source.number < 0 for source in sources):
            raise InputError("one cannot be made.")
        return [Image.new("RGB", (4, 4), (source.number,) * 3) for source in sources]


def open_numbered(images: ImageCache, numbers: Sequence[int], pixels: int = 16) -> list[int | None]:
    """Open generated images in order; None where one cannot be made."""
    refs = [ImageRef(str(n), source=Numbered(n, pixels)) for n in numbers]
    ids = [content_id(ref) for ref in refs]
    WINDOWS.clear()
    images.expect(ids, refs)
    opened: list[int | None] = []
    for name, ref in zip(ids, refs, strict=True):
        try:
            opened.append(np.asarray(images.open(name, ref))[0, 0, 0].item())
        except InputError:
            opened.append(None)
    return opened


def test_large_images_are_made_in_smaller_windows() -> None:
    assert open_numbered(ImageCache(), range(10)) == list(range(10))
    assert list(map(len, WINDOWS)) == [10]
    assert open_numbered(ImageCache(budget=48 * 16), range(10)) == list(range(10))
    assert list(map(len, WINDOWS)) == [
        4,
        4,
        2,
    ]  # a quarter of the cache, so that none is made twice


def test_a_window_with_a_broken_image_is_halved() -> None:
    numbers = [*range(40), -1, *range(41, 100)]
    expected = [None if n < 0 else n for n in numbers]
    assert open_numbered(ImageCache(), numbers) == expected
    assert len(WINDOWS) < 20  # one by one it would be a hundred


def test_an_image_with_many_masks_is_generated_once() -> None:
    refs = [patch(i) for i in range(3)]
    mask = np.zeros((4, 4), dtype=np.bool_)
    mask[:2] = True
    shown = [
        item
        for ref in refs
        for masks in ([], [RegionMask.of(mask)], [RegionMask.of(~mask)])
        for item in [mask_image(ref, content_id(ref), masks, Filling("mean"))]
    ]
    ids = [content_id(item) for item in shown]
    images = ImageCache()
    MADE.clear()
    images.expect(ids, shown)
    for name, item in zip(ids, shown, strict=True):
        assert images.open(name, item).size == (4, 4)
    assert MADE == [3]


def test_an_image_that_changes_during_a_run_is_not_taken_for_the_earlier_one(
    tmp_path: Path,
) -> None:
    ref = ImageRef("a", tmp_path / "a.png")
    Image.new("RGB", (4, 4), "red").save(tmp_path / "a.png")
    name = content_id(ref)
    assert ImageCache().open(name, ref).getpixel((0, 0)) == (255, 0, 0)
    Image.new("RGB", (4, 4), "blue").save(tmp_path / "a.png")
    with pytest.raises(InputError, match="was changed"):
        ImageCache().open(name, ref)
    assert ImageCache().open(content_id(ref), ref).getpixel((0, 0)) == (0, 0, 255)
