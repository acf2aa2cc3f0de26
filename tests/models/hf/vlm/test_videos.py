"""The video input of image-text-to-text models is that of the library's processor and network."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models.capabilities import Prompt, QuestionTemplate
from contrapose.models.hf.vlm import forward
from contrapose.models.hf.vlm import model as vlm_model
from contrapose.models.video_reader import FrameTiming, VideoReader
from tests.models.hf.vlm import small_video
from tests.models.hf.vlm.small_video import VIDEO_FAMILIES, onevision_video
from tests.models.hf.vlm.small_vlm import CAPTIONS, CHATML, llava, opened, picture

library_videos = small_video.library_videos
FRAMES = [picture(48, 40, seed) for seed in range(4)]
TIMING = FrameTiming((0.55, 1.55, 2.55, 65.0), 66.0, 10.0)
TIMED = ("qwen2_5_vl", "qwen3_vl", "smolvlm", "video_llama_3")
"""Families that are told the times of the frames."""
QUESTION = QuestionTemplate()


@pytest.fixture(scope="module", params=VIDEO_FAMILIES)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, library_videos: Any
) -> Any:
    folder: Path = tmp_path_factory.mktemp(request.param)
    VIDEO_FAMILIES[request.param](folder)
    return opened(folder)


@pytest.fixture(autouse=True)
def small_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vlm_model, "VIDEO_CAPTION_TOKENS", 24)


def library_inputs(model: Any, text: str) -> Any:
    """Inputs of a text with the video, by the library alone."""
    return model._processor(
        text=[text],
        videos=[[np.stack([np.asarray(frame) for frame in FRAMES])]],
        video_metadata=[
            [{"fps": 10.0, "duration": 66.0, "total_num_frames": 660,
              "frames_indices": [5, 15, 25, 650]}]
        ],
        do_sample_frames=False,
        add_special_tokens=not model.prompts.bare,
        return_tensors="pt",
    )  # fmt: skip


def direct(model: Any, text: str, counted: int) -> Tensor:
    """Log-probabilities of the last tokens of a text after the video, by the library alone."""
    inputs = library_inputs(model, text)
    with torch.no_grad():
        logits = model.network(**inputs).logits[0, -counted - 1 : -1]
    tokens = inputs["input_ids"][0, -counted:, None]
    logprobs: Tensor = logits.log_softmax(dim=-1).gather(1, tokens).squeeze(1)
    return logprobs


def ask(model: Any, text: str) -> str:
    """A turn with a video and a text, by the library."""
    content = [{"type": "video"}, {"type": "text", "text": text}]
    turns = [{"role": "user", "content": content}]
    return str(
        model._processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    )


def test_scores_are_the_library_s(model: Any) -> None:
    reads: bool = isinstance(model, VideoReader)
    assert reads
    assert (model.video_input, model.video_obstacle) == ("video", "")
    clip = model.prepare_video(FRAMES, TIMING)
    texts = CAPTIONS[:2]
    ragged = model.token_logprobs([clip] * 2, texts)
    separator = " " if model.prompts._before else ""
    prompt = ask(model, model.prompts.prompt)
    for text, (a, b) in zip(texts, pairwise(ragged.offsets), strict=True):
        reply = prompt + separator + text + model.prompts.end_text
        torch.testing.assert_close(
            ragged.values[a:b], direct(model, reply, b - a), atol=1e-5, rtol=1e-5
        )
    answers = model.answer_logprobs([clip] * 2, texts, QUESTION)
    tokens = model.prompts._tokenizer
    for text, answer in zip(texts, answers, strict=True):
        turn = ask(model, QUESTION.about(text))
        reply = turn + separator + QUESTION.answer
        counted = len(tokens(reply)["input_ids"]) - len(tokens(turn)["input_ids"])
        wanted = direct(model, reply, counted).sum()
        torch.testing.assert_close(answer, wanted, atol=2e-5, rtol=1e-5)


def test_replies_are_the_library_s(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "MAX_REPLY_TOKENS", 2)
    clip = model.prepare_video(FRAMES, TIMING)
    (reply,) = model.reply([Prompt((clip,), "What is it?")])
    inputs = library_inputs(model, ask(model, "What is it?"))
    with torch.no_grad():
        likely = model.network(**inputs).logits[0, -1].log_softmax(dim=-1)
    assert max(reply.first.values()) == pytest.approx(float(likely.max()), abs=1e-5)
    assert reply.tokens_in == inputs["input_ids"].shape[1]
    most = model.network.config.get_text_config().max_position_embeddings
    monkeypatch.setattr(forward, "MAX_REPLY_TOKENS", most)
    with pytest.raises(InputError, match="with a reply of"):
        model.reply([Prompt((clip,), "What is it?")])


def test_seconds_keep_their_dtype(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if model.card.family != "qwen2_5_vl":
        return
    monkeypatch.setattr(model, "_dtype", torch.bfloat16)
    placed = model._to_device([model.prepare_video(FRAMES, TIMING)])
    assert placed["pixel_values_videos"].dtype == torch.bfloat16
    assert placed["second_per_grid_ts"].dtype == torch.float32


def test_order_and_times_of_frames_count(model: Any) -> None:
    clips = [
        model.prepare_video(FRAMES, TIMING),
        model.prepare_video(FRAMES[::-1], TIMING),
        model.prepare_video(FRAMES, FrameTiming((5.0, 9.0, 60.0, 65.0), 66.0, 10.0)),
        model.prepare_video(FRAMES, FrameTiming((0.5, 1.5, 2.5, 3.5), 4.0, 10.0)),
    ]
    texts = [CAPTIONS[1]] * len(clips)
    first, turned, later, shorter = model.answer_logprobs(clips, texts, QUESTION).tolist()
    assert first != turned
    tells_times = model.card.family in TIMED
    assert (first != later or first != shorter) == tells_times


def test_images_beside_videos(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [model.prepare_video(FRAMES, TIMING), FRAMES[1], FRAMES[0]]
    packed = model.token_logprobs(shown, CAPTIONS[:3])
    monkeypatch.setattr(model, "_decoder", None)
    apart = model.token_logprobs(shown, CAPTIONS[:3])
    torch.testing.assert_close(packed.values, apart.values, atol=1e-4, rtol=1e-4)


def test_frames_that_leave_no_room_are_refused(model: Any) -> None:
    if model.card.family not in ("llava_onevision", "internvl"):
        return
    with pytest.raises(InputError, match="changes the size"):
        model.prepare_video([*FRAMES[:3], picture(40, 40)], TIMING)
    timing = FrameTiming(tuple(map(float, range(200))), 200.0, 1.0)
    with pytest.raises(InputError, match="200 frames"):
        model.prepare_video(FRAMES[:1] * 200, timing)


def test_forms_by_the_name(tmp_path: Path, library_videos: Any) -> None:
    onevision_video(tmp_path)
    forms = {form: opened(tmp_path, video=form) for form in ("images", "frames", None)}
    assert {form: model.video_input for form, model in forms.items()} == {
        "images": "images",
        "frames": "",
        None: "video",
    }
    assert forms["frames"].max_frames == 0
    assert len({model.fingerprint for model in forms.values()}) == 1
    (tmp_path / "chat_template.jinja").write_text(CHATML.replace("IMAGE", "<image>"))
    with pytest.raises(InputError, match=r"takes no video.*video=frames"):
        opened(tmp_path).prepare_video(FRAMES, TIMING)


def test_without_torchvision_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contrapose.models.hf.vlm.processors.find_spec", lambda name: None)
    onevision_video(tmp_path)
    model = opened(tmp_path)
    assert "torchvision" in model.video_obstacle
    assert "video=frames" in model.video_obstacle
    assert model.token_logprobs([FRAMES[0]], CAPTIONS[:1]).offsets[-1] > 0  # images need none
    with pytest.raises(InputError, match="needs torchvision"):
        opened(tmp_path, video="own")


def test_a_model_without_video_input(tmp_path: Path) -> None:
    llava(tmp_path)
    assert opened(tmp_path).max_frames == 0
    with pytest.raises(InputError, match="no video input"):
        opened(tmp_path, video="own")
