"""Packed scoring is the library model's own, whole sequence by whole sequence."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.models.smolvlm import processing_smolvlm

from contrapose.errors import InputError
from contrapose.models.capabilities import (
    Answerer,
    Captioner,
    CardProvider,
    Chat,
    ImageCacher,
    ImagePreparer,
    QuestionTemplate,
    TokenCounter,
)
from contrapose.models.hf.vlm import model as vlm_model
from contrapose.models.hf.vlm.processors import SEVERAL_IMAGES
from contrapose.models.video_reader import FrameTiming, VideoReader
from tests.models.hf.vlm.small_vlm import CAPTIONS, FAMILIES, WHOLE, opened, picture

QUESTION = QuestionTemplate()
TIMING = FrameTiming((0.0, 1.0), 2.0, 1.0)


@pytest.fixture(scope="module", params=[*FAMILIES, *WHOLE])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    processing: Any = processing_smolvlm
    processing.num2words = processing.num2words or str  # its words are for video alone
    folder: Path = tmp_path_factory.mktemp(request.param)
    (FAMILIES | WHOLE)[request.param](folder)
    return opened(folder, video="images" if request.param in SEVERAL_IMAGES else None)


@pytest.fixture(scope="module")
def images() -> list[Any]:
    return [picture(48, 40), picture(40, 64, 1), picture(48, 40, 2)]


def whole(model: Any, image: Any, text: str, counted: int) -> tuple[Tensor, float]:
    """Log-probabilities of the last tokens of a text by the library alone, and its own loss."""
    images = image if isinstance(image, list) else [image]
    inputs = model._processor(
        images=images, text=[text], return_tensors="pt", add_special_tokens=not model.prompts.bare
    )
    labels = inputs["input_ids"].clone()
    labels[:, :-counted] = -100
    with torch.no_grad():
        found = model.network(**inputs, labels=labels)
    logprobs = found.logits[0, -counted - 1 : -1].log_softmax(dim=-1)
    return logprobs.gather(1, inputs["input_ids"][0, -counted:, None]).squeeze(1), float(found.loss)


def replied(model: Any, asked: str, said: str) -> str:
    """The chat template's text with a reply, as far as its last word."""
    return asked + (f" {said}" if asked.endswith(("ASSISTANT:", "[/INST]")) else said)


def each(ragged: Any) -> list[Tensor]:
    return [ragged.values[a:b] for a, b in pairwise(ragged.offsets)]


def test_it_is_packed_where_it_can_be(model: Any) -> None:
    assert (model._decoder is None) == (model.card.family in WHOLE)
    for kind in (Captioner, Answerer, Chat, ImageCacher, ImagePreparer, TokenCounter, CardProvider):
        assert isinstance(model, kind)


def test_lm_is_minus_the_loss_of_the_library(model: Any, images: list[Any]) -> None:
    order = [0, 1, 0, 2]
    found = each(model.token_logprobs([images[i] for i in order], CAPTIONS))
    for i, text, values in zip(order, CAPTIONS, found, strict=True):
        said = replied(model, model.prompts.text, text) + model.prompts.end_text
        wanted, loss = whole(model, images[i], said, len(values))
        torch.testing.assert_close(values, wanted, atol=1e-4, rtol=1e-4)
        assert float(values.mean()) == pytest.approx(-loss, abs=1e-4)
        assert (values < 0).all()


def test_frames_of_a_video_stand_in_one_turn(
    model: Any, images: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vlm_model, "VIDEO_CAPTION_TOKENS", 24)
    reads: bool = isinstance(model, VideoReader)
    assert reads
    assert (model.max_frames > 1) == (model.card.family in SEVERAL_IMAGES)
    if model.max_frames < 2:
        return
    frames = [images[0], images[2]]
    ready = model.prepare_video(frames, TIMING)
    asked = model.prompts.render_question(model.prompts.prompt, len(frames))
    for text, values in zip(
        CAPTIONS[:2], each(model.token_logprobs([ready] * 2, CAPTIONS[:2])), strict=True
    ):
        said = replied(model, asked, text) + model.prompts.end_text
        wanted, _ = whole(model, frames, said, len(values))
        torch.testing.assert_close(values, wanted, atol=1e-4, rtol=1e-4)
    with pytest.raises(InputError, match="50 frames take"):
        model.prepare_video(images[:1] * 50, TIMING)


