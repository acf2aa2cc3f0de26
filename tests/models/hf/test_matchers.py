"""Matchers of the transformers library: scores equal the library's, whatever the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import CardProvider, Encoder, ImagePreparer, Matcher, TokenCounter
from contrapose.models.conformance import check_model
from contrapose.models.hf.bridgetower import BridgeTowerForBoth
from tests.models.hf import test_blip, test_blip2, test_bridgetower, test_flava, test_vilt
from tests.models.hf.small_fusion import (
    CAPTIONS,
    bert_tokenizer,
    check_cut_captions,
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
LONG = " ".join(["red"] * 40)


@dataclass(frozen=True)
class Family:
    """A family of matchers: small configuration, and the library's call on one pair."""

    title: str
    config: Callable[[], Any]
    processor: Callable[..., Any]
    network: Any
    tower: str
    head: str
    note: str
    itm: Callable[[Any, Any, Any], Tensor]
    tokenizer: Callable[[], Any] = bert_tokenizer
    context: int = 24
    embeds: bool = True

    def save(self, folder: Path, network: Any = None, processor: Any = None) -> Path:
        new = self.network(self.config()) if network is None else network
        processor = processor or self.processor()
        return saved(folder, new, self.tokenizer(), processor, randomise=network is None)

    def inputs(self, image: Any, text: str) -> tuple[Any, Any]:
        arguments = {"return_token_type_ids": False} if self.title.startswith("BLIP") else {}
        words = self.tokenizer()(text, return_tensors="pt", **arguments)
        return words, self.processor()(image.convert("RGB"), return_tensors="pt")

    @torch.no_grad()
    def library_itm(self, folder: Path) -> list[Tensor]:
        both = self.network is BridgeTowerForBoth
        kind = hf.BridgeTowerForImageAndTextRetrieval if both else self.network
        network = kind.from_pretrained(folder).eval()
        pairs = zip(IMAGES, CAPTIONS, strict=True)
        return [self.itm(network, *self.inputs(image, text)) for image, text in pairs]


