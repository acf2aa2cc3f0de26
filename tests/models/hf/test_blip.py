from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import CardProvider, Encoder, ImagePreparer, Matcher, TokenCounter
from tests.models.hf.small_fusion import (
    CAPTIONS,
    bert_tokenizer,
    count_calls,
    forget_weights,
    hf,
    one_by_one,
    opened,
    picture,
    same,
    saved,
)

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


def test_it_can_do_both(model: Any) -> None:
    for protocol in (Matcher, Encoder, ImagePreparer, TokenCounter, CardProvider):
        assert isinstance(model, protocol)


def test_itm_is_the_librarys(folder: Path, model: Any) -> None:
    logits = model.match(IMAGES, CAPTIONS)
    pairs = [direct(folder, i, t, itm=True) for i, t in zip(IMAGES, CAPTIONS, strict=True)]
    assert logits.dtype == torch.float32
    same(logits, torch.stack([p[1] - p[0] for p in pairs]))
    chances = torch.stack([pair.softmax(dim=0)[1] for pair in pairs])
    same(logits.sigmoid(), chances)
    assert logits.std() > 0.05  # the images and captions matter


def test_itc_is_the_librarys(folder: Path, model: Any) -> None:
    images, texts = model.embed_images(IMAGES), model.embed_texts(CAPTIONS)
    pairs = [direct(folder, i, t, itm=False)[0] for i, t in zip(IMAGES, CAPTIONS, strict=True)]
    same((images * texts).sum(dim=1), torch.stack(pairs))
    torch.testing.assert_close(images.norm(dim=1), torch.ones(4))
    torch.testing.assert_close(texts.norm(dim=1), torch.ones(4))


def test_neighbours_change_nothing(model: Any) -> None:
    same(model.match(IMAGES, CAPTIONS), one_by_one(model, IMAGES, CAPTIONS))
    alone = torch.cat([model.embed_texts([text]) for text in CAPTIONS])
    same(model.embed_texts(CAPTIONS), alone)


def test_an_image_that_comes_again_is_looked_at_once(folder: Path) -> None:
    model = opened(folder)
    calls = count_calls(model.network.vision_model)
    first, second = IMAGES[:2]
    again = model.match([first, second, first, first], CAPTIONS)
    assert calls == [2]
    same(again, one_by_one(model, [first, second, first, first], CAPTIONS))


def test_prepared_images_are_as_good(model: Any) -> None:
    prepared = [model.prepare_image(image) for image in IMAGES]
    torch.testing.assert_close(model.match(prepared, CAPTIONS), model.match(IMAGES, CAPTIONS))


def test_half_precision_gives_numbers(folder: Path, model: Any) -> None:
    half = opened(folder, dtype="bf16")
    assert half.network.itm_head.weight.dtype == torch.bfloat16
    for found in (half.match(IMAGES, CAPTIONS), half.embed_images(IMAGES)):
        assert found.dtype == torch.float32
        assert found.isfinite().all()
    assert (half.match(IMAGES, CAPTIONS) - model.match(IMAGES, CAPTIONS)).abs().max() < 0.3
    assert half.fingerprint != model.fingerprint


def test_what_it_does_not_read_is_refused(folder: Path, model: Any) -> None:
    long = " ".join(["red"] * 40)
    with pytest.raises(InputError, match="a caption is empty"):
        model.match(IMAGES[:1], [" "])
    with pytest.raises(InputError, match="has 42 tokens and small reads 24"):
        model.match(IMAGES[:1], [long])
    with pytest.raises(InputError, match="2 images were given with 1 captions"):
        model.match(IMAGES[:2], CAPTIONS[:1])
    assert (model.context, model.cuts, model.token_counts([long])) == (24, False, [42])
    cutting = opened(folder, cut=True)
    assert cutting.cuts
    torch.testing.assert_close(
        cutting.match(IMAGES[:1], [long]), model.match(IMAGES[:1], [" ".join(["red"] * 22)])
    )


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


def test_a_head_that_was_never_trained_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, hf.BlipForImageTextRetrieval(config()), bert_tokenizer(), processor())
    forget_weights(tmp_path, "itm_head")
    with pytest.raises(InputError, match="no trained weights for 'itm_head"):
        opened(tmp_path)
