"""Videos of served models: frames as one video or as images of one turn, as on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.errors import InputError
from contrapose.models import FrameTiming, QuestionTemplate, VideoReader
from contrapose.models.endpoint.served import load_served
from contrapose.models.endpoint.settings import parse_settings
from contrapose.models.hf.vlm import model as vlm_model
from tests.models.endpoint.servers import Serving, served
from tests.models.hf.vlm import small_video
from tests.models.hf.vlm.small_video import qwen_video
from tests.models.hf.vlm.small_vlm import CAPTIONS, opened, picture

library_videos = small_video.library_videos
FRAMES = [picture(48, 40, seed) for seed in range(4)]
TIMING = FrameTiming((0.55, 1.55, 2.55, 9.0), 10.0, 10.0)
WORD = QuestionTemplate('Is "{}" on it?', "dog")
"""Asks for an answer of one token."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("qwen")
    qwen_video(path, newer=True)
    return path


@pytest.fixture
def server(folder: Path, library_videos: Any) -> Iterator[Serving]:
    with served(Serving(opened(folder), str(folder))) as one:
        yield one


def load(server: Serving, kind: str, form: str) -> Any:
    return load_served(parse_settings(f"{kind}:small,url={server.url},video={form}"))


@pytest.mark.parametrize(
    ("kind", "form"), [("vllm", "own"), ("vllm", "images"), ("sglang", "images")]
)
def test_numbers_are_those_of_the_model_on_this_machine(
    kind: str, form: str, server: Serving, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vlm_model, "VIDEO_CAPTION_TOKENS", 24)
    local = opened(folder, video=form)
    remote = load(server, kind, form)
    reads: bool = isinstance(remote, VideoReader)
    assert reads
    assert remote.video_input == local.video_input
    assert remote.name.endswith(f",video={form}")
    clips = [model.prepare_video(FRAMES, TIMING) for model in (local, remote)]
    still = FRAMES[1]
    shown = [[clip, clip, still] for clip in clips]
    texts = [*CAPTIONS[:2], CAPTIONS[1]]
    expected = local.token_logprobs(shown[0], texts)
    values = remote.token_logprobs(shown[1], texts)
    assert list(values.offsets) == list(expected.offsets)
    np.testing.assert_allclose(values.values, expected.values, rtol=0, atol=2e-5)
    answers = [
        model.answer_logprobs(some, texts, WORD)
        for model, some in zip((local, remote), shown, strict=True)
    ]
    np.testing.assert_allclose(answers[1], answers[0], rtol=0, atol=2e-5)


def test_frames_one_after_the_other_unless_it_is_said(server: Serving) -> None:
    plain = load(server, "vllm", "frames")
    assert (plain.video_input, plain.max_frames) == ("", 0)
    assert plain.fingerprint == load(server, "vllm", "own").fingerprint
    with pytest.raises(InputError, match="SGLang chooses the frames"):
        load(server, "sglang", "own")
    with pytest.raises(InputError, match="video must be own, images or frames"):
        load(server, "vllm", "film")


def test_frames_that_the_server_refuses(server: Serving) -> None:
    remote = load(server, "vllm", "images")
    clip = remote.prepare_video(FRAMES * 20, TIMING)
    with pytest.raises(InputError, match="maximum context length"):
        remote.token_logprobs([clip], CAPTIONS[:1])
