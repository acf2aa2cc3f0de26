"""An endpoint as a model: chat, and yes-or-no answers where it gives log-probabilities."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

from contrapose.errors import InputError, option
from contrapose.models.capabilities import (
    ModelCard,
    Prompt,
    QuestionTemplate,
    Reply,
    check_pairs,
    mark_arrived,
)
from contrapose.models.endpoint.client import (
    NEW_TOKEN_LIMIT,
    TOKEN_LIMIT,
    EndpointClient,
    TokenLimitNameError,
)
from contrapose.models.endpoint.protocol import (
    IMAGE_FORMAT,
    LEAST_LOGPROB,
    TOP_LOGPROBS,
    EndpointError,
    encode_request,
)
from contrapose.models.endpoint.rate_limit import RateLimit
from contrapose.models.endpoint.settings import EndpointSettings
from contrapose.models.names import fingerprint

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from contrapose.models.capabilities import AnyImage

T = TypeVar("T")
AnswerKey = tuple[tuple[int, ...], str]
"""Name of a request: ids of its images, and its words."""

ABORT_SECONDS = 1.0
"""Seconds that requests in flight have to end when the program is interrupted."""

NOISE_SIDE = 336
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


class Endpoint:
    """A chat model behind an HTTP endpoint.

    Attributes:
        name: the canonical model string, without credentials.
        fingerprint: hash of the address, the model's name there, and the settings of requests; the
            server's weights are not visible.
        batch_size: twice the number of concurrent requests.
        prices: per million tokens in and out; None where unknown.
        default_scores: scores that are computed when the user names none.
    """

    default_scores: tuple[str, ...] = ("chat",)

    def __init__(self, settings: EndpointSettings, rate_limit: RateLimit | None = None):
        """Create the endpoint; `rate_limit` replaces that of the settings in tests."""
        self.settings = settings
        self.name = settings.name
        self.batch_size = 2 * settings.parallel
        self.prices = settings.prices
        self.fingerprint = fingerprint(
            (),
            url=settings.url,
            model=settings.model,
            pictures=IMAGE_FORMAT,
            **settings.reply_settings(),
        )
        stop = Event()
        self._client = EndpointClient(
            settings, rate_limit or RateLimit(settings.rpm, sleep=stop.wait), stop
        )
        self._limit_name = TOKEN_LIMIT
        self._kept: dict[AnswerKey, tuple[Any, Any]] = {}

    @property
    def card(self) -> ModelCard:
        """The model card."""
        return ModelCard(
            family="chat endpoint",
            parameters=0,
            dtype="fp32",
            preprocessing=f"RGB, {IMAGE_FORMAT}; what the server makes of it is not known",
            context=None,
            notes=("the server may change without its name or this fingerprint changing",),
        )

    def reply(self, prompts: Sequence[Prompt]) -> Sequence[Reply]:
        """One reply per prompt; several requests run in parallel.

        Raises:
            InputError: the endpoint refuses a prompt.
            EndpointError: the endpoint failed. Prompts whose replies arrived are marked on it, and
                are not sent again when the next call asks for one of them alone.
        """
        keys = [(tuple(map(id, prompt.images)), prompt.text) for prompt in prompts]
        calls = [partial(self._send, prompt, first=False) for prompt in prompts]
        return self._answer_all(keys, prompts, calls)

    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log-probability that the reply's first token is the answer.

        The probability is summed over those of the likeliest tokens that equal the answer up to
        space and case; it is not normalized over yes and no. An answer must be one token.

        Raises:
            InputError: a caption is empty, or the answer is not among the likeliest tokens.
            EndpointError: the endpoint failed, or gives no log-probabilities.
        """
        import numpy as np

        if not all(text.strip() for text in texts):
            raise InputError("a caption is empty.")
        check_pairs(self.name, images, texts)
        asked = [question.about(text) for text in texts]
        keys = [
            ((id(image),), f"{question.answer}\0{text}")
            for image, text in zip(images, asked, strict=True)
        ]
        calls = [
            partial(self._answer_logprob, Prompt((cast(Any, image),), text), question.answer)
            for image, text in zip(images, asked, strict=True)
        ]
        logprobs = self._answer_all(keys, images, calls)
        # An array instead of a tensor, so that an endpoint needs no torch.
        return cast("Tensor", np.array(logprobs, dtype=np.float64))

    def noise_images(self, count: int, seed: int) -> Sequence[Image]:
        """Gaussian noise with CLIP's pixel mean and standard deviation.

        The server's normalization is not known.
        """
        import numpy as np
        from PIL import Image

        drawn = np.random.default_rng(seed).standard_normal((count, NOISE_SIDE, NOISE_SIDE, 3))
        pixels = np.clip(drawn * CLIP_STD + CLIP_MEAN, 0, 1) * 255
        return [Image.fromarray(array.round().astype(np.uint8)) for array in pixels]

    def _answer_all(
        self, keys: Sequence[AnswerKey], inputs: Sequence[Any], calls: Sequence[Callable[[], T]]
    ) -> list[T]:
        """Results of calls; where some fail, those of the others are kept for calls alone.

        Args:
            keys: name of each call.
            inputs: objects whose ids the names hold; kept as long as the results.
            calls: send one request each.

        Raises:
            InputError: the endpoint refuses a request.
            EndpointError: the endpoint failed. The calls whose results arrived are marked.
        """
        kept = self._take_kept(keys)
        outcomes: list[T | InputError | None] = [kept]
        if kept is None:
            outcomes = [None] * len(calls)
            try:
                self._run_all(calls, outcomes)
            except BaseException as error:
                arrived = [
                    k
                    for k, outcome in enumerate(outcomes)
                    if not (outcome is None or isinstance(outcome, InputError))
                ]
                self._kept = {keys[k]: (inputs[k], outcomes[k]) for k in arrived}
                mark_arrived(error, arrived)
                raise
        refusal = next((item for item in outcomes if isinstance(item, InputError)), None)
        if refusal is not None:
            if len(keys) > 1:
                kept_inputs = zip(inputs, outcomes, strict=True)
                self._kept = dict(zip(keys, kept_inputs, strict=True))
            raise refusal
        return cast("list[T]", outcomes)

    def _take_kept(self, keys: Sequence[AnswerKey]) -> Any:
        """Result of a single call that was kept when its batch failed; None where there is none."""
        if len(keys) == 1 and keys[0] in self._kept:
            return self._kept.pop(keys[0])[1]
        self._kept = {}
        return None

    def _run_all(
        self,
        calls: Sequence[Callable[[], T]],
        outcomes: list[T | InputError | None] | None = None,
    ) -> list[T | InputError]:
        """Run calls that send requests, some at a time; a refusal takes the place of its result.

        The threads are daemons: a program that is interrupted does not wait for the server.

        Args:
            calls: the calls.
            outcomes: filled as results arrive; those of calls that failed stay None.

        Raises:
            EndpointError: the endpoint failed.
        """
        outcomes = [None] * len(calls) if outcomes is None else outcomes
        left = deque(range(len(calls)))
        ended: SimpleQueue[BaseException | None] = SimpleQueue()
        stop = self._client.stop

        def work() -> None:
            while not stop.is_set():
                try:
                    number = left.popleft()
                except IndexError:
                    break
                try:
                    outcomes[number] = calls[number]()
                except InputError as refusal:
                    outcomes[number] = refusal
                except BaseException as error:
                    ended.put(error)
                    stop.set()
                    return
            ended.put(None)

        threads = [
            Thread(target=work, daemon=True) for _ in range(min(self.settings.parallel, len(calls)))
        ]
        self._client.begin()
        try:
            errors = [ended.get() for _ in range(_start(threads))]
        except BaseException:
            left.clear()  # a thread that cannot be broken off begins no other call
            self._client.abort()
            until = time.monotonic() + ABORT_SECONDS
            for thread in threads:
                if thread.ident is not None:
                    thread.join(max(0.0, until - time.monotonic()))
            raise
        first = next((error for error in errors if error is not None), None)
        if first is not None:
            raise first
        return [outcome for outcome in outcomes if outcome is not None]

    def _answer_logprob(self, prompt: Prompt, answer: str) -> float:
        return answer_logprob(self._send(prompt, first=True), answer, self.name)

    def _send(self, prompt: Prompt, *, first: bool) -> Reply:
        try:
            return self._client.send(
                encode_request(prompt, self.settings, first=first, limit_name=self._limit_name)
            )
        except TokenLimitNameError:
            self._limit_name = NEW_TOKEN_LIMIT
            return self._client.send(
                encode_request(prompt, self.settings, first=first, limit_name=NEW_TOKEN_LIMIT)
            )


