"""Prompts of chat models: templates, answer ends, identities and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from contrapose.engine import (
    AnswerStore,
    NoiseImages,
    ScoringContext,
    compute_priors,
    describe_prior,
)
from contrapose.engine.priors import NoiseSource, noise_key_suffix
from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.capabilities import Prompt, QuestionTemplate
from tests.models.hf.vlm.small_vlm import CHATML, VICUNA, llava, opened, picture, qwen


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("llava")
    llava(folder)
    return opened(folder)


def test_a_folder_is_enough(tmp_path: Path) -> None:
    llava(tmp_path)
    model: Any = load_model(str(tmp_path))
    assert model.card.family == "llava"
    assert model.token_counts(["a red cube"]) == [4]


def test_the_prompt_and_the_template_are_in_the_identity(tmp_path: Path, model: Any) -> None:
    assert model.lm_tokens.startswith("caption+end|prompt=Describe this image in one sentence.|")
    llava(tmp_path, template=VICUNA.replace("ASSISTANT", "BOT"))
    other = opened(tmp_path)
    assert other.lm_tokens != model.lm_tokens
    assert other.fingerprint != model.fingerprint


def test_another_prompt_is_another_score(model: Any) -> None:
    images, texts = [picture(40, 40)] * 2, ["a red cube", "two dogs"]
    usual = model.token_logprobs(images, texts).values
    same = model.with_prompt(model.prompts.prompt)
    assert same.lm_tokens == model.lm_tokens
    assert torch.equal(same.token_logprobs(images, texts).values, usual)
    other = model.with_prompt("the blue ball is")
    assert other.network is model.network
    assert other.lm_tokens.startswith("caption+end|prompt=the blue ball is|template=")
    assert other.lm_tokens != model.lm_tokens
    assert "'the blue ball is'" in other.card.notes[0]
    found = other.token_logprobs(images, texts).values
    assert not torch.allclose(found, usual, atol=1e-4)
    inputs = model._processor(
        images=images[:1],
        text=[model.prompts.render_question("the blue ball is") + " two dogs</s>"],
        return_tensors="pt",
    )
    with torch.no_grad():
        logits = model.network(**inputs).logits[0, -4:-1].log_softmax(dim=-1)
    wanted = logits.gather(1, inputs["input_ids"][0, -3:, None]).squeeze(1)
    torch.testing.assert_close(found[-3:], wanted, atol=1e-4, rtol=1e-4)


def test_the_noise_can_be_set_and_is_in_the_score_s_name(tmp_path: Path, model: Any) -> None:
    store = AnswerStore(tmp_path)
    usual, wide = ScoringContext(model, store), NoiseImages(2, mean=1.0, std=0.5)
    source: Any = NoiseSource(usual, wide)
    shown = [source(k)["pixel_values"] for k in range(2)]
    assert float(torch.stack(shown).mean()) == pytest.approx(1.0, abs=0.05)
    assert float(torch.stack(shown).std()) == pytest.approx(0.5, abs=0.05)
    captions = ["a red cube", "two dogs"]
    one = compute_priors(replace(usual, prior=NoiseImages(2)), captions)
    other = compute_priors(replace(usual, prior=wide), captions)
    assert not np.allclose(one, other)
    same = compute_priors(replace(usual, prior=NoiseImages(2, mean=0.0, std=0.25)), captions)
    assert np.array_equal(one, same)
    tables = [folder.name for folder in next((tmp_path / "answers").iterdir()).iterdir()]
    assert len([name for name in tables if name.startswith("lm")]) == 2
    assert noise_key_suffix(NoiseImages(2), model) == ":noise:2:seed=0:mean=0:std=0.25"
    assert noise_key_suffix(wide, model) == ":noise:2:seed=0:mean=1:std=0.5"
    assert describe_prior(wide, model).endswith("mean 1, standard deviation 0.5")
    assert describe_prior(NoiseImages(2), model).endswith("mean 0, standard deviation 0.25")


def test_the_end_is_what_the_template_puts_there(tmp_path: Path, model: Any) -> None:
    assert model.prompts.end_text == "</s>"
    llava(tmp_path, template=CHATML)
    assert opened(tmp_path).prompts.end_text == "<|im_end|>"


def test_an_end_in_the_template_needs_none_in_the_tokeniser(tmp_path: Path) -> None:
    llava(tmp_path, template=CHATML, eos=False)
    assert opened(tmp_path).prompts.end_text == "<|im_end|>"


def test_without_an_end_token_it_is_refused(tmp_path: Path) -> None:
    llava(tmp_path, eos=False)
    with pytest.raises(InputError, match=r"no end token.*eos_token"):
        opened(tmp_path)


def test_without_a_chat_template_it_is_refused(tmp_path: Path) -> None:
    llava(tmp_path, template=None)
    with pytest.raises(InputError, match=r"no chat template.*chat_template\.jinja"):
        opened(tmp_path)


def test_a_template_without_images_is_refused(tmp_path: Path) -> None:
    llava(tmp_path, template=VICUNA.replace("IMAGE", ""))
    with pytest.raises(InputError, match="no place"):
        opened(tmp_path)


def test_a_template_that_fails_is_one_sentence(tmp_path: Path) -> None:
    llava(tmp_path, template="{{ raise_exception('text only') }}")
    with pytest.raises(InputError, match=r"takes no image with a text \(text only\)"):
        opened(tmp_path)


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_caption_is_refused(model: Any, text: str) -> None:
    with pytest.raises(InputError, match="empty"):
        model.token_logprobs([picture(32, 32)], [text])
    with pytest.raises(InputError, match="empty"):
        model.answer_logprobs([picture(32, 32)], [text], QuestionTemplate())


def test_a_caption_may_not_hold_the_model_s_own_marks(model: Any) -> None:
    with pytest.raises(InputError, match="'<image>', a mark"):
        model.token_logprobs([picture(32, 32)], ["a red <image> cube"])


def test_an_answer_without_tokens_is_refused(model: Any) -> None:
    with pytest.raises(InputError, match="nothing in the answer"):
        model.answer_logprobs([picture(32, 32)], ["a"], QuestionTemplate(answer=" "))


def test_captions_that_begin_unlike_share_less_of_a_question(model: Any) -> None:
    question = QuestionTemplate("Is it{}?", "Yes")
    shared, whole = model.prompts.questions([" a", "x"], question)
    for text, rest in zip([" a", "x"], whole, strict=True):
        asked = model.prompts.tail_tokens(model.prompts.render_question(question.about(text)))
        assert (*shared, *rest.ids[: -rest.counted]) == asked


def test_several_images_in_one_turn(tmp_path: Path) -> None:
    qwen(tmp_path)
    model = opened(tmp_path)
    one, other = picture(48, 48, 1), picture(64, 40, 2)
    both, swapped = model.reply([Prompt((one, other), "Which?"), Prompt((other, one), "Which?")])
    assert (
        both.tokens_in == swapped.tokens_in > model.reply([Prompt((one,), "Which?")])[0].tokens_in
    )
    assert both.first != swapped.first
    with pytest.raises(InputError, match="not prepared ones"):
        model.reply([Prompt((model.prepare_image(one), other), "Which?")])


def test_a_window_cannot_be_packed_and_is_scored_whole(tmp_path: Path) -> None:
    def windowed(**facts: Any) -> Any:
        library: Any = transformers
        return library.MistralConfig(sliding_window=8, **facts)

    llava(tmp_path, text=windowed)
    model = opened(tmp_path)
    assert model._decoder is None
    assert "sliding window" in model.card.notes[-1]
    image = picture(40, 40)
    found = model.token_logprobs([image, image], ["a red cube", "two dogs"])
    inputs = model._processor(
        images=[image], text=[model.prompts.text + " two dogs</s>"], return_tensors="pt"
    )
    with torch.no_grad():
        logits = model.network(**inputs).logits[0, -4:-1].log_softmax(dim=-1)
    wanted = logits.gather(1, inputs["input_ids"][0, -3:, None]).squeeze(1)
    torch.testing.assert_close(found.values[-3:], wanted, atol=1e-4, rtol=1e-4)