def test_vqa_is_the_library_s_probability_of_the_answer(model: Any, images: list[Any]) -> None:
    shown = [images[0], images[0], images[1], images[1]]
    found = model.answer_logprobs(shown, CAPTIONS, QUESTION)
    for image, text, value in zip(shown, CAPTIONS, found, strict=True):
        asked = model.prompts.render_question(QUESTION.about(text))
        said = replied(model, asked, QUESTION.answer)
        tokens = model.prompts._tokenizer
        counted = len(tokens(said)["input_ids"]) - len(tokens(asked)["input_ids"])
        wanted, _ = whole(model, image, said, counted)
        torch.testing.assert_close(value, wanted.sum(), atol=1e-4, rtol=1e-4)


def test_an_image_that_was_looked_at_gives_the_same(model: Any, images: list[Any]) -> None:
    looked = model.encode_images(images[:2])
    order = [0, 1, 1, 0]
    for shown in ([looked[i] for i in order], [looked[0], images[1], looked[1], images[0]]):
        plain = [images[i] for i in order]
        found, wanted = (model.token_logprobs(sights, CAPTIONS) for sights in (shown, plain))
        torch.testing.assert_close(found.values, wanted.values, atol=1e-4, rtol=1e-4)
        assert list(found.offsets) == list(wanted.offsets)
        asked = [model.answer_logprobs(sights, CAPTIONS, QUESTION) for sights in (shown, plain)]
        torch.testing.assert_close(asked[0], asked[1], atol=1e-4, rtol=1e-4)


def test_whole_sequences_give_the_same(
    model: Any, images: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [images[0], images[1], images[0], images[2]]
    packed = model.token_logprobs(shown, CAPTIONS)
    asked = model.answer_logprobs(shown, CAPTIONS, QUESTION)
    monkeypatch.setattr(model, "_decoder", None)
    looked = model.encode_images(images[:1])[0]
    apart = model.token_logprobs([looked, *shown[1:]], CAPTIONS)
    torch.testing.assert_close(packed.values, apart.values, atol=1e-4, rtol=1e-4)
    again = model.answer_logprobs(shown, CAPTIONS, QUESTION)
    torch.testing.assert_close(asked, again, atol=1e-4, rtol=1e-4)


def test_an_image_goes_through_the_tower_once(model: Any, images: list[Any]) -> None:
    if model.card.family in WHOLE:
        pytest.skip("it is not packed")
    calls: list[Any] = []
    body = model.network.model
    tower = getattr(body, "vision_tower", None) or getattr(body, "visual", None)
    tower = tower or body.vision_model
    hook = tower.register_forward_pre_hook(lambda *given: calls.append(given))
    looked = model.encode_images(images[:1])
    assert len(calls) == 1
    model.token_logprobs(looked * 4, CAPTIONS)
    assert len(calls) == 1
    model.token_logprobs([images[0]] * 4, CAPTIONS)
    hook.remove()
    assert len(calls) == 2


def test_many_captions_of_one_image(
    model: Any, images: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"{text} {'red ' * (i % 5)}" for i in range(3) for text in CAPTIONS]
    shown = [images[0]] * len(texts)
    wanted = model.token_logprobs(shown, texts)
    monkeypatch.setattr("contrapose.models.hf.vlm.model.CACHE_THRESHOLD", 20)
    monkeypatch.setattr("contrapose.models.hf.vlm.prefix_scoring.ROW_TOKENS", 24)
    monkeypatch.setattr("contrapose.models.hf.vlm.prefix_scoring.ROWS", 2)
    found = model.token_logprobs(shown, texts)
    torch.testing.assert_close(found.values, wanted.values, atol=1e-4, rtol=1e-4)


def test_a_reply_is_the_likeliest(model: Any, images: list[Any]) -> None:
    from contrapose.models.capabilities import Prompt

    ready = model.prepare_image(images[0])
    one, again = model.reply([Prompt((images[0],), "Which?"), Prompt((ready,), "Which?")])
    assert (one.text, one.tokens_in) == (again.text, again.tokens_in)
    assert one.first == pytest.approx(again.first, abs=1e-4)
    assert 0 < one.tokens_out <= 32
    text = model.prompts.render_question("Which?")
    inputs = model._processor(
        images=[images[0]], text=[text], return_tensors="pt",
        add_special_tokens=not model.prompts.bare,
    )  # fmt: skip
    assert one.tokens_in == inputs["input_ids"].shape[1]
    with torch.no_grad():
        logits = model.network(**inputs).logits[0, -1].log_softmax(dim=-1)
    best = model.prompts._tokenizer.decode([int(logits.argmax())])
    assert max(one.first, key=lambda word: one.first[word]) == best
    assert one.first[best] == pytest.approx(float(logits.max()), abs=1e-4)