def _start(threads: Sequence[Thread]) -> int:
    """Start as many threads as the machine allows, and return how many.

    Raises:
        EndpointError: it allows none.
    """
    for count, thread in enumerate(threads):
        try:
            thread.start()
        except RuntimeError as error:
            if not count:
                raise EndpointError(
                    f"this machine gives no thread for requests ({error})."
                ) from None
            return count
    return len(threads)


def answer_logprob(reply: Reply, answer: str, name: str) -> float:
    """Log P(answer) from a reply's first tokens.

    Raises:
        InputError: it is not among them.
        EndpointError: there are none.
    """
    if not reply.first:
        raise EndpointError(
            f"{name} gives no log-probabilities, which vqa needs: ask it with "
            f"{option('score', 'chat')}."
        )
    wanted = answer.strip().casefold()
    logprobs = [
        value
        for token, value in reply.first.items()
        if token.strip().casefold() == wanted and LEAST_LOGPROB < value < math.inf
    ]
    if not logprobs:
        raise InputError(
            f"{answer!r} is not among the {len(reply.first)} likeliest first tokens of the reply "
            f"(at most {TOP_LOGPROBS} are given), so its probability is not known."
        )
    top = max(logprobs)
    return min(0.0, top + math.log(sum(math.exp(value - top) for value in logprobs)))
