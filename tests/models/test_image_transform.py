"""Steps of preprocessing that no library is needed to check."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from contrapose import resize_crop
from contrapose.models.image_transform import ImageTransform, batch_images

STEPS = ImageTransform(32, (32, 32), Image.Resampling.BICUBIC, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def smooth(height: int, width: int) -> Image.Image:
    values = np.random.default_rng(0).integers(0, 256, (3, 3, 3), dtype=np.uint8)
    return Image.fromarray(values).resize((width, height), Image.Resampling.BICUBIC)


def test_one_pixel_by_hand() -> None:
    image = Image.new("RGB", (10, 20), (255, 0, 51))
    expected = torch.tensor([(1 - 0.5) / 0.2, (0 - 0.4) / 0.3, (0.2 - 0.3) / 0.4])
    torch.testing.assert_close(STEPS(image), expected[:, None, None].expand(3, 32, 32))


@pytest.mark.parametrize("shape", [(40, 4000), (4000, 40)])
def test_endless_images_are_resized_in_part(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    image = smooth(*shape)
    whole = STEPS.resize_to_bytes(image).int()
    monkeypatch.setattr(resize_crop, "MAX_PIXELS", 1000)
    part = STEPS.resize_to_bytes(image).int()
    assert (part - whole).abs().max() <= 1
    assert not torch.equal(whole[:, :, 0], whole[:, :, -1])


def test_a_very_long_image_takes_little_memory() -> None:
    assert STEPS.resize_to_bytes(Image.new("RGB", (1, 100_000))).shape == (3, 32, 32)


def test_crops_that_cannot_be_centred() -> None:
    image = smooth(32, 35)
    left = {
        even: ImageTransform(32, (32, 32), Image.Resampling.BICUBIC, (0,), (1,), even)
        for even in (False, True)
    }
    array = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    assert torch.equal(left[False].resize_to_bytes(image), array[:, :, 1:33])  # 3 // 2
    assert torch.equal(left[True].resize_to_bytes(image), array[:, :, 2:34])  # 1.5, to the even


def test_nearest_neighbours_too() -> None:
    steps = ImageTransform(16, (16, 16), Image.Resampling.NEAREST, (0, 0, 0), (1, 1, 1))
    image = smooth(40, 64)
    expected = image.resize((25, 16), Image.Resampling.NEAREST).crop((4, 0, 20, 16))
    assert torch.equal(
        steps.resize_to_bytes(image), torch.from_numpy(np.array(expected)).permute(2, 0, 1)
    )


def test_batches_of_bytes_and_of_pixels() -> None:
    images = [smooth(32, 40), smooth(50, 32)]
    prepared = [STEPS.resize_to_bytes(image) for image in images]
    expected = torch.stack([STEPS(image) for image in images])
    assert torch.equal(batch_images(prepared, STEPS, "cpu", torch.float32), expected)
    mixed = [prepared[0], STEPS(images[1])]
    assert torch.equal(batch_images(mixed, STEPS, "cpu", torch.float32), expected)
    covers = [torch.zeros(1, 32, 32, dtype=torch.uint8) for _ in images]
    covers[0][:, 3:9, 20:] = 255
    masked = [torch.cat(parts) for parts in zip(prepared, covers, strict=True)]
    hidden = expected.clone()
    hidden[0, :, 3:9, 20:] = 0.0
    assert torch.equal(batch_images(masked, STEPS, "cpu", torch.float32), hidden)
    several = [prepared[0], masked[0], STEPS(images[1]), masked[1], prepared[1]]
    together = torch.stack([expected[0], hidden[0], expected[1], expected[1], expected[1]])
    assert torch.equal(batch_images(several, STEPS, "cpu", torch.float32), together)
    half = batch_images(prepared, STEPS, "cpu", torch.bfloat16)
    assert torch.equal(half, expected.bfloat16())


@pytest.mark.parametrize(
    ("resize", "crop", "fits"),
    [(32, (32, 32), True), (32, (33, 20), False), ((8, 9), (8, 9), True), ((8, 9), (9, 8), False)],
)
def test_what_fits(resize: int | tuple[int, int], crop: tuple[int, int], fits: bool) -> None:
    assert ImageTransform(resize, crop, Image.Resampling.BICUBIC, (0,), (1,)).fits() is fits


def test_describe() -> None:
    assert STEPS.describe() == (
        "RGB, resized (bicubic) shorter side to 32, middle 32×32 cropped, normalised"
    )
