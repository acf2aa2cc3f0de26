"""Chat protocol: requests and replies."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

from contrapose.errors import InputError
from contrapose.models import FrameTiming, Prompt
from contrapose.models.endpoint.protocol import (
    ImageUrls,
    MalformedReplyError,
    encode_data_url,
    encode_request,
    parse_error,
    parse_reply,
)
from contrapose.models.endpoint.settings import parse_settings
from tests.chatting import said


def decoded(url: str) -> tuple[str, Image.Image]:
    head, _, data = url.partition(",")
    return head, Image.open(io.BytesIO(base64.b64decode(data)))


def test_images_are_sent_without_loss_unless_they_are_large() -> None:
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8))
    head, back = decoded(encode_data_url(small))
    assert head == "data:image/png;base64"
    assert np.array_equal(np.asarray(back), np.asarray(small))
    wide = Image.new("RGB", (4096, 100), "red")
    _, back = decoded(encode_data_url(wide))
    assert back.size == (2048, 50)
    noisy = Image.fromarray(rng.integers(0, 256, (1300, 1300, 3), dtype=np.uint8))
    head, back = decoded(encode_data_url(noisy))
    assert head == "data:image/jpeg;base64"
    assert back.size == (1300, 1300)


def test_only_decoded_images_are_sent() -> None:
    with pytest.raises(InputError, match="sent decoded images, not ndarray"):
        encode_data_url(np.zeros((3, 4, 4)))


def test_a_request() -> None:
    prompt = Prompt((Image.new("RGB", (2, 2)),), "which?")
    settings = parse_settings("openai:m?tokens=9&seed=4")
    whole = json.loads(encode_request(prompt, settings, first=False, limit_name="max_tokens"))
    content = whole["messages"][0].pop("content")
    assert [part["type"] for part in content] == ["image_url", "text"]
    assert content[1]["text"] == "which?"
    assert whole == {
        "model": "m", "messages": [{"role": "user"}], "max_tokens": 9, "seed": 4, "temperature": 0,
    }  # fmt: skip
    first = json.loads(
        encode_request(prompt, settings, first=True, limit_name="max_completion_tokens")
    )
    assert (first["max_completion_tokens"], first["logprobs"], first["top_logprobs"]) == (
        1,
        True,
        20,
    )
    none = parse_settings("openai:m?temperature=default")
    assert "temperature" not in json.loads(
        encode_request(prompt, none, first=False, limit_name="max_tokens")
    )


def test_replies() -> None:
    plain = parse_reply(json.dumps(said("(1)")).encode())
    assert (plain.text, plain.tokens_in, plain.tokens_out, plain.first) == ("(1)", 100, 3, {})
    without = {"choices": [{"message": {"content": "(1)"}}]}
    assert parse_reply(json.dumps(without).encode()).tokens_in == 0
    parts = [{"type": "text", "text": "(1"}, {"type": "text", "text": ")"}]
    assert parse_reply(json.dumps(said(parts)).encode()).text == "(1)"  # type: ignore[arg-type]
    refused: dict[str, Any] = {"choices": [{"message": {"content": None, "refusal": "I can't."}}]}
    assert parse_reply(json.dumps(refused).encode()).text == "I can't."
    assert parse_reply(json.dumps(said(None)).encode()).text == ""
    top = [{"token": "Yes", "logprob": -0.1}, {"token": " no", "logprob": -2.5}]
    likely = said(
        "Yes", logprobs={"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": top}]}
    )
    assert parse_reply(json.dumps(likely).encode()).first == {"Yes": -0.1, " no": -2.5}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"<html>502</html>", b"[]", b"null", b"3", b"{}", b'{"choices": []}',
        b'{"choices": [{}]}', b'{"choices": [{"message": {"content": 3}}]}',
        b'{"choices": [{"message": "hello"}]}', b"\xff\xfe",
        b'{"choices": [{"message": {"content": "1"}}], "usage": {"prompt_tokens": "many"}}',
    ],
)  # fmt: skip
def test_garbage(content: bytes) -> None:
    with pytest.raises(MalformedReplyError, match="what came back is"):
        parse_reply(content)


def test_what_a_server_says_of_a_failure() -> None:
    assert parse_error(b'{"error": {"code": "c", "message": "No such model."}}') == (
        "c",
        "No such model",
    )
    assert parse_error(b'{"error": "gone"}') == ("", "gone")
    assert parse_error(b'{"detail": "not found"}') == ("", "not found")
    assert parse_error(b"plain\nwords") == ("", "plain words")
    for nothing in (b"", b"{}", b'{"error": {}}'):
        assert parse_error(nothing) == ("", "")
    code, words = parse_error(b"x" * 5000)
    assert (code, len(words)) == ("", 200)


def test_videos_of_a_chat_request() -> None:
    """Frames are images of one turn, or one video with its times where the server takes it."""
    settings = parse_settings("vllm:m,url=http://localhost:1/v1")
    frames = tuple(Image.new("RGB", (2, 2), (i, 0, 0)) for i in range(3))
    urls = tuple(map(encode_data_url, frames))
    timing = FrameTiming((0.5, 1.5, 2.5), 3.0, 10.0)

    def content(*images: Any) -> tuple[list[dict[str, Any]], Any]:
        body = json.loads(
            encode_request(Prompt(images, "q"), settings, first=False, limit_name="max_tokens")
        )
        return body["messages"][0]["content"], body.get("media_io_kwargs")

    plain, none = content(*frames)
    assert [part.get("image_url", {}).get("url") for part in plain] == [*urls, None]
    assert none is None
    assert content(ImageUrls(urls))[0] == plain
    ((video, text), kwargs) = content(ImageUrls(urls, timing))
    joined = ",".join(url.partition(",")[2] for url in urls)
    assert video == {"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{joined}"}}
    assert text == {"type": "text", "text": "q"}
    assert kwargs["video"] | {"num_frames": 3, "frames_indices": [5, 15, 25]} == kwargs["video"]
    assert kwargs["video"]["total_num_frames"] == 30
