from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models.hf.small_fusion import CAPTIONS, bert_tokenizer, hf, opened, picture, same, saved

IMAGES = [picture(50, 40, 0), picture(33, 70, 1), picture(32, 32, 2), picture(90, 20, 3, "L")]


def config() -> Any:
    return hf.BlipConfig(
        text_config={
            "vocab_size": 40, "hidden_size": 32, "encoder_hidden_size": 24,
            "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 24, "bos_token_id": 1, "eos_token_id": 3,
            "sep_token_id": 3, "pad_token_id": 0,
        },
        vision_config={
            "hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 4, "image_size": 32, "patch_size": 8,
        },
        image_text_hidden_size=16,
    )  # fmt: skip


def processor() -> Any:
    return hf.BlipImageProcessorPil(size={"height": 32, "width": 32})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    network = hf.BlipForImageTextRetrieval(config())
    return saved(tmp_path_factory.mktemp("blip"), network, bert_tokenizer(), processor())


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return opened(folder)


def direct(folder: Path, image: Any, text: str, *, itm: bool) -> Tensor:
    """The library's own call on one pair."""
    network = hf.BlipForImageTextRetrieval.from_pretrained(folder).eval()
    words = bert_tokenizer()(text, return_token_type_ids=False, return_tensors="pt")
    pixels = processor()(image.convert("RGB"), return_tensors="pt")
    with torch.no_grad():
        score: Tensor = network(**words, **pixels, use_itm_head=itm).itm_score
    return score[0]


def test_itc_is_the_librarys(folder: Path, model: Any) -> None:
    images, texts = model.embed_images(IMAGES), model.embed_texts(CAPTIONS)
    pairs = [direct(folder, i, t, itm=False)[0] for i, t in zip(IMAGES, CAPTIONS, strict=True)]
    same((images * texts).sum(dim=1), torch.stack(pairs))
    torch.testing.assert_close(images.norm(dim=1), torch.ones(4))
    torch.testing.assert_close(texts.norm(dim=1), torch.ones(4))


def test_what_the_tokeniser_says_of_its_limits_and_padding(
    folder: Path, tmp_path: Path, model: Any
) -> None:
    """Its limit counts where it is the lower one; padding before the caption would move it."""
    tokenizer = bert_tokenizer(longest=10)
    tokenizer.padding_side = "left"
    network = hf.BlipForImageTextRetrieval.from_pretrained(folder)
    saved(tmp_path, network, tokenizer, processor(), randomise=False)
    other = opened(tmp_path)
    assert (other.context, model.context) == (10, 24)
    same(other.match(IMAGES[:2], CAPTIONS[:2]), model.match(IMAGES[:2], CAPTIONS[:2]))


def test_the_card(model: Any) -> None:
    card = model.card
    assert (card.family, card.dtype, card.context) == ("BLIP", "fp32", 24)
    assert card.parameters == sum(
        p.numel() for p in hf.BlipForImageTextRetrieval(config()).parameters()
    )
    assert "32×32" in card.preprocessing
    assert any("[ENC]" in note for note in card.notes)
