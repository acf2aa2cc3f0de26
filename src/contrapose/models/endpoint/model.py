"""An endpoint as a model: chat, and yes-or-no answers where it gives log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Any, cast

from contrapose.errors import InputError
from contrapose.models.capabilities import ModelCard, Prompt, QuestionTemplate, Reply
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

NOISE_SIDE = 336
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


class Endpoint:
    """A chat model behind an HTTP endpoint.

    Attributes:
        name: the canonical model string, without credentials.
        fingerprint: of the address, the model's name there, and what is sent with each question:
            what the server computes cannot be seen from here.
        batch_size: twice the questions on their way at once.
        prices: of a million tokens in and out; None when the user does not say.
        default_scores: what it is asked for when the user names no score.
    """

    default_scores = ("chat",)

    def __init__(self, settings: EndpointSettings, pace: RateLimit | None = None):
        """Create the endpoint; `pace` replaces the rate limit in tests."""
        self.settings = settings
        self.name = settings.name
        self.batch_size = 2 * settings.parallel
        self.prices = settings.prices
        self.fingerprint = fingerprint(
            (), url=settings.url, model=settings.model, pictures=IMAGE_FORMAT, **settings.named()
        )
        stop = Event()
        self._client = EndpointClient(
            settings, pace or RateLimit(settings.rpm, sleep=stop.wait), stop
        )
        self._cap = TOKEN_LIMIT
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
            StoppedError: the endpoint cannot go on; holds the replies that came.
        """
        return self._asked(prompts, first=False)

    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log-probability that the reply's first token is the answer.

        It is the sum over those of the likeliest tokens that are the answer but for space and case,
        as the server gives them: not normalised over yes and no. An answer of several tokens is
        never found.

        Raises:
            InputError: a caption is empty, or the answer is not among the likeliest tokens, so that
                its probability is not known.
            StoppedError: the endpoint cannot go on, or gives no log-probabilities.
        """
        import numpy as np

        if not all(text.strip() for text in texts):
            raise InputError("a caption is empty.")
        pairs = list(zip(images, texts, strict=True))
        keys = [(id(image), question.about(text)) for image, text in pairs]
        if len(keys) == 1 and keys[0] in self._spare:  # asked alone after its batch was refused
            replies = [self._spare.pop(keys[0])[1]]
        else:
            prompts = [Prompt((cast(Any, image),), question.about(text)) for image, text in pairs]
            replies = self._asked(prompts, first=True)
        try:
            found = [answer_logprob(each, question.answer, self.name) for each in replies]
        except InputError:
            if len(keys) > 1:
                self._spare = dict(zip(keys, zip(images, replies, strict=True), strict=True))
            raise
        # An array stands for the tensor, so that an endpoint needs no torch.
        return cast("Tensor", np.array(found, dtype=np.float64))

    def noise_images(self, count: int, seed: int) -> Sequence[Image]:
        """Gaussian noise with CLIP's pixel mean and standard deviation.

        What the model normalises by is not known from here.
        """
        import numpy as np
        from PIL import Image

        drawn = np.random.default_rng(seed).standard_normal((count, NOISE_SIDE, NOISE_SIDE, 3))
        pixels = np.clip(drawn * CLIP_STD + CLIP_MEAN, 0, 1) * 255
        return [Image.fromarray(each.round().astype(np.uint8)) for each in pixels]

    def _asked(self, prompts: Sequence[Prompt], *, first: bool) -> list[Reply]:
        if not prompts:
            return []
        pool = ThreadPoolExecutor(min(self.settings.parallel, len(prompts)))
        replies: list[Reply | None] = []
        stopped: EndpointError | None = None
        refused: InputError | None = None
        try:
            for each in [pool.submit(self._one, prompt, first) for prompt in prompts]:
                try:
                    replies.append(each.result())
                except EndpointError as error:
                    stopped = stopped or error
                    replies.append(None)
                    self._client.stop.set()
                except InputError as error:
                    refused = refused or error
                    replies.append(None)
        except BaseException:
            self._client.stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            self._client.stop.clear()
        if stopped is not None:
            raise EndpointError(stopped.message, replies)
        if refused is not None:
            raise refused
        return [each for each in replies if each is not None]

    def _one(self, prompt: Prompt, first: bool) -> Reply:
        try:
            return self._client.send(
                encode_request(prompt, self.settings, first=first, cap=self._cap)
            )
        except TokenLimitNameError:
            self._cap = NEW_TOKEN_LIMIT
            return self._client.send(
                encode_request(prompt, self.settings, first=first, cap=NEW_TOKEN_LIMIT)
            )


def answer_logprob(reply: Reply, answer: str, name: str) -> float:
    """Log P(answer) from a reply's first tokens.

    Raises:
        InputError: it is not among them.
        StoppedError: there are none.
    """
    if not reply.first:
        raise EndpointError(
            f"{name} gives no log-probabilities, which vqa needs: ask it with --score chat."
        )
    wanted = answer.strip().casefold()
    found = [
        value
        for token, value in reply.first.items()
        if token.strip().casefold() == wanted and math.isfinite(value)
    ]
    if not found:
        raise InputError(
            f"{answer!r} is not among the {len(reply.first)} likeliest first tokens of the reply "
            f"(at most {TOP_LOGPROBS} are given), so its probability is not known."
        )
    top = max(found)
    return min(0.0, top + math.log(sum(math.exp(value - top) for value in found)))
