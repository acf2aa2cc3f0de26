"""Log-probabilities of given replies from a vLLM server, by its chat protocol.

A reply of one token is generated: vLLM gives the log-probability of any listed token in that
position (`logprob_token_ids`), and reads the image from its prefix cache. Longer replies are part
of the prompt (`continue_final_message`), whose log-probabilities vLLM gives too
(`prompt_logprobs`), except at positions that it took from its prefix cache: a reply with such a
position is sent again under a new `cache_salt`, which no cached prefix has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from contrapose.errors import InputError
from contrapose.models.endpoint.client import EndpointClient
from contrapose.models.endpoint.protocol import (
    EndpointError,
    ReplyRequest,
    aborted_reply,
    malformed_reply,
    parse_json,
    parse_logprob,
)

TOKEN_PREFIX = "token_id:"  # noqa: S105 - a token of text
"""Beginning of a token that vLLM writes as its id."""


class VllmServer:
    """A vLLM server as a `LogprobServer`.

    Args:
        client: sends requests to its chat protocol.
        special: tokens such as that of the beginning are added to the template.
    """

    def __init__(self, client: EndpointClient, *, special: bool):
        self._client = client
        self._special = special
        self._lists_tokens = True
        self.notes: tuple[str, ...] = ()

    def count_prompt(self, request: ReplyRequest) -> int:
        """Number of tokens of the prompt; its last ones must be those of the tokenizer."""
        fields = {"add_generation_prompt": True, "return_token_ids": True}
        response = self._send(request, fields)
        ids = response.get("prompt_token_ids")
        tail = list(request.tail)
        if isinstance(ids, list) and tail and ids[-len(tail) :] != tail:
            raise other_tokens(self._client.settings.name)
        head = list(request.head[: max(1, len(request.head) - 2)])  # an image may change the last
        if isinstance(ids, list) and ids[: len(head)] != head:
            self.notes = (
                "The prompt of the server begins with other tokens than that of the model on this "
                "machine would, so that their numbers may differ.",
            )
        usage = response.get("usage")
        count = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
        if not isinstance(count, int) or count < len(tail):
            raise EndpointError(f"{self._client.settings.name} does not count prompt tokens.")
        return count

    def prepare(self, requests: Sequence[ReplyRequest]) -> list[Callable[[], object]]:
        """No calls."""
        return []

    def reply_logprobs(self, request: ReplyRequest) -> list[float]:
        """Log-probability of each token of the reply."""
        if len(request.tokens) == 1 and self._lists_tokens:
            value = self._listed_logprob(request)
            if value is not None:
                return [value]
            self._lists_tokens = False  # a server that does not know the field
        for salt in ("", uuid4().hex):
            values = self._prompt_logprobs(request, salt)
            if values is not None:
                return values
        raise InputError(
            "the server gives no log-probabilities of some tokens of the caption, with its prefix "
            "cache and without."
        )

    def _listed_logprob(self, request: ReplyRequest) -> float | None:
        """Log-probability of the only token, as the first that is generated; None where unknown."""
        (token,) = request.tokens
        fields = {
            "add_generation_prompt": True,
            "logprobs": True,
            "top_logprobs": 0,
            "logprob_token_ids": [token],
            "return_tokens_as_token_ids": True,
        }
        response = self._send(request, fields)
        content = (response["choices"][0].get("logprobs") or {}).get("content") or [{}]
        for item in [content[0], *(content[0].get("top_logprobs") or [])]:
            if item.get("token") == f"{TOKEN_PREFIX}{token}":
                return parse_logprob(item.get("logprob"))
        return None

    def _prompt_logprobs(self, request: ReplyRequest, salt: str) -> list[float] | None:
        """Log-probabilities of the reply in the prompt; None where some were cached."""
        fields = {
            "add_generation_prompt": False,
            "continue_final_message": True,
            "prompt_logprobs": 0,
            **({"cache_salt": salt} if salt else {}),
        }
        positions = self._send(request, fields, reply=request.reply).get("prompt_logprobs")
        if not isinstance(positions, list):
            raise EndpointError(
                f"{self._client.settings.name} gives no log-probabilities of prompts: is it a "
                "server of vLLM?"
            )
        expected = (*request.tail, *request.tokens)
        rest = positions[max(0, len(positions) - len(expected)) :]
        values: list[float | None] = []
        for token, position in zip(expected[len(expected) - len(rest) :], rest, strict=True):
            values.append(self._read_position(token, position))
        counted = values[max(0, len(values) - len(request.tokens)) :]
        filled = [value for value in counted if value is not None]
        return filled if len(filled) == len(request.tokens) else None

    def _read_position(self, token: int, position: Any) -> float | None:
        """Log-probability of a token in its position; None where the position is not filled."""
        if not position:
            return None
        if not isinstance(position, Mapping) or str(token) not in position:
            raise other_tokens(self._client.settings.name)
        entry = position[str(token)]
        return parse_logprob(entry.get("logprob") if isinstance(entry, Mapping) else entry)

    def _send(
        self, request: ReplyRequest, fields: Mapping[str, Any], reply: str = ""
    ) -> Mapping[str, Any]:
        """Send a chat request for one token, greedily, and return the response."""
        content, more = request.image.to_content()
        fields = {**fields, **more}
        content.append({"type": "text", "text": request.question})
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if reply:
            messages.append({"role": "assistant", "content": reply})
        body = {
            "model": self._client.settings.model,
            "messages": messages,
            "max_tokens": 1,
            "temperature": 0,
            "repetition_penalty": 1.0,
            "seed": self._client.settings.seed,
            "add_special_tokens": self._special,
            **fields,
        }
        return self._client.request(json.dumps(body).encode(), _parse_response)


def _parse_response(content: bytes) -> Mapping[str, Any]:
    """Response of the chat protocol: an object with a choice."""
    response = parse_json(content)
    try:
        if not isinstance(response["choices"][0]["message"], Mapping):
            raise TypeError
        logprobs = response["choices"][0].get("logprobs") or {}
        for item in logprobs.get("content") or []:
            if not all(
                isinstance(one, Mapping) for one in (item, *(item.get("top_logprobs") or ()))
            ):
                raise TypeError
    except (KeyError, IndexError, TypeError, AttributeError):
        raise malformed_reply(content) from None
    if response["choices"][0].get("finish_reason") == "abort":
        raise aborted_reply()
    checked: Mapping[str, Any] = response
    return checked


def other_tokens(name: str) -> InputError:
    """Error of a reply that the server reads as other tokens than the tokenizer here."""
    return InputError(
        f"{name} reads this text as other tokens than the tokenizer here: name the one that is "
        "served by tokenizer=…, with the same chat template."
    )
