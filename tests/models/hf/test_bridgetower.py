from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from contrapose.errors import InputError
from contrapose.models import Encoder, Matcher
from contrapose.models.hf.bridgetower import BridgeTowerForBoth
from tests.models.hf.small_fusion import (
    CAPTIONS,
    forget_weights,
    hf,
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
