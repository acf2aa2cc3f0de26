"""Resizing by matrix products against Pillow's own, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from PIL.Image import Resampling

from contrapose.models import resizing
from contrapose.models.image_transform import ImageTransform, batch_images
from contrapose.models.resizing import KERNELS, resize_like_pillow


def noise(height: int, width: int, seed: int) -> NDArray[np.uint8]:
    """Random bytes with black and white among them, so that sums leave the range of bytes."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    values[rng.random(values.shape) < 0.3] = 255
    values[rng.random(values.shape) < 0.3] = 0
    return values


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 90),
    st.integers(1, 90),
    st.integers(1, 60),
    st.integers(1, 60),
    st.sampled_from(list(KERNELS)),
    st.data(),
)
def test_equal_to_pillow(
    height: int, width: int, rows: int, columns: int, resample: Resampling, data: st.DataObject
) -> None:
    top, left = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    bottom, right = data.draw(st.integers(top + 1, rows)), data.draw(st.integers(left + 1, columns))
    values = noise(height, width, data.draw(st.integers(0, 9)))
    expected = Image.fromarray(values).resize((columns, rows), resample)
    box = (top, left, bottom, right)
    image, cpu = Image.fromarray(values), torch.device("cpu")
    for _ in range(2):  # the first finds the order of the passes, the second uses it
        found = resize_like_pillow(image, (rows, columns), box, resample, cpu)
        assert found is not None
        assert found.dtype == torch.uint8
        cropped = np.array(expected.crop((left, top, right, bottom)))
        assert np.array_equal(found.permute(1, 2, 0).numpy(), cropped)


@pytest.mark.parametrize("size", [(480, 640), (640, 427), (333, 500), (224, 224), (1200, 1600)])
def test_photographs_of_usual_sizes(size: tuple[int, int]) -> None:
    values = noise(*size, seed=1)
    short = 224 / min(size)
    rows, columns = int(size[0] * short), int(size[1] * short)
    image, box = Image.fromarray(values), (0, 0, rows, columns)
    found = resize_like_pillow(image, (rows, columns), box, Resampling.BICUBIC, torch.device("cpu"))
    assert found is not None
    expected = image.resize((columns, rows), Resampling.BICUBIC)
    assert np.array_equal(found.permute(1, 2, 0).numpy(), np.array(expected))


def test_a_size_that_pillow_resizes_otherwise_is_left_to_pillow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resizing, "PRECISION", 6)
    monkeypatch.setattr(resizing, "_passes", {})
    resizing.build_weights.cache_clear()
    resizing._place_weights.cache_clear()
    image, box = Image.fromarray(noise(30, 41, seed=3)), (0, 0, 17, 19)
    for _ in range(2):
        cpu = torch.device("cpu")
        assert resize_like_pillow(image, (17, 19), box, Resampling.BICUBIC, cpu) is None
    resizing.build_weights.cache_clear()
    resizing._place_weights.cache_clear()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_batches_resized_on_a_gpu_are_those_of_the_cpu() -> None:
    steps = ImageTransform(32, (32, 32), Resampling.BICUBIC, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    images = [Image.fromarray(noise(40 + i, 64 - i, seed=i)) for i in range(9)]
    on_gpu = [steps.resize_to_bytes(image, "cuda") for image in images]
    assert all(row.is_cuda for row in on_gpu)
    on_cpu = [steps.resize_to_bytes(image) for image in images]
    mixed = [*on_gpu[:4], *on_cpu[4:]]
    for rows in (on_gpu, mixed):
        batch = batch_images(rows, steps, "cuda", torch.float32)
        assert torch.equal(batch, batch_images(on_cpu, steps, "cuda", torch.float32))
