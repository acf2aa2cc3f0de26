"""Text inputs of causal decoders: captions between a start and an end token."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from contrapose.errors import InputError
from contrapose.models.capabilities import PREVIEW_LENGTH, QuestionTemplate, check_caption
from contrapose.models.masking.text import (
    ZERO,
    MaskedText,
    TokenMasker,
    full_captions,
    replace_tokens,
)

MIN_QUESTION_TOKENS = 64
"""Least tokens that a question may have beside its caption."""
ADDED_TOKENS = 2
"""Tokens that are added to every caption: the start and the end."""


class CausalTextInputs:
    """Token ids of captions between start and end; refuses empty and over-long ones.

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
        self._hidden = TokenMasker(tokenizer, self._encode, ends=False)

    @property
    def masks(self) -> tuple[str, ...]:
        """Supported kinds of masking."""
        return self._hidden.kinds

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        return [len(row) + ADDED_TOKENS for row in self.bare(full_captions(texts))]

    def rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each caption with start and end.

        Raises:
            InputError: a caption is empty, or longer than the model reads and not to be cut.
        """
        rows = [[self.start, *row, self.end] for row in self._checked(full_captions(texts))]
        for i, text in enumerate(texts):
            if isinstance(text, MaskedText) and text.kind != ZERO:
                flags = [*self.hidden(text), False]
                rows[i] = replace_tokens(rows[i], flags, self._hidden.token(text.kind))
        return rows

    def hidden(self, text: str) -> list[bool]:
        """Mask flag of each token of a caption, from the start token on."""
        if not isinstance(text, MaskedText):
            return []
        flags = self._hidden.bare(text.caption, text.hidden)
        return [False, *flags[: self.context - ADDED_TOKENS]]

    def kept(self, texts: Sequence[str]) -> list[str]:
        """Captions truncated to the context; unchanged where they fit.

        Raises:
            InputError: a caption is empty, or longer than the model reads and not to be cut.
        """
        checked = self._checked(texts)
        return [
            text if len(row) + ADDED_TOKENS < self.context else self._text(row, text)
            for text, row in zip(texts, checked, strict=True)
        ]

    def bare(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts without special tokens."""
        if not texts:
            return []
        return [list(row) for row in self._encode(list(texts))["input_ids"]]

    def answer(self, text: str) -> list[int]:
        """Token ids of an answer.

        Raises:
            InputError: there are none.
        """
        (row,) = self.bare([text])
        if not text.strip() or not row:
            raise InputError(f"{self.name} reads nothing in the answer {text.strip()!r}.")
        return row

    def require(self, tokens: int, most: int, text: str) -> None:
        """Refuse a question that is longer than the context.

        Raises:
            InputError: it is.
        """
        if tokens > most:
            raise InputError(
                f"the question {text[:PREVIEW_LENGTH]!r}… has {tokens} tokens and {self.name} "
                f"reads {most}: "
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
            check_caption(self.name, text, len(row) + ADDED_TOKENS, ADDED_TOKENS, most)
        return [row[: self.context - ADDED_TOKENS] for row in rows]

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


def reserve_question_tokens(tokenizer: Any, question: str = "{}") -> int:
    """Tokens reserved for the question around a caption, and for the answer.

    Args:
        tokenizer: the model's.
        question: what the model's questions are put in.
    """
    usual = QuestionTemplate()
    said = f"{question.replace('{}', usual.text)} {usual.answer}"
    return max(MIN_QUESTION_TOKENS, len(tokenizer(said, add_special_tokens=False)["input_ids"]))


def require_end_token(name: str, end: object) -> int:
    """End token of a captioner, the first where its configuration has several.

    Raises:
        InputError: it has none.
    """
    if isinstance(end, list) and end:
        return require_end_token(name, end[0])
    if not isinstance(end, int) or isinstance(end, bool):
        raise InputError(
            f"{name} has no end token (none is in its configuration): the probability of a whole "
            "caption needs one; set it there, or use another captioner."
        )
    return end


def require_start_token(name: str, start: object) -> int:
    """Start token of a captioner.

    Raises:
        InputError: it has none.
    """
    if not isinstance(start, int) or isinstance(start, bool):
        raise InputError(
            f"{name} has no start token (none is in its configuration), which the first word of a "
            "caption follows; set it there, or use another captioner."
        )
    return start
