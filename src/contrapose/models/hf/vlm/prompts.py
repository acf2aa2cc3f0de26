"""What a model is asked, in its own chat template, as tokens: prompts, captions, questions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from threading import Lock
from typing import Any

from contrapose.errors import InputError
from contrapose.models.capabilities import QuestionTemplate
from contrapose.models.captions import SHOWN, check_caption
from contrapose.models.hf.vlm.packed import Continuation

PROMPT = "Describe this image in one sentence."
"""What stands before a caption, after the image."""
_MARK = "Qxzv"
_OTHERS = ("a", "Qxzv")
"""Two captions that share no beginning."""


class Prompts:
    """A chat template and its tokeniser.

    Attributes:
        name: of the model, for errors.
        prompt: what stands before a caption.
        context: most tokens of a caption, with its end.
        cut: cut longer captions rather than refuse them.
        end: the token after a caption: what the template puts after an assistant's turn, or the
            tokeniser's end of text where it puts none.
        tail: tokens of the prompt after the image.
    """

    def __init__(self, name: str, processor: Any, *, cut: bool, prompt: str = PROMPT):
        self.name = name
        self.prompt = prompt
        self.context = 0
        self.cut = cut
        self._processor = processor
        self._tokenizer = processor.tokenizer
        self.lock = Lock()  # a fast tokeniser may not be used by two threads at once
        self._special = _special_tokens(self._tokenizer)
        self.text = self.ask(prompt)
        bos = self._tokenizer.bos_token
        self.bare = bool(bos) and self.text.startswith(bos)
        self._before, self.end = self._turn()
        self.image = self._image_token()
        self._base = self._ids([self.text])[0]
        self.tail = self._after_image(self._base)

    @property
    def end_text(self) -> str:
        """The end token as text."""
        return str(self._tokenizer.convert_ids_to_tokens(self.end))

    @property
    def identity(self) -> str:
        """The prompt, readable, and a hash of all that the template makes of it."""
        whole = f"{self.text}\0{self._before}\0{self.end_text}"
        mark = hashlib.blake2b(whole.encode(), digest_size=4).hexdigest()
        return f"prompt={self.prompt}|template={mark}"

    def ask(self, text: str, images: int = 1) -> str:
        """The template's text of one turn: images, words, and the beginning of the reply.

        Raises:
            InputError: the template does not take it.
        """
        return self._rendered(_turn(text, images), generate=True)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut, with its end."""
        return [len(ids) + 1 for ids in self._replies(self.text, self._base, texts)]

    def captions(self, texts: Sequence[str]) -> list[Continuation]:
        """Captions after the prompt, each with its end.

        Raises:
            InputError: a caption is empty, too long, or holds a mark of the model's own.
        """
        found = []
        for ids in self._checked(texts):
            whole = (*ids[: self.context - 1], self.end)
            found.append(Continuation(whole, len(whole)))
        return found

    def questions(
        self, texts: Sequence[str], question: QuestionTemplate
    ) -> tuple[tuple[int, ...], list[Continuation]]:
        """What all questions share after the image, and the rest of each with its answer.

        Raises:
            InputError: a caption is refused, or there is nothing to read in the answer.
        """
        kept = [
            text if len(ids) < self.context else self._text(ids[: self.context - 1])
            for text, ids in zip(texts, self._checked(texts), strict=True)
        ]
        asked = [self.ask(question.about(text)) for text in kept]
        tails, answers = [], []
        for text, ids in zip(asked, self._ids(asked), strict=True):
            (answer,) = self._replies(text, ids, [question.answer])
            if not answer or not question.answer.strip():
                raise InputError(f"{self.name} reads nothing in the answer {question.answer!r}.")
            tails.append(self._after_image(ids))
            answers.append(answer)
        shared = self._shared(question)
        length = min(_common(tail, shared) for tail in tails) if tails else len(shared)
        return shared[:length], [
            Continuation((*tail[length:], *answer), len(answer))
            for tail, answer in zip(tails, answers, strict=True)
        ]

    def turn(self, text: str) -> tuple[int, ...]:
        """Tokens after the image of a turn with one, as `ask` gives it."""
        return self._after_image(self._ids([text])[0])

    def head(self, ids: Sequence[int]) -> tuple[int, ...]:
        """The prompt's tokens up to the end of the image, as the processor expands it.

        Raises:
            InputError: the processor changes more than the image's place.
        """
        rest = len(ids) - len(self.tail)
        if tuple(ids[rest:]) != self.tail:
            raise InputError(
                f"the processor of {self.name} changes the text after an image, so that captions "
                "cannot be asked after it."
            )
        return tuple(ids[:rest])

    def _shared(self, question: QuestionTemplate) -> tuple[int, ...]:
        """What questions about any captions have in common after the image."""
        one, other = (
            self._after_image(ids)
            for ids in self._ids([self.ask(question.about(text)) for text in _OTHERS])
        )
        return one[: _common(one, other)]

    def _checked(self, texts: Sequence[str]) -> list[list[int]]:
        rows = self._replies(self.text, self._base, texts)
        most = None if self.cut else self.context
        for text, ids in zip(texts, rows, strict=True):
            check_caption(self.name, text, len(ids) + 1, 1, most)
            for number in ids:
                if number in self._special:
                    raise InputError(
                        f"the caption {text[:SHOWN]!r} holds {self._special[number]!r}, a mark of "
                        f"{self.name} itself: write it in another way."
                    )
        return rows

    def _replies(self, asked: str, base: list[int], texts: Sequence[str]) -> list[list[int]]:
        """Tokens of replies to one turn, without an end."""
        if not texts:
            return []
        rows = self._ids([asked + self._before + text for text in texts])
        own = [row[: len(base)] == base for row in rows]
        if all(own):
            return [row[len(base) :] for row in rows]
        alone = self._ids([self._before + text for text in texts], special=False)
        return [
            row[len(base) :] if fits else other
            for row, fits, other in zip(rows, own, alone, strict=True)
        ]

    def _ids(self, texts: Sequence[str], *, special: bool = True) -> list[list[int]]:
        with self.lock:
            found = self._tokenizer(
                list(texts),
                add_special_tokens=special and not self.bare,
                padding=False,
                verbose=False,
            )
        return [list(row) for row in found["input_ids"]]

    def _text(self, ids: Sequence[int]) -> str:
        with self.lock:
            return str(self._tokenizer.decode(ids)).strip()

    def _after_image(self, ids: Sequence[int]) -> tuple[int, ...]:
        return tuple(ids[list(ids).index(self.image) + 1 :])

    def _turn(self) -> tuple[str, int]:
        """What stands between the beginning of a reply and its words, and its end token."""
        said = {"role": "assistant", "content": [{"type": "text", "text": _MARK}]}
        whole = self._rendered([*_turn(self.prompt, 1), said], generate=False)
        start, found, after = whole.partition(_MARK)
        before = start.removeprefix(self.text) if found and start.startswith(self.text) else ""
        named = {token: number for number, token in self._special.items()}
        places = {token: after.find(token) for token in named if token in after}
        if places:
            return before, named[min(places, key=lambda token: (places[token], -len(token)))]
        if self._tokenizer.eos_token_id is None:
            raise InputError(
                f"{self.name} has no end token, neither in its chat template nor in its tokeniser: "
                "the probability of a whole caption needs one; set eos_token in its "
                "tokenizer_config.json."
            )
        return before, int(self._tokenizer.eos_token_id)

    def _image_token(self) -> int:
        """The token that stands for an image in the template's text."""
        (ids,) = self._ids([self.text])
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

    def _rendered(self, turns: list[dict[str, Any]], *, generate: bool) -> str:
        from transformers.processing_utils import ProcessorMixin

        try:
            found = ProcessorMixin.apply_chat_template(
                self._processor, turns, add_generation_prompt=generate, tokenize=False
            )
        except Exception as error:  # a template raises what it likes
            first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
            raise InputError(
                f"the chat template of {self.name} takes no image with a text ({first})."
            ) from None
        return str(found)


def _turn(text: str, images: int) -> list[dict[str, Any]]:
    shown: list[dict[str, str]] = [{"type": "image"}] * images
    return [{"role": "user", "content": [*shown, {"type": "text", "text": text}]}]


def _special_tokens(tokenizer: Any) -> dict[int, str]:
    """Tokens that are marks and no words, but for the one of unknown words."""
    added = {number: str(token) for number, token in tokenizer.added_tokens_decoder.items()}
    special = {
        number: text
        for number, text in added.items()
        if tokenizer.added_tokens_decoder[number].special
    }
    special |= dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    special.pop(tokenizer.unk_token_id, None)
    return special


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens that two beginnings share."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length
