from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from tests.models.hf.small_fusion import (
    CAPTIONS,
    bert_tokenizer,
    count_calls,
    hf,
    one_by_one,
    opened,
    picture,
    same,
    saved,
)

IMAGES = [picture(50, 40, 0), picture(33, 70, 1), picture(48, 48, 2), picture(90, 45, 3, "L")]


def config(longest: int = -1) -> Any:
    return hf.ViltConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=24, image_size=48, patch_size=8,
        max_image_length=longest,
    )  # fmt: skip


def processor() -> Any:
    return hf.ViltImageProcessorPil(size={"shortest_edge": 48}, size_divisor=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    network = hf.ViltForImageAndTextRetrieval(config())
    return saved(tmp_path_factory.mktemp("vilt"), network, bert_tokenizer(), processor())


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return opened(folder)


def direct(folder: Path, image: Any, text: str) -> Tensor:
    """The library's own call on one pair."""
    network = hf.ViltForImageAndTextRetrieval.from_pretrained(folder).eval()
    words = bert_tokenizer()(text, return_tensors="pt")
    pixels = processor()(image.convert("RGB"), return_tensors="pt")
    with torch.no_grad():
        logits: Tensor = network(**words, **pixels).logits
    return logits[0, 0]


def test_itm_is_the_librarys(folder: Path, model: Any) -> None:
    shapes = {tuple(model.prepare_image(image).shape) for image in IMAGES}
    assert len(shapes) == 4
    assert model.resize_crop is None
    logits = model.match(IMAGES, CAPTIONS)
    pairs = [direct(folder, i, t) for i, t in zip(IMAGES, CAPTIONS, strict=True)]
    assert logits.dtype == torch.float32
    same(logits, torch.stack(pairs))
    assert logits.std() > 0.05


def test_it_never_throws_dice(model: Any) -> None:
    state = torch.get_rng_state()
    first = model.match(IMAGES, CAPTIONS)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(7)
    assert torch.equal(model.match(IMAGES, CAPTIONS), first)
    torch.set_rng_state(state)


def test_a_limit_of_patches_draws_none_at_random(folder: Path, tmp_path: Path, model: Any) -> None:
    network = hf.ViltForImageAndTextRetrieval.from_pretrained(folder)
    network.config.max_image_length = 10
    saved(tmp_path, network, bert_tokenizer(), processor(), randomise=False)
    assert torch.equal(opened(tmp_path).match(IMAGES, CAPTIONS), model.match(IMAGES, CAPTIONS))


def test_an_image_that_comes_again_is_cut_into_patches_once(folder: Path) -> None:
    model = opened(folder)
    calls = count_calls(model.network.vilt.embeddings.patch_embeddings)
    alike = picture(50, 40, 9)
    given = [IMAGES[0], alike, IMAGES[0], IMAGES[1]]
    again = model.match(given, CAPTIONS)
    assert calls == [2, 1]  # two images of one size, and one of another
    same(again, one_by_one(model, given, CAPTIONS))


@pytest.mark.parametrize("size", [(600, 4), (3, 500), (1, 1), (1, 9), (2000, 1)])
def test_images_that_are_too_narrow_for_the_library(model: Any, size: tuple[int, int]) -> None:
    """At 9 times as long as wide (79 ÷ 8) the library's resizing still leaves something."""
    narrow = picture(*size)
    pixels = model.prepare_image(narrow)
    assert min(pixels.shape[1:]) >= 8
    assert model.match([narrow], CAPTIONS[:1]).isfinite().all()
    if max(size) <= 9:
        assert torch.equal(pixels, processor()(narrow, return_tensors="pt")["pixel_values"][0])
    else:
        with pytest.raises(ValueError, match="Size"):
            processor()(narrow, return_tensors="pt")


def test_the_card(model: Any) -> None:
    assert (model.card.family, model.card.context) == ("ViLT", 24)
    assert "shorter side to 48" in model.card.preprocessing
    assert "multiples of 8" in model.card.preprocessing


def test_one_that_answers_questions_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, hf.ViltForQuestionAnswering(config()), bert_tokenizer(), processor())
    with pytest.raises(InputError, match=r"answers questions \(ViltForQuestionAnswering\)"):
        opened(tmp_path)