FAMILIES = {
    "blip": Family(
        "BLIP", test_blip.config, test_blip.processor, hf.BlipForImageTextRetrieval,
        "network.vision_model", "itm_head", "[ENC]",
        lambda net, words, pixels: net(**words, **pixels, use_itm_head=True).itm_score[0],
    ),
    "blip-2": Family(
        "BLIP-2", test_blip2.config, test_blip2.processor,
        hf.Blip2ForImageTextRetrieval, "network.vision_model", "itm_head", "one vector a query",
        lambda net, words, pixels: net(
            **words, **pixels, use_image_text_matching_head=True).logits_per_image[0],
    ),
    "flava": Family(
        "FLAVA", lambda: test_flava.config(codebook=True), test_flava.processor,
        hf.FlavaForPreTraining, "core.image_model", "flava.image_projection", "nothing is masked",
        lambda net, words, pixels: net(
            **words, **pixels, input_ids_masked=words["input_ids"], return_loss=False
        ).itm_logits[0],
    ),
    "vilt": Family(
        "ViLT", test_vilt.config, test_vilt.processor, hf.ViltForImageAndTextRetrieval,
        "network.vilt.embeddings.patch_embeddings", "rank_output", "ranking head",
        lambda net, words, pixels: net(**words, **pixels).logits[0], embeds=False,
    ),
    "bridgetower": Family(
        "BridgeTower", test_bridgetower.config, test_bridgetower.processor, BridgeTowerForBoth,
        "core.vision_model.visual.embeddings", "bridgetower.cross_modal_text_pooler", "50 tokens",
        lambda net, words, pixels: net(**words, **pixels).logits[0],
        tokenizer=roberta_tokenizer, context=80,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: family.save(tmp_path_factory.mktemp(name)) for name, family in FAMILIES.items()}


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> dict[str, Any]:
    return {name: opened(folder) for name, folder in folders.items()}


@pytest.fixture(params=FAMILIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(folders: dict[str, Path], name: str) -> Path:
    return folders[name]


@pytest.fixture
def model(models: dict[str, Any], name: str) -> Any:
    return models[name]


def test_it_conforms(folder: Path) -> None:
    assert not check_model(opened(folder), load=lambda: opened(folder)).failed


def test_cut_captions_conform(folder: Path) -> None:
    check_cut_captions(lambda: opened(folder, cut=True))


def test_capabilities_and_card(model: Any, name: str) -> None:
    family = FAMILIES[name]
    for protocol in (Matcher, ImagePreparer, TokenCounter, CardProvider):
        assert isinstance(model, protocol)
    assert isinstance(model, Encoder) == family.embeds
    assert (model.card.family, model.card.context) == (family.title, family.context)
    assert any(family.note in note for note in model.card.notes)


def test_itm_is_the_librarys(folder: Path, model: Any, name: str) -> None:
    logits = model.match(IMAGES, CAPTIONS)
    pairs = FAMILIES[name].library_itm(folder)
    assert logits.dtype == torch.float32
    wanted = [pair[0] if len(pair) == 1 else pair[1] - pair[0] for pair in pairs]
    same(logits, torch.stack(wanted))
    if len(pairs[0]) == 2:
        same(logits.sigmoid(), torch.stack([pair.softmax(dim=0)[1] for pair in pairs]))
    assert logits.std() > 0.02  # images and captions matter


def test_the_batch_changes_nothing(model: Any, name: str) -> None:
    same(model.match(IMAGES, CAPTIONS), one_by_one(model, IMAGES, CAPTIONS))
    if FAMILIES[name].embeds:
        alone = torch.cat([model.embed_texts([text]) for text in CAPTIONS])
        same(model.embed_texts(CAPTIONS), alone)


def test_a_repeated_image_is_encoded_once(folder: Path, name: str) -> None:
    model = opened(folder)
    calls = count_calls(attrgetter(FAMILIES[name].tower)(model))
    first = IMAGES[0]
    images = [first, picture(50, 40, 9), first, first]
    again = model.match(images, CAPTIONS)
    assert calls == [2]
    same(again, one_by_one(model, images, CAPTIONS))


def test_prepared_images_score_as_images(model: Any) -> None:
    prepared = [model.prepare_image(image) for image in IMAGES]
    torch.testing.assert_close(model.match(prepared, CAPTIONS), model.match(IMAGES, CAPTIONS))


def test_half_precision(folder: Path, model: Any, name: str) -> None:
    # The library keeps the Q-Former of BLIP-2 in float32 under fp16.
    for dtype in ("bf16", "fp16") if name == "blip-2" else ("bf16",):
        half = opened(folder, dtype=dtype)
        outputs = [half.match(IMAGES, CAPTIONS)]
        if FAMILIES[name].embeds:
            outputs += [half.embed_images(IMAGES), half.embed_texts(CAPTIONS)]
        for output in outputs:
            assert output.dtype == torch.float32
            assert output.isfinite().all()
        assert (outputs[0] - model.match(IMAGES, CAPTIONS)).abs().max() < 0.3
        assert half.fingerprint != model.fingerprint


def test_unreadable_captions_are_refused(folder: Path, model: Any, name: str) -> None:
    context = FAMILIES[name].context
    long = "a" * (context - 1) if name == "bridgetower" else LONG
    (count,) = model.token_counts([long])
    assert (model.context, model.cuts) == (context, False)
    with pytest.raises(InputError, match="empty"):
        model.match(IMAGES[:1], [" "])
    with pytest.raises(InputError, match=f"{count} tokens.*reads {context}"):
        model.match(IMAGES[:1], [long])
    with pytest.raises(InputError, match=r"1 images .* 2 captions"):
        model.match(IMAGES[:1], CAPTIONS[:2])
    cutting = opened(folder, cut=True)
    assert cutting.cuts
    fits = "a" * (context - 2) if name == "bridgetower" else " ".join(["red"] * (context - 2))
    assert model.token_counts([fits]) == [context]
    torch.testing.assert_close(cutting.match(IMAGES[:1], [long]), model.match(IMAGES[:1], [fits]))


def test_missing_weights_are_refused(folder: Path, tmp_path: Path, name: str) -> None:
    copied = copytree(folder, tmp_path / "copy")
    forget_weights(copied, FAMILIES[name].head)
    with pytest.raises(InputError, match=f"no trained weights for '{FAMILIES[name].head}"):
        opened(copied)
