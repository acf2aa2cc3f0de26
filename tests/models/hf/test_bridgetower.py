from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import CardProvider, Encoder, ImagePreparer, Matcher, TokenCounter
from contrapose.models.hf.bridgetower import BridgeTowerForBoth
from tests.models.hf.small_fusion import (
    CAPTIONS,
    count_calls,
    forget_weights,
    hf,
    one_by_one,
    opened,
    picture,
    roberta_tokenizer,
    same,
    saved,
)

IMAGES = [picture(50, 40, 0), picture(33, 70, 1), picture(32, 32, 2), picture(90, 20, 3, "L")]


def config(**changes: Any) -> Any:
    return hf.BridgeTowerConfig(
        hidden_size=64, num_hidden_layers=3, num_attention_heads=4, contrastive_hidden_size=16,
        logit_scale_init_value=2.6,
        text_config={
            "vocab_size": 270, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
            "num_attention_heads": 4, "max_position_embeddings": 82,
        },
        vision_config={
            "hidden_size": 64, "num_hidden_layers": 4, "image_size": 32, "patch_size": 8,
        },
        **changes,
    )  # fmt: skip


def processor() -> Any:
    return hf.BridgeTowerImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"shortest_edge": 32}, size_divisor=8
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All heads in one file, as the released large model has them."""
    network = BridgeTowerForBoth(config())
    return saved(tmp_path_factory.mktemp("bridgetower"), network, roberta_tokenizer(), processor())


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return opened(folder)


def direct(folder: Path, image: Any, text: str, kind: Any) -> Any:
    """The library's own call on one pair."""
    network = kind.from_pretrained(folder).eval()
    words = roberta_tokenizer()(text, return_tensors="pt")
    pixels = processor()(image.convert("RGB"), return_tensors="pt")
    with torch.no_grad():
        return network(**words, **pixels)


def test_it_can_do_both(model: Any) -> None:
    for protocol in (Matcher, Encoder, ImagePreparer, TokenCounter, CardProvider):
        assert isinstance(model, protocol)


def test_itm_is_the_librarys(folder: Path, model: Any) -> None:
    logits = model.match(IMAGES, CAPTIONS)
    pairs: list[Tensor] = [
        direct(folder, i, t, hf.BridgeTowerForImageAndTextRetrieval).logits[0]
        for i, t in zip(IMAGES, CAPTIONS, strict=True)
    ]
    assert logits.dtype == torch.float32
    same(logits, torch.stack([p[1] - p[0] for p in pairs]))
    chances = torch.stack([pair.softmax(dim=0)[1] for pair in pairs])
    same(logits.sigmoid(), chances)
    assert logits.std() > 0.05


def test_itc_is_the_librarys(folder: Path, model: Any) -> None:
    images, texts = model.embed_images(IMAGES), model.embed_texts(CAPTIONS)
    assert images.shape == texts.shape == (4, 16)
    for i, (image, text) in enumerate(zip(IMAGES, CAPTIONS, strict=True)):
        found = direct(folder, image, text, hf.BridgeTowerForContrastiveLearning)
        same(images[i], found.image_embeds[0])
        same(texts[i], found.text_embeds[0])


def test_layers_with_projections_of_their_own(tmp_path: Path) -> None:
    network = hf.BridgeTowerForImageAndTextRetrieval(
        config(share_cross_modal_transformer_layers=False, link_tower_type="interpolate")
    )
    saved(tmp_path, network, roberta_tokenizer(), processor())
    found = direct(tmp_path, IMAGES[0], CAPTIONS[0], hf.BridgeTowerForImageAndTextRetrieval).logits[
        0
    ]
    ours = opened(tmp_path).match(IMAGES[:1], CAPTIONS[:1])[0]
    same(ours, found[1] - found[0])


def test_neighbours_change_nothing(model: Any) -> None:
    same(model.match(IMAGES, CAPTIONS), one_by_one(model, IMAGES, CAPTIONS))
    alone = torch.cat([model.embed_texts([text]) for text in CAPTIONS])
    same(model.embed_texts(CAPTIONS), alone)


def test_an_image_that_comes_again_is_looked_at_once(folder: Path) -> None:
    model = opened(folder)
    calls = count_calls(model.core.vision_model.visual.embeddings)
    first, second = IMAGES[:2]
    again = model.match([first, second, first, first], CAPTIONS)
    assert calls == [2]
    same(again, one_by_one(model, [first, second, first, first], CAPTIONS))


def test_prepared_images_are_as_good(model: Any) -> None:
    prepared = [model.prepare_image(image) for image in IMAGES]
    torch.testing.assert_close(model.match(prepared, CAPTIONS), model.match(IMAGES, CAPTIONS))


def test_half_precision_gives_numbers(folder: Path, model: Any) -> None:
    half = opened(folder, dtype="bf16")
    for found in (half.match(IMAGES, CAPTIONS), half.embed_images(IMAGES)):
        assert found.dtype == torch.float32
        assert found.isfinite().all()
    assert (half.match(IMAGES, CAPTIONS) - model.match(IMAGES, CAPTIONS)).abs().max() < 0.3


def test_what_it_does_not_read_is_refused(model: Any) -> None:
    assert model.context == 80  # positions begin after the number of the padding token
    longest = "a" * 78
    assert model.token_counts([longest]) == [80]
    assert model.match(IMAGES[:1], [longest]).isfinite().all()
    with pytest.raises(InputError, match="has 81 tokens and small reads 80"):
        model.match(IMAGES[:1], [longest + "a"])
    with pytest.raises(InputError, match="a caption is empty"):
        model.match(IMAGES[:1], [""])
    with pytest.raises(InputError, match="1 images were given with 2 captions"):
        model.match(IMAGES[:1], CAPTIONS[:2])


def test_what_the_files_hold_decides_what_it_can_do(folder: Path, tmp_path: Path) -> None:
    matcher, encoder, bare = (tmp_path / name for name in ("matcher", "encoder", "bare"))
    for place, kind in (
        (matcher, hf.BridgeTowerForImageAndTextRetrieval),
        (encoder, hf.BridgeTowerForContrastiveLearning),
        (bare, hf.BridgeTowerModel),
    ):
        saved(
            place, kind.from_pretrained(folder), roberta_tokenizer(), processor(), randomise=False
        )
    whole, matching, embedding = opened(folder), opened(matcher), opened(encoder)
    assert isinstance(matching, Matcher)
    assert not isinstance(matching, Encoder)
    assert isinstance(embedding, Encoder)
    assert not isinstance(embedding, Matcher)
    torch.testing.assert_close(matching.match(IMAGES, CAPTIONS), whole.match(IMAGES, CAPTIONS))
    torch.testing.assert_close(embedding.embed_images(IMAGES), whole.embed_images(IMAGES))
    with pytest.raises(InputError, match="no trained weights for 'itm_score"):
        opened(bare)


def test_weights_that_were_never_trained_are_refused(tmp_path: Path) -> None:
    network = hf.BridgeTowerForContrastiveLearning(config())
    saved(tmp_path, network, roberta_tokenizer(), processor())
    forget_weights(tmp_path, "itc_text_head")
    with pytest.raises(InputError, match="no trained weights for 'itc_text_head"):
        opened(tmp_path)


def test_the_card(model: Any) -> None:
    assert (model.card.family, model.card.context) == ("BridgeTower", 80)
    assert "shorter side to 32, both sides multiples of 8" in model.card.preprocessing
    assert "middle 32×32 cropped" in model.card.preprocessing
