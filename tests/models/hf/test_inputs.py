"""Captions and pictures as networks take them, to the last bit what the library makes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import (
    BlipImageProcessorPil,
    CLIPImageProcessorPil,
    EfficientNetImageProcessorPil,
    SiglipImageProcessorPil,
    ViTImageProcessorPil,
)

from contrapose.errors import InputError
from contrapose.models.hf.inputs import ImageInputs, TextInputs, build_transform
from tests.models.hf.small import CAPTIONS, LONG, bert_tokenizer, clip_tokenizer, pictures

PROCESSORS = (
    CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
    CLIPImageProcessorPil(size={"shortest_edge": 37}, crop_size={"height": 32, "width": 28}),
    SiglipImageProcessorPil(size={"height": 32, "width": 40}),
    BlipImageProcessorPil(size={"height": 24, "width": 24}, resample=Image.Resampling.LANCZOS),
    ViTImageProcessorPil(size={"height": 33, "width": 33}, resample=Image.Resampling.BILINEAR),
)


def noise(height: int, width: int, mode: str, seed: int) -> Image.Image:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values).convert(mode)


@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda each: type(each).__name__)
@settings(deadline=None, max_examples=60)
@given(
    height=st.integers(1, 120),
    width=st.integers(1, 120),
    mode=st.sampled_from(["RGB", "L", "RGBA", "CMYK"]),
    seed=st.integers(0, 9),
)
def test_pixels_are_the_library_s_to_the_last_bit(
    processor: Any, height: int, width: int, mode: str, seed: int
) -> None:
    image = noise(height, width, mode, seed)
    steps = build_transform(processor)
    assert steps is not None
    theirs = processor(images=image.convert("RGB"), return_tensors="pt")["pixel_values"][0]
    ours = ImageInputs(processor).stack([image], "cpu", torch.float32)["pixel_values"][0]
    assert torch.equal(ours, theirs)
    assert torch.equal(steps(image), ours)


def test_a_photo_of_the_usual_size() -> None:
    processor = CLIPImageProcessorPil()
    for size in ((480, 640), (640, 480), (427, 640), (640, 425)):
        image = noise(*size, "RGB", 3)
        theirs = processor(images=image, return_tensors="pt")["pixel_values"]
        ours = ImageInputs(processor).stack([image], "cpu", torch.float32)["pixel_values"]
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    "processor",
    [
        EfficientNetImageProcessorPil(),
        CLIPImageProcessorPil(do_normalize=False),
        CLIPImageProcessorPil(do_rescale=False),
        CLIPImageProcessorPil(rescale_factor=1 / 127.5),
        CLIPImageProcessorPil(size={"shortest_edge": 20}, crop_size={"height": 32, "width": 32}),
        CLIPImageProcessorPil(size={"shortest_edge": 32, "longest_edge": 64}),
    ],
)
def test_anything_unusual_is_left_to_the_library(processor: Any) -> None:
    assert build_transform(processor) is None
    image = pictures()[0]
    theirs = processor(images=image, return_tensors="pt")["pixel_values"]
    handled = ImageInputs(processor)
    ours = handled.stack([image], "cpu", torch.float32)["pixel_values"]
    assert torch.equal(ours, theirs.float())
    assert type(processor).__name__ in handled.describe()


def test_threads_may_prepare_at_once() -> None:
    handled = ImageInputs(PROCESSORS[0])
    images = [noise(60, 80, "RGB", seed) for seed in range(16)]
    with ThreadPoolExecutor(4) as pool:
        found: list[Any] = list(pool.map(handled.prepare, images))
    for image, one in zip(images, found, strict=True):
        expected: Any = handled.prepare(image)
        assert torch.equal(one, expected)


def test_smaller_images_are_filled_up() -> None:
    class Both:
        def __call__(self, image: Image.Image, return_tensors: str) -> dict[str, torch.Tensor]:
            pixels = torch.ones(1, 3, image.height, image.width)
            return {"pixel_values": pixels, "pixel_mask": pixels[:, 0].long()}

    handled = ImageInputs(Both())
    batch = handled.stack([noise(4, 6, "RGB", 0), noise(5, 3, "RGB", 1)], "cpu", torch.bfloat16)
    assert batch["pixel_values"].shape == (2, 3, 5, 6)
    assert batch["pixel_values"].dtype == torch.bfloat16
    assert batch["pixel_mask"].dtype == torch.int64
    assert batch["pixel_mask"].sum(dim=(1, 2)).tolist() == [24, 15]
    assert batch["pixel_values"][1, :, :, 3:].sum() == 0


@pytest.mark.parametrize("padding", ["longest", "max_length"])
def test_tokens_are_the_library_s(padding: Any) -> None:
    for tokenizer, context in ((clip_tokenizer(), 77), (bert_tokenizer(), 64)):
        captions = TextInputs("m", tokenizer, context, cut=False, padding=padding)
        ours = captions.tensors(CAPTIONS, "cpu")
        theirs = tokenizer(list(CAPTIONS), padding=padding, max_length=context, return_tensors="pt")
        assert ours.keys() == theirs.keys()
        for name, values in theirs.items():
            assert torch.equal(ours[name], values)
        assert captions.counts(CAPTIONS) == theirs["attention_mask"].sum(dim=1).tolist()
    assert captions.counts([]) == []


@pytest.mark.parametrize("side", ["left", "right"])
def test_long_captions_are_cut_as_the_library_cuts(side: str) -> None:
    tokenizer: Any = bert_tokenizer()
    tokenizer.padding_side = side
    captions = TextInputs("m", tokenizer, 20, cut=True, padding="longest")
    ours = captions.tensors(["a dog", LONG], "cpu")
    theirs = tokenizer(
        ["a dog", LONG], padding=True, truncation=True, max_length=20, return_tensors="pt"
    )
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert captions.counts([LONG])[0] > 20


def test_what_cannot_be_read_is_refused() -> None:
    captions = TextInputs("m", bert_tokenizer(), 20, cut=False, padding="longest")
    with pytest.raises(InputError, match=r"^a caption is empty\.$"):
        captions.tensors(["a dog", " "], "cpu")
    with pytest.raises(InputError, match="m reads nothing in the caption"):
        captions.tensors(["\u200b\u0000"], "cpu")
    with pytest.raises(InputError, match="tokens and m reads 20: shorten it"):
        captions.tensors([LONG], "cpu")
    exact = "a " * 18
    assert captions.counts([exact]) == [20]
    assert captions.tensors([exact], "cpu")["input_ids"].shape == (1, 20)


def test_threads_may_count_while_others_tokenise() -> None:
    captions = TextInputs("m", clip_tokenizer(), 77, cut=True, padding="longest")
    texts = [f"{word} {LONG}"[:length] for length in (9, 50, 400) for word in ("a", "the")]
    expected = captions.counts(texts)

    def both(_: int) -> list[int]:
        captions.tensors(texts, "cpu")
        return captions.counts(texts)

    with ThreadPoolExecutor(4) as pool:
        assert all(found == expected for found in pool.map(both, range(20)))
