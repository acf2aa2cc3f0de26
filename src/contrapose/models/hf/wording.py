"""Captions as a network that continues text reads them: between a start and an end token."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from contrapose.errors import InputError
from contrapose.models.capabilities import QuestionTemplate
from contrapose.models.captions import SHOWN, check_caption
from contrapose.models.hf.hidden import HiddenWords
from contrapose.models.masks import ZERO, MaskedText, captions_of, replaced

ROOM = 64
"""Least tokens that a question may have beside its caption."""
ADDED = 2
"""Tokens that are added to every caption: the start and the end."""


class Wording:
    """Captions become token numbers, none empty, none longer than the model reads.

    Attributes:
        name: of the model, for errors.
        start: the token before a caption.
        end: the token after it.
        context: most tokens, with start and end.
        cut: cut longer captions rather than refuse them.
    """

    def __init__(self, name: str, tokenizer: Any, *, start: int, end: int, context: int, cut: bool):
        self.name = name
        self.start = start
        self.end = end
        self.context = context
        self.cut = cut
        self._tokenizer = tokenizer
        self._lock = Lock()  # a fast tokeniser may not be used by two threads at once
        self._hidden = HiddenWords(tokenizer, self._encode, ends=False)

    @property
    def masks(self) -> tuple[str, ...]:
        """How words can be hidden."""
        return self._hidden.kinds

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut, with start and end."""
        return [len(row) + ADDED for row in self.bare(captions_of(texts))]

    def rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Start, caption and end of each.

        Raises:
            InputError: a caption is empty, or longer than the model reads and not to be cut.
        """
        rows = [[self.start, *row, self.end] for row in self._checked(captions_of(texts))]
        for i, text in enumerate(texts):
            if isinstance(text, MaskedText) and text.kind != ZERO:
                flags = [*self.hidden(text), False]
                rows[i] = replaced(rows[i], flags, self._hidden.token(text.kind))
        return rows

    def hidden(self, text: str) -> list[bool]:
        """For each token of a caption, from the start on, whether it is of a hidden word."""
        if not isinstance(text, MaskedText):
            return []
        flags = self._hidden.bare(text.caption, text.hidden)
        return [False, *flags[: self.context - ADDED]]

    def kept(self, texts: Sequence[str]) -> list[str]:
        """The captions as far as they are read: themselves, unless one must be cut.

        Raises:
            InputError: a caption is empty, or longer than the model reads and not to be cut.
        """
        checked = self._checked(texts)
        return [
            text if len(row) + ADDED < self.context else self._text(row, text)
            for text, row in zip(texts, checked, strict=True)
        ]

    def bare(self, texts: Sequence[str]) -> list[list[int]]:
        """Token numbers of texts alone."""
        if not texts:
            return []
        return [list(row) for row in self._encode(list(texts))["input_ids"]]

    def answer(self, text: str) -> list[int]:
        """Token numbers of an answer.

        Raises:
            InputError: there are none.
        """
        (row,) = self.bare([text])
        if not text.strip() or not row:
            raise InputError(f"{self.name} reads nothing in the answer {text.strip()!r}.")
        return row

    def require(self, tokens: int, most: int, text: str) -> None:
        """Refuse a question that is longer than the network takes.

        Raises:
            InputError: it is.
        """
        if tokens > most:
            raise InputError(
                f"the question {text[:SHOWN]!r}… has {tokens} tokens and {self.name} reads {most}: "
                "use a shorter question or caption."
            )

    def _encode(self, texts: list[str], **arguments: Any) -> dict[str, list[Any]]:
        with self._lock:
            found = self._tokenizer(
                texts, padding=False, verbose=False, **{"add_special_tokens": False, **arguments}
            )
        return {name: list(rows) for name, rows in found.items()}

    def _checked(self, texts: Sequence[str]) -> list[list[int]]:
        rows = self.bare(texts)
        most = None if self.cut else self.context
        for text, row in zip(texts, rows, strict=True):
            check_caption(self.name, text, len(row) + ADDED, ADDED, most)
        return [row[: self.context - ADDED] for row in rows]

    def _text(self, row: list[int], text: str) -> str:
        if len(self.bare([text])[0]) == len(row):
            return text
        with self._lock:
            if not self._tokenizer.is_fast:
                return str(self._tokenizer.decode(row))
            found = self._tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
        return text[: found["offset_mapping"][len(row) - 1][1]]


def room(tokenizer: Any, question: str = "{}") -> int:
    """Tokens that are left for what a question says beside its caption, and for the answer.

    Args:
        tokenizer: the model's.
        question: what the model's questions are put in.
    """
    usual = QuestionTemplate()
    said = f"{question.replace('{}', usual.text)} {usual.answer}"
    return max(ROOM, len(tokenizer(said, add_special_tokens=False)["input_ids"]))


def end_token(name: str, end: object) -> int:
    """A captioner's end token, the first where its configuration has several.

    Raises:
        InputError: it has none.
    """
    if isinstance(end, list) and end:
        return end_token(name, end[0])
    if not isinstance(end, int) or isinstance(end, bool):
        raise InputError(
            f"{name} has no end token (none is in its configuration): the probability of a whole "
            "caption needs one; set it there, or use another captioner."
        )
    return end


def start_token(name: str, start: object) -> int:
    """The token that a captioner's text begins with.

    Raises:
        InputError: it has none.
    """
    if not isinstance(start, int) or isinstance(start, bool):
        raise InputError(
            f"{name} has no start token (none is in its configuration), which the first word of a "
            "caption follows; set it there, or use another captioner."
        )
    return start
