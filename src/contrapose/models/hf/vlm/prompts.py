"""Chat template of a model: prompts, captions and questions as tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any

from contrapose.errors import InputError, first_line
from contrapose.models.capabilities import PREVIEW_LENGTH, QuestionTemplate, check_caption
from contrapose.models.hf.vlm.prefix_scoring import Continuation

PROMPT = "Describe this image in one sentence."
"""Text between the image and a caption."""
_PROBE = "Qxzv"
"""A word that no chat template contains."""
_PROBE_CAPTIONS = ("a", _PROBE)
"""Two captions without a common prefix."""


class ChatPrompts:
    """Chat template and tokenizer of a model.

    Attributes:
        name: of the model, for errors.
        prompt: text between the image and a caption.
        context: context length of a caption, its end token included.
        cut: truncate longer captions instead of refusing them.
        end: end token of a caption: the template's token after an assistant's turn, or the
            tokenizer's EOS token where the template has none.
        tail: tokens of the prompt after the image.
    """

    def __init__(self, name: str, processor: Any, *, cut: bool, prompt: str = PROMPT):
        self.name = name
        self.prompt = prompt
        self.context = 0
        self.cut = cut
        self._processor = processor
        self._tokenizer = processor.tokenizer
        self.lock = Lock()  # a fast tokenizer may not be used by two threads at once
        self._special = _find_special_tokens(self._tokenizer)
        self.text = self.render_question(prompt)
        bos = self._tokenizer.bos_token
        self.bare = bool(bos) and self.text.startswith(bos)
        self._before, self.end = self._find_end()
        self.image = self._find_image_token()
        self._base = self._token_ids([self.text])[0]
        self.tail = self._after_image(self._base)

    @property
    def end_text(self) -> str:
        """The end token as text."""
        return str(self._tokenizer.convert_ids_to_tokens(self.end))

    @property
    def identity(self) -> str:
        """The prompt text with a hash of the rendered template."""
        template = f"{self.text}\0{self._before}\0{self.end_text}"
        digest = hashlib.blake2b(template.encode(), digest_size=4).hexdigest()
        return f"prompt={self.prompt}|template={digest}"

    def render_question(self, text: str, images: int = 1) -> str:
        """Render one user turn with images and text, up to the start of the reply.

        Raises:
            InputError: the template does not take it.
        """
        return self._render(_make_turn(text, images), generate=True)

    @cached_property
    def video_text(self) -> str:
        """The prompt with a video in the place of the image, as the library renders it.

        Raises:
            InputError: the chat template has no place for a video.
        """
        turns = [
            {
                "role": "user",
                "content": [{"type": "video"}, {"type": "text", "text": self.prompt}],
            }
        ]
        try:
            rendered = str(
                self._processor.apply_chat_template(
                    turns, add_generation_prompt=True, tokenize=False
                )
            )
        except Exception as error:  # a template can raise anything
            raise self._no_video(first_line(error)) from None
        token = str(getattr(self._processor, "video_token", None))
        if rendered.count(token) != 1:
            raise self._no_video(f"{token!r} does not stand once in {rendered!r}")
        return rendered

    def _no_video(self, why: str) -> InputError:
        return InputError(
            f"the chat template of {self.name} takes no video ({why}): add video=frames to the "
            "model's name for the mean of the frames' scores."
        )

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, its end included."""
        return [len(ids) + 1 for ids in self._replies(self.text, self._base, texts)]

    def captions(self, texts: Sequence[str]) -> list[Continuation]:
        """Captions as continuations of the prompt, each with its end token.

        Raises:
            InputError: a caption is empty, too long, or contains a special token.
        """
        continuations = []
        for ids in self._check_captions(texts):
            tokens = (*ids[: self.context - 1], self.end)
            continuations.append(Continuation(tokens, len(tokens)))
        return continuations

    def questions(
        self, texts: Sequence[str], question: QuestionTemplate
    ) -> tuple[tuple[int, ...], list[Continuation]]:
        """Tokens that all questions share after the image, and the rest of each with its answer.

        Raises:
            InputError: a caption is refused, or the answer has no token.
        """
        captions = self.read_texts(texts)
        questions = [self.render_question(question.about(text)) for text in captions]
        tails, answers = [], []
        for text, ids in zip(questions, self._token_ids(questions), strict=True):
            answers.append(self._answer_tokens(text, ids, question))
            tails.append(self._after_image(ids))
        shared = self._common_tokens(question)
        length = min(_count_common(tail, shared) for tail in tails) if tails else len(shared)
        return shared[:length], [
            Continuation((*tail[length:], *answer), len(answer))
            for tail, answer in zip(tails, answers, strict=True)
        ]

    def read_texts(self, texts: Sequence[str]) -> list[str]:
        """Captions as far as they are read, truncated to the context where `cut` allows it.

        Raises:
            InputError: a caption is empty, too long, or contains a special token.
        """
        return [
            text if len(ids) < self.context else self._decode(ids[: self.context - 1])
            for text, ids in zip(texts, self._check_captions(texts), strict=True)
        ]

    def answer_tokens(self, turn: str, question: QuestionTemplate) -> tuple[int, ...]:
        """Tokens of the answer to a rendered turn.

        Raises:
            InputError: the answer has no token.
        """
        return tuple(self._answer_tokens(turn, self._token_ids([turn])[0], question))

    def render_reply(self, turn: str, reply: str) -> str:
        """Render a turn with the beginning of its reply, as one text for a tokenizer.

        A beginning-of-text token that the tokenizer adds by itself is left out.
        """
        bos = str(self._tokenizer.bos_token)
        added = self.bare and self._tokenizer("a")["input_ids"][:1] == [
            self._tokenizer.bos_token_id
        ]
        return (turn.removeprefix(bos) if added else turn) + (self._before + reply if reply else "")

    def tail_tokens(self, text: str) -> tuple[int, ...]:
        """Tokens after the image of a rendered turn."""
        return self._after_image(self._token_ids([text])[0])

    def head_tokens(self, text: str) -> tuple[int, ...]:
        """Tokens before the image of a rendered turn."""
        ids = self._token_ids([text])[0]
        return tuple(ids[: ids.index(self.image)])

    def head(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Prompt tokens up to the end of the image, as the processor expands it.

        Raises:
            InputError: the processor changes more than the image token.
        """
        rest = len(ids) - len(self.tail)
        if tuple(ids[rest:]) != self.tail:
            raise InputError(
                f"the processor of {self.name} changes the text after an image or a video, so that "
                "captions cannot be asked after it."
            )
        return tuple(ids[:rest])

    def _answer_tokens(self, turn: str, ids: list[int], question: QuestionTemplate) -> list[int]:
        (answer,) = self._replies(turn, ids, [question.answer])
        if not answer or not question.answer.strip():
            raise InputError(f"{self.name} reads nothing in the answer {question.answer!r}.")
        return answer

    def _common_tokens(self, question: QuestionTemplate) -> tuple[int, ...]:
        """Tokens that questions about any caption share after the image."""
        one, other = (
            self._after_image(ids)
            for ids in self._token_ids(
                [self.render_question(question.about(text)) for text in _PROBE_CAPTIONS]
            )
        )
        return one[: _count_common(one, other)]

    def _check_captions(self, texts: Sequence[str]) -> list[list[int]]:
        rows = self._replies(self.text, self._base, texts)
        most = None if self.cut else self.context
        for text, ids in zip(texts, rows, strict=True):
            check_caption(self.name, text, len(ids) + 1, 1, most)
            for number in ids:
                if number in self._special:
                    raise InputError(
                        f"the caption {text[:PREVIEW_LENGTH]!r} holds "
                        f"{self._special[number]!r}, a mark of {self.name} itself: write it in "
                        "another way."
                    )
        return rows

    def _replies(self, turn: str, base: list[int], texts: Sequence[str]) -> list[list[int]]:
        """Tokens of replies to one turn, without an end token."""
        if not texts:
            return []
        rows = self._token_ids([turn + self._before + text for text in texts])
        fits = [row[: len(base)] == base for row in rows]
        if all(fits):
            return [row[len(base) :] for row in rows]
        alone = self._token_ids([self._before + text for text in texts], special=False)
        return [
            row[len(base) :] if fit else other
            for row, fit, other in zip(rows, fits, alone, strict=True)
        ]

    def _token_ids(self, texts: Sequence[str], *, special: bool = True) -> list[list[int]]:
        with self.lock:
            columns = self._tokenizer(
                list(texts),
                add_special_tokens=special and not self.bare,
                padding=False,
                verbose=False,
            )
        return [list(row) for row in columns["input_ids"]]

    def _decode(self, ids: Sequence[int]) -> str:
        with self.lock:
            return str(self._tokenizer.decode(ids)).strip()

    def _after_image(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Tokens after the last image."""
        return tuple(ids[len(ids) - list(ids)[::-1].index(self.image) :])

    def _find_end(self) -> tuple[str, int]:
        """Text between the start of a reply and its words, and the end token."""
        reply = {"role": "assistant", "content": [{"type": "text", "text": _PROBE}]}
        rendered = self._render([*_make_turn(self.prompt, 1), reply], generate=False)
        start, probe, after = rendered.partition(_PROBE)
        before = start.removeprefix(self.text) if probe and start.startswith(self.text) else ""
        named = {token: number for number, token in self._special.items()}
        offsets = {token: after.find(token) for token in named if token in after}
        if offsets:
            return before, named[min(offsets, key=lambda token: (offsets[token], -len(token)))]
        if self._tokenizer.eos_token_id is None:
            raise InputError(
                f"{self.name} has no end token, neither in its chat template nor in its tokeniser: "
                "the probability of a whole caption needs one; set eos_token in its "
                "tokenizer_config.json."
            )
        return before, int(self._tokenizer.eos_token_id)

    def _find_image_token(self) -> int:
        """Placeholder token of an image in the rendered template."""
        (ids,) = self._token_ids([self.text])
        names = [getattr(self._processor, name, None) for name in ("image_token", "boi_token")]
        numbers = [
            getattr(self._processor, "image_token_id", None),
            *(self._tokenizer.convert_tokens_to_ids(name) for name in names if name),
        ]
        for number in numbers:
            if number is not None and ids.count(number) == 1:
                return int(number)
        raise InputError(
            f"the chat template of {self.name} gives an image no place of its own: "
            f"{names[0]!r} does not stand once in {self.text!r}."
        )

    def _render(self, turns: list[dict[str, Any]], *, generate: bool) -> str:
        from transformers.processing_utils import ProcessorMixin

        try:
            rendered = ProcessorMixin.apply_chat_template(
                self._processor, turns, add_generation_prompt=generate, tokenize=False
            )
        except Exception as error:  # a template can raise anything
            raise InputError(
                f"the chat template of {self.name} takes no image with a text "
                f"({first_line(error)})."
            ) from None
        return str(rendered)


def _make_turn(text: str, images: int) -> list[dict[str, Any]]:
    content: list[dict[str, str]] = [{"type": "image"}] * images
    return [{"role": "user", "content": [*content, {"type": "text", "text": text}]}]


def _find_special_tokens(tokenizer: Any) -> dict[int, str]:
    """Special tokens of a tokenizer, the unknown-word token excepted."""
    added = {number: str(token) for number, token in tokenizer.added_tokens_decoder.items()}
    special = {
        number: text
        for number, text in added.items()
        if tokenizer.added_tokens_decoder[number].special
    }
    special |= dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    special.pop(tokenizer.unk_token_id, None)
    return special


def _count_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of leading tokens that two sequences share."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length
