"""vLLM and SGLang on a real small network: their fields, computed by the library's forward pass."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import numpy as np
import torch
from PIL import Image

from tests.web_server import listen

Answer = tuple[int, Any, Mapping[str, str]]
"""Status, body (JSON, or bytes as they are) and headers."""


def decoded(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")


KEPT_FRAMES = 2
"""Frames of a video that are kept where a request does not say how many; vLLM keeps 32."""


@dataclass
class Serving:
    """A server over one network; `fault` may answer in its place, None lets it answer.

    With `cached` positions vLLM leaves so many of a prompt out unless it has a salt; `lists` is
    whether it knows `logprob_token_ids`.
    """

    model: Any
    folder: str
    url: str = ""
    fault: Callable[[str, Mapping[str, Any]], Answer | None] = lambda path, request: None
    cached: int = 0
    lists: bool = True
    longest: int = 256
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, request: Mapping[str, Any]) -> Answer:
        handlers: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
            "/v1/models": self.models,
            "/v1/chat/completions": self.chat,
            "/generate": self.generate,
            "/model_info": lambda _: (200, {"weight_version": "default"}, {}),
        }
        if path not in handlers:
            return 404, {"detail": "Not Found"}, {}
        with self.lock:  # one network
            return handlers[path](request)

    def models(self, _: Mapping[str, Any]) -> Answer:
        card: dict[str, Any] = {"id": "small", "object": "model", "root": self.folder}
        card |= {"created": 1, "parent": None, "max_model_len": self.longest}
        return 200, {"object": "list", "data": [card]}, {}

    def run(
        self,
        images: list[Image.Image],
        text: str,
        special: bool,
        video: Mapping[str, Any] | None = None,
    ) -> tuple[list[int], torch.Tensor]:
        """Token ids, image tokens repeated as the server sees them, and log-probabilities.

        With the times of a video the images are its frames.
        """
        shown: dict[str, Any] = {"images": images or None}
        if video is not None:
            facts = dict(video)
            shown = {"do_sample_frames": facts.pop("do_sample_frames")}
            shown |= {"videos": [[np.stack([np.asarray(image) for image in images])]]}
            shown |= {"video_metadata": [[facts]]}
        columns = self.model._processor(
            **shown, text=[text], return_tensors="pt", add_special_tokens=special
        )
        columns = {name: torch.as_tensor(values) for name, values in columns.items()}
        with torch.inference_mode():
            logits = self.model.network(**columns).logits[0].double()
        return columns["input_ids"][0].tolist(), logits.log_softmax(-1)

    def chat(self, request: Mapping[str, Any]) -> Answer:
        if request["model"] != "small":
            return 404, {"error": {"message": "The model does not exist.", "code": 404}}, {}
        turns = json.loads(json.dumps(request["messages"]))
        images = []
        for turn in turns:
            if isinstance(turn["content"], str):
                turn["content"] = [{"type": "text", "text": turn["content"]}]
            for part in turn["content"]:
                if "image_url" in part:
                    images.append(part.pop("image_url")["url"])
                    part["type"] = "image"
                if "video_url" in part:
                    head, *frames = part.pop("video_url")["url"].split(",")
                    assert head == "data:video/jpeg;base64"
                    images += [f"data:image/png;base64,{frame}" for frame in frames]
                    part["type"] = "video"
        from transformers.processing_utils import ProcessorMixin

        text = ProcessorMixin.apply_chat_template(
            self.model._processor,
            turns,
            tokenize=False,
            add_generation_prompt=request.get("add_generation_prompt", True),
            continue_final_message=request.get("continue_final_message", False),
        )
        special = request.get("add_special_tokens", False)
        video = request.get("media_io_kwargs", {}).get("video")
        if video is not None:
            images = images[: video.pop("num_frames", KEPT_FRAMES)]
            if len(images) != len(video["frames_indices"]) or video["total_num_frames"] < len(
                images
            ):
                return 400, {"error": {"message": "frames and their numbers differ"}}, {}
        ids, logprobs = self.run([decoded(url) for url in images], text, special, video)
        if len(ids) + request["max_tokens"] > self.longest:
            return 400, {"error": {"message": "maximum context length", "code": 400}}, {}
        choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": "x"}}
        body: dict[str, Any] = {"id": "1", "object": "chat.completion", "choices": [choice]}
        body["usage"] = {"prompt_tokens": len(ids), "completion_tokens": 1}
        if request.get("logprobs"):
            best = int(logprobs[-1].argmax())
            listed = [best, *(request.get("logprob_token_ids", []) if self.lists else [])]
            rows = [{"token": f"token_id:{i}", "logprob": float(logprobs[-1, i])} for i in listed]
            choice["logprobs"] = {"content": [{**rows[0], "top_logprobs": rows}]}
        if request.get("return_token_ids"):
            body["prompt_token_ids"] = ids
        if request.get("prompt_logprobs") is not None:
            hidden = 0 if request.get("cache_salt") else self.cached
            body["prompt_logprobs"] = [None] + [
                None
                if k <= hidden
                else {str(ids[k]): {"logprob": float(logprobs[k - 1, ids[k]]), "rank": 1}}
                for k in range(1, len(ids))
            ]
        return 200, body, {}

    def generate(self, request: Mapping[str, Any]) -> Answer:
        ids, logprobs = self.run(
            [decoded(url) for url in request["image_data"]], request["text"], True
        )
        if len(ids) > self.longest:
            return 400, {"error": {"message": "The input is longer than the context."}}, {}
        info: dict[str, Any] = {"id": "1", "prompt_tokens": len(ids), "completion_tokens": 1}
        if request.get("return_logprob"):
            start = request.get("logprob_start_len", -1)
            size = logprobs.shape[1]
            rows: list[Any] = []
            for k in range(start, len(ids)) if start >= 0 else ():
                value = None if k == start else float(logprobs[k - 1, ids[k]])
                rows.append([value, ids[k] if ids[k] < size - 1 else 0, None])
            info["input_token_logprobs"] = rows
            if listed := request.get("token_ids_logprob"):
                last = logprobs[-1]
                info["output_token_ids_logprobs"] = [[[float(last[i]), i, None] for i in listed]]
        return 200, {"text": "x", "meta_info": info}, {}


@contextmanager
def served(server: Serving) -> Iterator[Serving]:
    """The server on a free port of this machine, while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_GET(self) -> None:
            self.respond({})

        def respond(self, request: dict[str, Any]) -> None:
            with server.lock:
                server.requests.append((self.path, request))
                server.headers.append(dict(self.headers.items()))
            answer = server.fault(self.path, request)
            status, body, headers = answer or server.answer(self.path, request)
            if status == 0:  # the connection drops
                self.close_connection = True
                return
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with listen(Handler) as url:
        server.url = f"{url}/v1"
        yield server
