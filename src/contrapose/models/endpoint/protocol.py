"""Requests, replies and errors of endpoints; no network access."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from contrapose.errors import ContraposeError, InputError
from contrapose.files import SurrogateError, require_unicode
from contrapose.models.capabilities import Prompt, Reply
from contrapose.models.endpoint.settings import EndpointSettings
from contrapose.models.video_reader import FrameTiming

if TYPE_CHECKING:
    from PIL.Image import Image


class EndpointError(ContraposeError):
    """Final failure of an endpoint: down, too slow, or refusing the key or the model.

    It is no `InputError`: that is the fault of one prompt, after which the others are still sent.
    Answers that arrived before it are marked on it (`capabilities.mark_arrived`).
    """

    def __init__(self, message: str):
        self.message = message
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class ImageUrls:
    """Image of a request, images of one turn, or frames of a video.

    Attributes:
        urls: data URLs.
        timing: times of the frames, where they are sent as a video; None for images.
    """

    urls: tuple[str, ...]
    timing: FrameTiming | None = None

    def to_content(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Parts of a user's turn, and the fields of the request that a video needs.

        Frames of a video that are chosen here have the form of vLLM. Without their number it keeps
        the first 32, and refuses the times of more.
        """
        if self.timing is None:
            return [{"type": "image_url", "image_url": {"url": url}} for url in self.urls], {}
        frames = ",".join(url.partition(",")[2] for url in self.urls)
        url = f"data:video/jpeg;base64,{frames}"
        metadata = {
            "num_frames": len(self.timing.indices),
            "fps": self.timing.fps,
            "frames_indices": self.timing.indices,
            "total_num_frames": self.timing.total,
            "duration": self.timing.duration,
            "do_sample_frames": False,
        }
        video = {"type": "video_url", "video_url": {"url": url}}
        return [video], {"media_io_kwargs": {"video": metadata}}


@dataclass(frozen=True, slots=True)
class ReplyRequest:
    """A reply to an image and a question, whose log-probabilities are requested.

    Attributes:
        image: the image.
        question: text of the user's turn.
        prompt: the turn in the model's chat template, up to the start of the reply.
        head: tokens of the turn before the image.
        tail: tokens of the turn after the image.
        reply: text of the reply; empty where only the prompt is of interest.
        text: prompt and reply.
        tokens: tokens of the reply.
    """

    image: ImageUrls
    question: str
    prompt: str
    head: tuple[int, ...]
    tail: tuple[int, ...]
    reply: str = ""
    text: str = ""
    tokens: tuple[int, ...] = ()


class LogprobServer(Protocol):
    """A server that gives log-probabilities of given replies; thread-safe.

    Attributes:
        notes: differences from the model on this machine, one sentence per note.
    """

    notes: tuple[str, ...]

    def count_prompt(self, request: ReplyRequest) -> int:
        """Number of tokens of the prompt, those of the image included.

        Raises:
            InputError: the server reads other tokens than the tokenizer, or refuses the prompt.
            EndpointError: the server failed.
        """

    def prepare(self, requests: Sequence[ReplyRequest]) -> list[Callable[[], object]]:
        """List the calls that must be made before the log-probabilities of these replies."""

    def reply_logprobs(self, request: ReplyRequest) -> list[float]:
        """Log-probability of each token of the reply.

        Raises:
            InputError: there are none for this reply.
            EndpointError: the server failed, or gives no log-probabilities of prompts.
        """


LONGEST_SIDE = 2048
"""Pixels; larger images are scaled down to it, as servers do."""

LARGEST_PNG = 4 << 20
"""Bytes beyond which an image is sent as JPEG."""

JPEG_QUALITY = 95

TOP_LOGPROBS = 20
"""Likeliest first tokens requested, the most that the protocol allows."""

IMAGE_FORMAT = f"png or jpeg{JPEG_QUALITY} over {LARGEST_PNG}, side {LONGEST_SIDE} bicubic"
"""Encoding of images, for the fingerprint."""


MOST_LOGPROB = 1e-3
"""Largest log-probability that is rounding and no error."""

LEAST_LOGPROB = -9999.0
"""Log-probability that vLLM and OpenAI write for minus infinity, and for one that is not known."""

MOST_TOKENS = 1 << 40
"""Most tokens that a server may count."""

LONGEST_CODE = 100
"""Characters of an error code that are read."""


class MalformedReplyError(Exception):
    """A response that is no valid reply; the message gives the reason."""


def encode_request(
    prompt: Prompt, settings: EndpointSettings, *, first: bool, limit_name: str
) -> bytes:
    """Encode the JSON request body of one prompt.

    Args:
        prompt: images and text.
        settings: of the endpoint.
        first: request one token with the likeliest alternatives, not a full reply.
        limit_name: the server's field for the most tokens of a reply.
    """
    content: list[dict[str, Any]] = []
    fields: dict[str, Any] = {}
    for image in map(encode_urls, prompt.images):
        parts, more = image.to_content()
        content += parts
        fields |= more
    content.append({"type": "text", "text": prompt.text})
    request: dict[str, Any] = {
        "model": settings.model,
        "messages": [{"role": "user", "content": content}],
        limit_name: 1 if first else settings.tokens,
        "seed": settings.seed,
        **fields,
    }
    if settings.temperature is not None:
        request["temperature"] = settings.temperature
    if first:
        request |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    return json.dumps(request).encode()


