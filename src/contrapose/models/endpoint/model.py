"""An endpoint as a model: chat, and yes-or-no answers where it gives log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar, cast

from contrapose.errors import InputError, option
from contrapose.models.capabilities import ModelCard, Prompt, QuestionTemplate, Reply, check_pairs
from contrapose.models.endpoint.client import (
    NEW_TOKEN_LIMIT,
    TOKEN_LIMIT,
    EndpointClient,
    RateLimit,
    TokenLimitNameError,
)
from contrapose.models.endpoint.protocol import (
    IMAGE_FORMAT,
    TOP_LOGPROBS,
    EndpointError,
    encode_request,
)
from contrapose.models.endpoint.settings import EndpointSettings
from contrapose.models.names import fingerprint

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from contrapose.models.capabilities import AnyImage

T = TypeVar("T")
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
        self._spare: dict[tuple[int, str], tuple[Any, Reply]] = {}

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
            EndpointError: the endpoint failed; holds the replies so far.
        """
        return self._send_all(prompts, first=False)

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
        pairs = list(zip(images, texts, strict=True))
        keys = [(id(image), question.about(text)) for image, text in pairs]
        if len(keys) == 1 and keys[0] in self._spare:  # sent alone after its batch was refused
            replies = [self._spare.pop(keys[0])[1]]
        else:
            prompts = [Prompt((cast(Any, image),), question.about(text)) for image, text in pairs]
            replies = self._send_all(prompts, first=True)
        try:
            logprobs = [answer_logprob(reply, question.answer, self.name) for reply in replies]
        except InputError:
            if len(keys) > 1:
                self._spare = dict(zip(keys, zip(images, replies, strict=True), strict=True))
            raise
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

    def _send_all(self, prompts: Sequence[Prompt], *, first: bool) -> list[Reply]:
        outcomes = self._run_all([partial(self._send, prompt, first) for prompt in prompts])
        for outcome in outcomes:
            if isinstance(outcome, InputError):
                raise outcome
        return [outcome for outcome in outcomes if not isinstance(outcome, InputError)]

    def _run_all(self, calls: Sequence[Callable[[], T]]) -> list[T | InputError]:
        """Run calls that send requests, some at a time; a refusal takes the place of its result.

        Raises:
            EndpointError: the endpoint failed; holds the results so far.
        """
        if not calls:
            return []
        pool = ThreadPoolExecutor(min(self.settings.parallel, len(calls)))
        outcomes: list[T | InputError | None] = []
        stopped: EndpointError | None = None
        try:
            for future in [pool.submit(call) for call in calls]:
                try:
                    outcomes.append(future.result())
                except EndpointError as error:
                    stopped = stopped or error
                    outcomes.append(None)
                    self._client.stop.set()
                except InputError as error:
                    outcomes.append(error)
        except BaseException:
            self._client.stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            self._client.stop.clear()
        if stopped is not None:
            replies = [item if isinstance(item, Reply) else None for item in outcomes]
            raise EndpointError(stopped.message, replies)
        return [outcome for outcome in outcomes if outcome is not None]

    def _send(self, prompt: Prompt, first: bool) -> Reply:
        try:
            return self._client.send(
                encode_request(prompt, self.settings, first=first, limit_name=self._limit_name)
            )
        except TokenLimitNameError:
            self._limit_name = NEW_TOKEN_LIMIT
            return self._client.send(
                encode_request(prompt, self.settings, first=first, limit_name=NEW_TOKEN_LIMIT)
            )


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
        if token.strip().casefold() == wanted and math.isfinite(value)
    ]
    if not logprobs:
        raise InputError(
            f"{answer!r} is not among the {len(reply.first)} likeliest first tokens of the reply "
            f"(at most {TOP_LOGPROBS} are given), so its probability is not known."
        )
    top = max(logprobs)
    return min(0.0, top + math.log(sum(math.exp(value - top) for value in logprobs)))
