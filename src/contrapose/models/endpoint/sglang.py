"""Log-probabilities of given replies from an SGLang server, by its native protocol.

A reply of one token is generated with the log-probability of that token (`token_ids_logprob`).
Longer replies are part of the text, whose log-probabilities SGLang gives from `logprob_start_len`
on, and takes the tokens before it from its prefix cache. That position counts the tokens of the
image, which only the server knows: it is asked once for each image.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any

from contrapose.errors import InputError
from contrapose.models.endpoint.client import EndpointClient
from contrapose.models.endpoint.protocol import (
    EndpointError,
    ImageUrls,
    ReplyRequest,
    aborted_reply,
    malformed_reply,
    parse_json,
    parse_logprob,
)
from contrapose.models.endpoint.vllm import other_tokens

MOST_IMAGES = 4096
"""Images whose number of tokens is kept."""
CLIPPED = 0
"""Token that SGLang writes in the place of the last ones of the vocabulary."""


class SglangServer:
    """An SGLang server as a `LogprobServer`.

    Args:
        client: sends requests to its native protocol, `/generate`.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, client: EndpointClient):
        self._client = client
        self._heads: OrderedDict[bytes, int] = OrderedDict()
        self._lock = Lock()

    def count_prompt(self, request: ReplyRequest) -> int:
        """Number of tokens of the prompt; kept for the next requests with this image."""
        count = self._send(request.prompt, request.image, {}).get("prompt_tokens")
        if not isinstance(count, int) or count < len(request.tail):
            raise EndpointError(f"{self._client.settings.name} does not count prompt tokens.")
        with self._lock:
            self._heads[_digest(request.image)] = count - len(request.tail)
            while len(self._heads) > MOST_IMAGES:
                self._heads.popitem(last=False)
        return count

    def prepare(self, requests: Sequence[ReplyRequest]) -> list[Callable[[], object]]:
        """One call for each image whose number of tokens is not known."""
        with self._lock:
            known = set(self._heads)
        missing = {
            digest: request
            for request in requests
            if len(request.tokens) > 1 and (digest := _digest(request.image)) not in known
        }
        return [partial(self.count_prompt, request) for request in missing.values()]

    def reply_logprobs(self, request: ReplyRequest) -> list[float]:
        """Log-probability of each token of the reply."""
        if len(request.tokens) == 1:
            return [self._listed_logprob(request)]
        with self._lock:
            head = self._heads.get(_digest(request.image))
        if head is None:
            head = self.count_prompt(request) - len(request.tail)
        start = head + len(request.tail)
        fields = {"return_logprob": True, "logprob_start_len": start - 1}
        info = self._send(request.text, request.image, fields)
        rows = info.get("input_token_logprobs")
        if not isinstance(rows, list):
            raise self._no_logprobs()
        counted = rows[max(0, len(rows) - len(request.tokens)) :]
        same = len(counted) == len(request.tokens) and all(
            _token(row) in (token, CLIPPED)
            for row, token in zip(counted, request.tokens, strict=True)
        )
        if not same or info.get("prompt_tokens") != start + len(request.tokens):
            raise other_tokens(self._client.settings.name)
        if any(row[0] is None for row in counted):
            raise InputError("the server gives no log-probabilities of some tokens of the caption.")
        return [parse_logprob(row[0]) for row in counted]

    def _listed_logprob(self, request: ReplyRequest) -> float:
        """Log-probability of the only token, as the first that is generated."""
        (token,) = request.tokens
        fields = {"return_logprob": True, "token_ids_logprob": [token]}
        info = self._send(request.prompt, request.image, fields)
        rows = info.get("output_token_ids_logprobs")
        if not isinstance(rows, list) or not rows or not isinstance(rows[0], list):
            raise self._no_logprobs()
        for row in rows[0]:
            if _token(row) == token:
                return parse_logprob(row[0])
        raise InputError(f"the server gives no log-probability of the token {token}.")

    def _send(self, text: str, image: ImageUrls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request for one token, greedily, and return the facts of the response."""
        body = {
            "text": text,
            "image_data": list(image.urls),
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            **fields,
        }
        return self._client.request(json.dumps(body).encode(), _parse_response)

    def _no_logprobs(self) -> EndpointError:
        return EndpointError(
            f"{self._client.settings.name} gives no log-probabilities of prompts: is it a server "
            "of SGLang?"
        )


def _parse_response(content: bytes) -> Mapping[str, Any]:
    """`meta_info` of a response of the native protocol."""
    response = parse_json(content)
    info = response.get("meta_info") if isinstance(response, Mapping) else None
    if not isinstance(info, Mapping):
        raise malformed_reply(content)
    finish = info.get("finish_reason")
    if isinstance(finish, Mapping) and finish.get("type") == "abort":
        raise aborted_reply(finish.get("message"))
    return info


def _token(row: Any) -> int | None:
    """Token of a row: log-probability, token, text."""
    return row[1] if isinstance(row, list) and len(row) > 1 and isinstance(row[1], int) else None


def _digest(image: ImageUrls) -> bytes:
    return hashlib.blake2b("\n".join(image.urls).encode(), digest_size=16).digest()
