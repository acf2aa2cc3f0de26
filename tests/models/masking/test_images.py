"""Hidden regions are zero in the model's own space, and lie where the image's own pixels lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.masking.images import (
    GRAY,
    can_mask_pixels,
    hide_pixels,
    normalize_prepared,
    zero_color,
)
from tests.models.hf.small import save_clip, save_naflex
from tests.models.hf.vlm import small_vlm

SIZES = [(64, 64), (90, 48), (48, 90)]


def noise(size: tuple[int, int]) -> Image.Image:
    """A picture in which no pixel is grey, so that what is zero was hidden."""
    values = np.random.default_rng(1).integers(0, 100, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(values)


def corner(size: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The upper left part of an image."""
    mask = np.zeros((size[1], size[0]), dtype=np.bool_)
    mask[: size[1] // 2, : size[0] // 2] = True
    return mask


def mask_pixels(model: Any, image: Image.Image, hidden: np.ndarray) -> Any:
    return hide_pixels(model, normalize_prepared(model, model.prepare_image(image)), hidden)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("clip")
    save_clip(folder)
    return load_model(str(folder))


@pytest.mark.parametrize("size", SIZES)
def test_a_region_follows_the_crop(clip: Any, size: tuple[int, int]) -> None:
    """The zeros are just where a picture that is red in the region comes out red."""
    hidden = corner(size)
    red = Image.fromarray(np.where(hidden[..., None], (255, 0, 0), (0, 0, 0)).astype(np.uint8))
    found = mask_pixels(clip, noise(size), hidden)
    assert isinstance(found, Tensor)
    drawn: Any = clip.prepare_image(red)
    zero = (found == 0).all(dim=0)
    assert torch.equal(zero, drawn[0] > 127)
    assert 0.1 < zero.float().mean() < 0.5
    whole: Any = clip.normalize_image(clip.prepare_image(noise(size)))
    assert torch.equal(found[:, ~zero], whole[:, ~zero])


def test_a_wide_image_loses_what_was_cropped_away(clip: Any) -> None:
    """A region at the far left of a wide image is outside the middle square."""
    image = noise((120, 40))
    hidden = np.zeros((40, 120), dtype=np.bool_)
    hidden[:, :30] = True
    whole: Any = clip.normalize_image(clip.prepare_image(image))
    found = mask_pixels(clip, image, hidden)
    assert torch.equal(torch.as_tensor(found), whole)


def test_what_is_blank_gets_an_answer_beside_what_is_not(clip: Any) -> None:
    """Bytes and normalised pixels may stand in one batch."""
    image = noise((64, 64))
    some, none = (
        mask_pixels(clip, image, mask) for mask in (corner((64, 64)), ~np.ones((64, 64), "?"))
    )
    plain, blank, same = clip.embed_images([image, some, none])
    torch.testing.assert_close(plain, same, rtol=1e-5, atol=1e-6)
    assert (plain - blank).abs().max() > 1e-4


@pytest.mark.parametrize("name", ["tiny", "tiny-clip"])
def test_the_built_in_models(name: str) -> None:
    model: Any = load_model(name)
    assert can_mask_pixels(model)
    found = mask_pixels(model, noise((96, 96)), corner((96, 96)))
    assert isinstance(found, Tensor)
    assert (found[:, :48, :48] == 0).all()
    assert (found[:, 48:] != 0).all()


def test_images_in_patches_have_no_such_pixels(tmp_path: Path) -> None:
    save_naflex(tmp_path)
    model: Any = load_model(str(tmp_path))
    assert not can_mask_pixels(model)
    assert zero_color(model) == (0.5, 0.5, 0.5)
    with pytest.raises(InputError, match="are not pixels"):
        mask_pixels(model, noise((64, 64)), corner((64, 64)))


@pytest.mark.parametrize("family", ["llava", "llava_next", "qwen2_vl"])
def test_models_of_tiles_and_of_patches(family: str, tmp_path: Path) -> None:
    small_vlm.FAMILIES[family](tmp_path)
    model = small_vlm.opened(tmp_path)
    size = (60, 40)
    if family == "qwen2_vl":
        assert not can_mask_pixels(model)
        assert zero_color(model) == tuple(model._processor.image_processor.image_mean)
        return
    assert can_mask_pixels(model)
    whole: Any = model.prepare_image(noise(size))
    found: Any = mask_pixels(model, noise(size), corner(size))
    assert found.keys() == whole.keys()
    changed = (found["pixel_values"] != whole["pixel_values"]).any(dim=-3)
    assert 0.1 < changed.float().mean() < 0.5
    assert (found["pixel_values"].movedim(-3, 0)[:, changed] == 0).all()


def test_a_model_that_says_nothing_is_given_grey() -> None:
    assert zero_color(object()) == GRAY
    assert not can_mask_pixels(object())