def encode_data_url(image: Any) -> str:
    """Encode a decoded image as a data URL.

    Raises:
        InputError: it is something else, such as an image prepared for another model.
    """
    from PIL import Image

    if not isinstance(image, Image.Image):
        raise InputError(f"an endpoint is sent decoded images, not {type(image).__name__}.")
    kind, content = _encode_image(_fit_size(image.convert("RGB")))
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def encode_urls(image: Any) -> ImageUrls:
    """Encode a decoded image; images that are encoded already stay as they are.

    Raises:
        InputError: it is something else, such as an image prepared for another model.
    """
    return image if isinstance(image, ImageUrls) else ImageUrls((encode_data_url(image),))


def parse_reply(content: bytes) -> Reply:
    """Parse the reply of a response; a refusal is a reply too.

    Raises:
        MalformedReplyError: there is none.
        InputError: there is one that cannot be used: with a number that is not finite, half of a
            surrogate pair, or nested too deeply. Another try would give the same.
    """
    response = parse_json(content)
    try:
        choice = response["choices"][0]
        message = choice["message"]
        text = message.get("content")
        if isinstance(text, list):  # parts, as some servers write them
            text = "".join(part.get("text", "") for part in text)
        text = text if text is not None else message.get("refusal")
        if not isinstance(text, str | None):
            raise TypeError
        usage = response.get("usage") or {}
        return Reply(
            text=text or "",
            first=_parse_first_logprobs(choice),
            tokens_in=_parse_count(usage.get("prompt_tokens")),
            tokens_out=_parse_count(usage.get("completion_tokens")),
        )
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError):
        raise malformed_reply(content) from None


def parse_json(content: bytes) -> Any:
    """Parse the JSON of a response.

    Raises:
        MalformedReplyError: it is no JSON.
        InputError: it cannot be used: with a number that is not finite, half of a surrogate pair,
            or nested too deeply.
    """
    try:
        response = json.loads(content, parse_constant=_parse_finite, parse_float=_parse_finite)
        require_unicode(response)
    except (_UnusableError, SurrogateError) as error:
        raise InputError(f"the reply to the prompt cannot be used ({error}).") from None
    except RecursionError:
        raise InputError("the reply to the prompt cannot be used (nested too deeply).") from None
    except ValueError:
        raise MalformedReplyError(
            f"what came back is not JSON: {_shorten(content) or 'nothing'}"
        ) from None
    return response


def malformed_reply(content: bytes) -> MalformedReplyError:
    """Error of a response that lacks the fields of a reply."""
    return MalformedReplyError(f"what came back is no reply: {_shorten(content) or 'nothing'}")


def aborted_reply(reason: Any = "") -> MalformedReplyError:
    """Error of a response whose request the server broke off, as when its engine is paused."""
    words = f": {_shorten(str(reason).encode(errors='replace'))}" if reason else ""
    return MalformedReplyError(f"the server broke off the request{words}")


class _UnusableError(ValueError):
    """A JSON text holds a number that is not finite."""


def _parse_finite(text: str) -> float:
    """Number of a JSON text; NaN, Infinity and numbers that overflow are refused."""
    number = float(text)
    if not math.isfinite(number):
        raise _UnusableError(f"the number {text[:20]} is not finite")
    return number


def _parse_count(value: Any) -> int:
    count = int(value or 0)
    if not 0 <= count <= MOST_TOKENS:
        raise ValueError
    return count


def parse_logprob(value: Any) -> float:
    """Log-probability of a response: a finite number, and none above 0 but for rounding.

    A number that stands for minus infinity is refused as minus infinity is.

    Raises:
        InputError: it is something else.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not LEAST_LOGPROB < value <= MOST_LOGPROB:
        raise InputError(f"the reply to the prompt cannot be used (log-probability {value!r:.40}).")
    return min(0.0, float(value))


def parse_error(content: bytes) -> tuple[str, str]:
    """Parse the error code and message of a failed response; empty where there are none."""
    try:
        error = json.loads(content)
        error = error.get("error", error)
        if isinstance(error, str):
            return "", _shorten(error.encode(errors="replace"))
        words = str(error.get("message") or error.get("detail") or "")
        code = str(error.get("code") or "")[:LONGEST_CODE]
        return code, _shorten(words.encode(errors="replace"))
    except (ValueError, AttributeError, RecursionError):
        return "", _shorten(content)


def _parse_first_logprobs(choice: Mapping[str, Any]) -> dict[str, float]:
    """Log-probabilities of the likeliest first tokens; empty where the server gives none."""
    tokens = (choice.get("logprobs") or {}).get("content") or []
    if not tokens:
        return {}
    likeliest = tokens[0].get("top_logprobs") or [tokens[0]]
    return {str(token["token"]): _parse_finite(str(token["logprob"])) for token in likeliest}


def _fit_size(image: Image) -> Image:
    longest = max(image.size)
    if longest <= LONGEST_SIDE:
        return image
    from PIL import Image as Pillow

    width, height = (max(1, round(side * LONGEST_SIDE / longest)) for side in image.size)
    return image.resize((width, height), Pillow.Resampling.BICUBIC)


def _encode_image(image: Image) -> tuple[str, bytes]:
    sink = io.BytesIO()
    image.save(sink, "PNG")
    if sink.tell() <= LARGEST_PNG:
        return "png", sink.getvalue()
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=JPEG_QUALITY)
    return "jpeg", sink.getvalue()


def _shorten(content: bytes) -> str:
    """Beginning of a response on one line."""
    words = " ".join(content[:2000].decode(errors="replace").split())
    shown = words if len(words) <= 200 else f"{words[:199]}…"
    return shown.rstrip(".")
