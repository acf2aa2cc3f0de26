"""Models that answer questions: `vqa` is log P of the answer by the library's own networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models.capabilities import Answerer, Captioner, ImageCacher, QuestionTemplate
from contrapose.models.conformance import check_model
from tests.models.hf.small_captioners import (
    FAMILIES,
    IMAGE,
    IMAGES,
    QUERIES,
    Family,
    blip2_config,
    blip_config,
    opt_tokenizer,
    pixels,
    t5_tokenizer,
)
from tests.models.hf.small_fusion import (
    CAPTIONS,
    bert_tokenizer,
    check_cut_captions,
    count_calls,
    hf,
    opened,
    same,
)

QUESTION = QuestionTemplate("is the {} left of a red dog", "two cats")
"""Of words that the small tokeniser knows; the answer has several tokens."""


def _blip(network: Any, image: Any, question: QuestionTemplate, text: str) -> Tensor:
    tokenizer = bert_tokenizer()
    asked = tokenizer(question.about(text), return_token_type_ids=False, return_tensors="pt")
    labels = tokenizer(question.answer, return_tensors="pt")["input_ids"]
    labels[:, 0] = network.config.text_config.bos_token_id
    network.text_decoder.label_smoothing = 0.0
    targets = labels.clone()
    targets[:, -1] = -100
    found = network(**asked, pixel_values=pixels(image), decoder_input_ids=labels, labels=targets)
    loss: Tensor = found.loss * (labels.shape[1] - 2)
    return -loss


def _opt(network: Any, image: Any, question: QuestionTemplate, text: str) -> Tensor:
    whole = f"Question: {question.about(text)} Answer: {question.answer}"
    words = opt_tokenizer()(whole)["input_ids"]
    count = len(opt_tokenizer()(f" {question.answer}", add_special_tokens=False)["input_ids"])
    tokens = torch.tensor([[*[IMAGE] * QUERIES, *words]])
    labels = tokens.clone()
    labels[:, :-count] = -100
    found = network(pixel_values=pixels(image), input_ids=tokens, labels=labels)
    loss: Tensor = found.loss
    return -loss * count


def _t5(network: Any, image: Any, question: QuestionTemplate, text: str) -> Tensor:
    asked = t5_tokenizer()(f"Question: {question.about(text)} Short answer:")["input_ids"]
    labels = torch.tensor([t5_tokenizer()(question.answer)["input_ids"][:-1]])
    tokens = torch.tensor([[*[IMAGE] * QUERIES, *asked]])
    found = network(pixel_values=pixels(image), input_ids=tokens, labels=labels)
    loss: Tensor = found.loss
    return -loss * labels.shape[1]


def _equal() -> Any:
    """Its decoder looks at questions as its encoder does at images: both are of one width."""
    return blip_config(hidden_size=24)


@dataclass(frozen=True)
class Asked:
    """A family, and what the library says of one pair."""

    family: Family
    direct: Callable[[Any, Any, QuestionTemplate, str], Tensor]


KINDS = {
    "blip": Asked(
        Family(hf.BlipForQuestionAnswering, _equal, bert_tokenizer, FAMILIES["blip"].direct),
        _blip,
    ),
    "blip-2 opt": Asked(FAMILIES["blip-2 opt"], _opt),
    "blip-2 t5": Asked(FAMILIES["blip-2 t5"], _t5),
}
FOLDERS: dict[str, Path] = {}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    name = str(request.param)
    if name not in FOLDERS:
        FOLDERS[name] = KINDS[name].family.save(tmp_path_factory.mktemp("answerer"))
    return name


@pytest.fixture
def model(kind: str) -> Any:
    return opened(FOLDERS[kind])


def test_what_it_can_do(kind: str, model: Any) -> None:
    assert isinstance(model, Answerer)
    assert isinstance(model, ImageCacher)
    assert isinstance(model, Captioner) == (kind != "blip")


def test_vqa_is_the_librarys(kind: str, model: Any) -> None:
    network = KINDS[kind].family.library(FOLDERS[kind])
    pairs = [(image, text) for image in IMAGES[:2] for text in CAPTIONS]
    found = model.answer_logprobs(
        [image for image, _ in pairs], [text for _, text in pairs], QUESTION
    )
    assert found.dtype == torch.float32
    with torch.no_grad():
        wanted = [KINDS[kind].direct(network, image, QUESTION, text) for image, text in pairs]
    same(found, torch.stack(wanted))
    assert found.std() > 0.01


def test_looked_images_are_as_good_and_seen_once(model: Any) -> None:
    wanted = model.answer_logprobs(IMAGES, CAPTIONS, QUESTION)
    looked = model.encode_images(IMAGES)
    calls = count_calls(model.network.vision_model)
    same(model.answer_logprobs(looked, CAPTIONS, QUESTION), wanted)
    assert calls == []
    mixed = [looked[0], IMAGES[1], looked[2], IMAGES[3]]
    same(model.answer_logprobs(mixed, CAPTIONS, QUESTION), wanted)
    assert calls == [2]
    first = model.answer_logprobs([IMAGES[0]] * 4, CAPTIONS, QUESTION)
    assert calls == [2, 1]
    same(first, model.answer_logprobs([looked[0]] * 4, CAPTIONS, QUESTION))


def test_what_it_cannot_be_asked(model: Any) -> None:
    with pytest.raises(InputError, match="2 images were given with 1 captions"):
        model.answer_logprobs(IMAGES[:2], CAPTIONS[:1], QUESTION)
    with pytest.raises(InputError, match="a caption is empty"):
        model.answer_logprobs(IMAGES[:1], [" "], QUESTION)
    with pytest.raises(InputError, match="reads nothing in the answer ''"):
        model.answer_logprobs(IMAGES[:1], CAPTIONS[:1], QuestionTemplate("{}?", ""))


def test_a_question_that_is_too_long_is_refused(kind: str, model: Any) -> None:
    """The caption alone would be read. T5's positions are relative: there is no limit."""
    question = QuestionTemplate("a red cube " * 40 + "{}", "two")
    if kind == "blip-2 t5":
        assert model.answer_logprobs(IMAGES[:1], CAPTIONS[:1], question).isfinite().all()
        return
    with pytest.raises(InputError, match="use a shorter question or caption"):
        model.answer_logprobs(IMAGES[:1], CAPTIONS[:1], question)


def test_half_precision_gives_numbers(kind: str, model: Any) -> None:
    half = opened(FOLDERS[kind], dtype="bf16")
    found = half.answer_logprobs(IMAGES, CAPTIONS, QUESTION)
    assert found.dtype == torch.float32
    assert (found - model.answer_logprobs(IMAGES, CAPTIONS, QUESTION)).abs().max() < 1


def test_blip_conforms(tmp_path: Path) -> None:
    folder = KINDS["blip"].family.save(tmp_path)
    assert not check_model(opened(folder), load=lambda: opened(folder)).failed
    check_cut_captions(lambda: opened(folder, cut=True))


def test_another_language_model_is_refused(tmp_path: Path) -> None:
    family = FAMILIES["blip-2 opt"]
    other = Family(family.kind, lambda: blip2_config("bloom"), opt_tokenizer, family.direct)
    other.save(tmp_path)
    with pytest.raises(InputError, match="a language model of type 'bloom'"):
        opened(tmp_path)
