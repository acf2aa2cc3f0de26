"""Models that vLLM or SGLang serve: likelihoods of captions, answers and chat over HTTP.

The tokenizer and the chat template are read here, so that a caption has the tokens, the prompt and
the end that it has when the model runs on this machine; the weights are the server's. Every
response is compared with these tokens, and a caption that the server reads otherwise is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

from contrapose.arrays import Ragged
from contrapose.errors import InputError
from contrapose.models.capabilities import (
    PREVIEW_LENGTH,
    ModelCard,
    QuestionTemplate,
    check_pairs,
)
from contrapose.models.caption_tokens import CaptionTokenCounter
from contrapose.models.endpoint.client import EndpointClient, RefusedPromptError
from contrapose.models.endpoint.model import Endpoint
from contrapose.models.endpoint.protocol import (
    IMAGE_FORMAT,
    EndpointError,
    ImageUrls,
    LogprobServer,
    ReplyRequest,
    encode_data_url,
    encode_urls,
    malformed_reply,
    parse_json,
)
from contrapose.models.endpoint.rate_limit import RateLimit
from contrapose.models.endpoint.settings import EndpointSettings
from contrapose.models.endpoint.sglang import SglangServer
from contrapose.models.endpoint.vllm import VllmServer
from contrapose.models.names import fingerprint, is_folder

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from contrapose.models.capabilities import AnyImage, PreparedImage
    from contrapose.models.hf.vlm.prompts import ChatPrompts
    from contrapose.models.video_reader import FrameTiming

REFUSALS = frozenset((400, 413, 422))
"""Statuses by which a server refuses one prompt, such as one that is too long."""
BATCHES = 8
"""Pairs of a batch for each concurrent request."""
LONGEST_CAPTION = 1024
"""Most tokens of a caption, as for models on this machine."""
MAX_FRAMES = 9999
"""Most frames of a video."""
QUESTION_MARGIN = 16
"""Tokens that a caption may have more inside a question than alone."""
UNSTATED = frozenset((400, 401, 403, 404, 405, 410, 422))
"""Statuses of a server, or of a gateway before it, that does not know a path."""
NAMES_SHOWN = 20
"""Models of a server that an error names."""
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class ServedFacts:
    """Facts that a server states about its model.

    Attributes:
        identity: id, source, parent and version of the weights, as far as they are stated.
        sources: folders or hub ids where its tokenizer may lie, likeliest first.
        context: most tokens of prompt and reply; None where unknown.
    """

    identity: Mapping[str, str]
    sources: tuple[str, ...]
    context: int | None


def load_served(settings: EndpointSettings, rate_limit: RateLimit | None = None) -> ServedModel:
    """Load a served model: ask the server what it serves, and open tokenizer and template here.

    Raises:
        InputError: there is no tokenizer, or it is not the one that is served.
        EndpointError: the server does not answer, or does not serve the model.
        MissingExtraError: transformers or torch is not installed.
    """
    from contrapose.models.hf import require_torch

    require_torch(settings.name)
    from contrapose.models.hf.checkpoint import open_processor
    from contrapose.models.hf.vlm.processors import load_processor
    from contrapose.models.hf.vlm.prompts import ChatPrompts

    facts = ask_facts(settings, rate_limit or RateLimit(settings.rpm))
    source = settings.tokenizer or _find_source(facts.sources)
    if not source:
        raise InputError(
            f"{settings.name} needs the tokenizer and chat template of the model: name their "
            "folder or hub id by tokenizer=…; for chat alone, openai:MODEL,url=… needs none."
        )
    checkpoint = open_processor(source, settings.name)
    processor = load_processor(checkpoint)
    prompts = ChatPrompts(settings.name, processor, cut=settings.cut)
    return ServedModel(settings, rate_limit, facts, checkpoint.fingerprint, prompts, processor)


def ask_facts(settings: EndpointSettings, rate_limit: RateLimit) -> ServedFacts:
    """Ask a server for its models, and SGLang for the version of the weights too.

    Raises:
        EndpointError: it does not answer, or does not serve the model.
    """
    client = EndpointClient(settings, rate_limit, path="/models")
    try:
        cards = client.request(None, _parse_models)
    except InputError as error:
        raise EndpointError(f"the endpoint {settings.url} cannot be used: {error}") from None
    if settings.model not in cards:
        raise EndpointError(
            f"the endpoint {settings.url} serves no model {settings.model!r}: it serves "
            f"{_list_names(cards)}."
        )
    card = dict(cards[settings.model])
    if settings.kind == "sglang":
        card |= _ask_weight_version(settings, rate_limit)
    stated = ("root", "parent", "revision", "model_path", "tokenizer_path", "weight_version")
    texts = {key: str(card[key]) for key in stated if card.get(key)}
    sources = [texts.get(key, "") for key in ("tokenizer_path", "root", "model_path", "parent")]
    context = card.get("max_model_len")
    return ServedFacts(
        {"id": settings.model, **texts},
        (*sources, settings.model),
        context if isinstance(context, int) and context > 0 else None,
    )


def _list_names(names: Iterable[str]) -> str:
    """List the first names and count the others; a server may state thousands."""
    names = sorted(names)
    shown = [name[:PREVIEW_LENGTH] for name in names[:NAMES_SHOWN]]
    more = len(names) - len(shown)
    return f"{', '.join(shown) or 'none'}{f' and {more:,} more' if more else ''}"


def _ask_weight_version(settings: EndpointSettings, rate_limit: RateLimit) -> dict[str, Any]:
    """Facts of SGLang's model; none where it is too old to state them.

    Raises:
        EndpointError: the server fails to answer; without the facts the model would be another.
    """
    root = settings.target._replace(path=settings.target.path.removesuffix("/v1"))
    bare = replace(settings, target=root)
    for path in ("/model_info", "/get_model_info"):
        client = EndpointClient(bare, rate_limit, path=path, refusals=UNSTATED)
        with suppress(RefusedPromptError):
            return dict(client.request(None, _parse_object))
    return {}


def _parse_object(content: bytes) -> Mapping[str, Any]:
    response = parse_json(content)
    if not isinstance(response, Mapping):
        raise malformed_reply(content)
    return response


def _parse_models(content: bytes) -> dict[str, Mapping[str, Any]]:
    """Models of a server by id."""
    try:
        return {str(card["id"]): dict(card) for card in _parse_object(content)["data"]}
    except (KeyError, TypeError, ValueError):
        raise malformed_reply(content) from None


def _find_source(sources: Sequence[str]) -> str:
    """First source that is a folder on this machine or looks like a hub id; empty for none."""
    for source in sources:
        if source and (_HUB_ID.fullmatch(source) or is_folder(source)):
            return source
    return ""


class ServedModel(CaptionTokenCounter, Endpoint):
    """Image-text-to-text model behind vLLM or SGLang: scores `lm` and `vqa`, and chat.

    Attributes:
        name: the canonical model string, without credentials.
        fingerprint: hash of the address, of what the server states about its model, of tokenizer
            and template, and of the user's settings; the server's weights are not visible.
        lm_tokens: the counted tokens and the prompt before them, as of a model on this machine.
        prompts: chat template and tokenizer.
    """

    default_scores = ("lm", "vqa")

    def __init__(
        self,
        settings: EndpointSettings,
        rate_limit: RateLimit | None,
        facts: ServedFacts,
        tokenizer: str,
        prompts: ChatPrompts,
        processor: Any,
    ):
        super().__init__(settings, rate_limit)
        self.batch_size = BATCHES * settings.parallel
        self.fingerprint = fingerprint(
            (),
            kind=settings.kind,
            url=settings.url,
            tokenizer_files=tokenizer,
            pictures=IMAGE_FORMAT,
            named_revision=settings.revision,
            cut=settings.cut,
            **settings.reply_settings(),
            **facts.identity,
        )
        self.prompts = prompts
        self.lm_tokens = f"caption+end|{prompts.identity}"
        self._facts, self._processor = facts, processor
        self._server = self._connect()
        used = self._server.count_prompt(self._request(self._noise_url(), prompts.prompt))
        room = LONGEST_CAPTION
        if facts.context is not None:  # one token is generated
            room = facts.context - used - 1 - self._question_room()
        if room < 2:
            raise InputError(
                f"{self.name} reads {facts.context} tokens, and an image with the prompt takes "
                f"{used}."
            )
        self.prompts.context = min(LONGEST_CAPTION, room)

    @property
    def card(self) -> ModelCard:
        """The model card."""
        program = {"vllm": "vLLM", "sglang": "SGLang"}[self.settings.kind]
        stated = ", ".join(f"{key} {text}" for key, text in self._facts.identity.items())
        return ModelCard(
            family=f"served by {program}",
            parameters=0,
            dtype="fp32",
            preprocessing=f"RGB, {IMAGE_FORMAT}; then as the server does it",
            context=self.context,
            notes=(
                f"The server states {stated}; its dtype and its weights are not visible.",
                f"lm is of the caption's tokens and its end, {self.prompts.end_text!r}, as the "
                f"reply to {self.prompts.prompt!r} in the model's chat template.",
                *self._server.notes,
            ),
        )

    @property
    def caption_inputs(self) -> ChatPrompts:
        """Tokenizer of captions: the prompts that they reply to."""
        return self.prompts

    @property
    def video_input(self) -> str:
        """`video` or `images`; empty where the server is sent one frame after the other."""
        return {"own": "video", "images": "images", "frames": ""}[self.settings.video]

    @property
    def max_frames(self) -> int:
        """Most frames of a video in one request, which the server's context may not hold."""
        return MAX_FRAMES if self.video_input else 0

    def prepare_video(self, frames: Sequence[Image], timing: FrameTiming) -> PreparedImage:
        """Encode the frames of a video for one request."""
        urls = tuple(encode_data_url(frame) for frame in frames)
        image = ImageUrls(urls, timing if self.video_input == "video" else None)
        return cast("PreparedImage", image)

    def with_prompt(self, prompt: str) -> ServedModel:
        """Return the model with another prompt before captions; the connection is shared.

        Raises:
            InputError: the chat template does not take it.
        """
        from contrapose.models.hf.vlm.prompts import ChatPrompts

        prompts = ChatPrompts(self.name, self._processor, cut=self.prompts.cut, prompt=prompt)
        more = len(prompts.tail) - len(self.prompts.tail)
        prompts.context = self.context if more <= 0 else max(2, self.context - more)
        model = copy(self)
        model.prompts, model._kept = prompts, {}
        model.lm_tokens = f"caption+end|{prompts.identity}"
        return model

    def token_logprobs(self, images: Sequence[AnyImage], texts: Sequence[str]) -> Ragged:
        """Log P of each token of a caption and of its end, as the reply to the prompt.

        Raises:
            InputError: a caption is empty or too long, or the server refuses it.
            EndpointError: the server failed.
        """
        import numpy as np

        check_pairs(self.name, images, texts)
        tokens = [continuation.ids for continuation in self.prompts.captions(texts)]
        replies = [f"{text}{self.prompts.end_text}" for text in self.prompts.read_texts(texts)]
        turns = [
            (self.prompts.prompt, reply, ids) for reply, ids in zip(replies, tokens, strict=True)
        ]
        rows = self._score(images, turns)
        values = np.array([value for row in rows for value in row], dtype=np.float64)
        return Ragged(values, np.array([0, *accumulate(map(len, rows))], dtype=np.int64))

    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """(n,) log P of the answer to a question about each caption, its tokens summed.

        Raises:
            InputError: a caption is empty or too long, or the server refuses it.
            EndpointError: the server failed.
        """
        import numpy as np

        check_pairs(self.name, images, texts)
        turns = []
        for text in self.prompts.read_texts(texts):
            about = question.about(text)
            tokens = self.prompts.answer_tokens(self.prompts.render_question(about), question)
            turns.append((about, question.answer, tokens))
        rows = self._score(images, turns)
        # An array instead of a tensor: nothing is computed here.
        return cast("Tensor", np.array([sum(row) for row in rows], dtype=np.float64))

    def _score(
        self, images: Sequence[AnyImage], turns: Sequence[tuple[str, str, tuple[int, ...]]]
    ) -> list[list[float]]:
        """Log-probabilities of replies, given as question, reply and its tokens."""
        keys = [
            ((id(image),), f"{question}\0{reply}")
            for image, (question, reply, _) in zip(images, turns, strict=True)
        ]
        if len(keys) == 1 and keys[0] in self._kept:  # alone after its batch failed
            return self._answer_all(keys, images, ())
        distinct = {id(image): image for image in images}
        encoded = self._run_all([partial(encode_urls, image) for image in distinct.values()])
        urls = dict(zip(distinct, _unwrap(encoded), strict=True))
        requests = [
            self._request(urls[id(image)], *turn) for image, turn in zip(images, turns, strict=True)
        ]
        self._run_all(self._server.prepare(requests))  # refusals come again with their captions
        calls = [partial(self._server.reply_logprobs, item) for item in requests]
        return self._answer_all(keys, images, calls)

    def _request(
        self, image: ImageUrls, question: str, reply: str = "", tokens: tuple[int, ...] = ()
    ) -> ReplyRequest:
        is_video = image.timing is not None  # the server renders it; its text after it is the same
        turn = self.prompts.render_question(question, 1 if is_video else len(image.urls))
        return ReplyRequest(
            image=image,
            question=question,
            prompt=self.prompts.render_reply(turn, ""),
            head=() if is_video else self.prompts.head_tokens(turn),
            tail=self.prompts.tail_tokens(turn),
            reply=reply,
            text=self.prompts.render_reply(turn, reply),
            tokens=tokens,
        )

    def _question_room(self) -> int:
        """Tokens that the usual question and its answer take more than the prompt of captions."""
        turn = self.prompts.render_question(QuestionTemplate().about(""))
        answer = self.prompts.answer_tokens(turn, QuestionTemplate())
        question = self.prompts.tail_tokens(turn)
        return max(0, len(question) + len(answer) - len(self.prompts.tail)) + QUESTION_MARGIN

    def _noise_url(self) -> ImageUrls:
        return encode_urls(self.noise_images(1, 0)[0])

    def _connect(self) -> LogprobServer:
        client = replace(self._client, refusals=REFUSALS)
        if self.settings.kind == "vllm":
            return VllmServer(client, special=not self.prompts.bare)
        target = self.settings.target
        root = target._replace(path=target.path.removesuffix("/v1"))
        native = replace(self.settings, target=root)
        return SglangServer(replace(client, settings=native, path="/generate"))


def _unwrap(outcomes: Sequence[Any]) -> list[Any]:
    """Results; the first refusal is raised."""
    for outcome in outcomes:
        if isinstance(outcome, InputError):
            raise outcome
    return list(outcomes)
