"""Tokenized captions of the transformers library: quickly, and each caption once.

A caption is tokenized to count its tokens, by which batches are cut, and again when its batch is
scored. The cache keeps the first result. Most of the time of the library's call goes into building
its result; where the tokenizer has only the library's own steps, its inner part is called instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from threading import Lock
from typing import Any

from contrapose.models.masking.text import TokenMasker

MAX_CAPTIONS = 1 << 16
"""Captions that a cache holds at the most: some 40 MB."""

Columns = dict[str, list[Any]]
"""Columns of a tokenizer by name, `input_ids` and others; a list for each caption."""

_ATTRIBUTES = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Names of the columns in the inner part's results."""


class FastEncoder:
    """Tokenizer without the library's way around it; the same columns in a third of the time.

    Attributes:
        names: the columns.
    """

    def __init__(self, tokenizer: Any, names: Sequence[str], *, special: bool):
        self._backend = tokenizer.backend_tokenizer
        self.names = tuple(names)
        self._special = special

    @classmethod
    def of(cls, tokenizer: Any, columns: Columns, arguments: dict[str, Any]) -> FastEncoder | None:
        """Encoder that gives what a call of the tokenizer gave; None where it does anything else.

        Args:
            tokenizer: the library's tokenizer.
            columns: what the call gave.
            arguments: what it was called with.
        """
        from transformers import PreTrainedTokenizerFast

        steps = ("__call__", "_encode_plus", "_convert_encoding", "set_truncation_and_padding")
        kind = type(tokenizer)
        plain = isinstance(tokenizer, PreTrainedTokenizerFast) and all(
            getattr(kind, step, None) is getattr(PreTrainedTokenizerFast, step, None)
            for step in steps
        )
        known = arguments.keys() <= {"add_special_tokens", "return_attention_mask"}
        if not plain or not known or not columns.keys() <= _ATTRIBUTES.keys():
            return None
        return cls(tokenizer, list(columns), special=arguments.get("add_special_tokens", True))

    def encode(self, texts: list[str]) -> Columns:
        """Columns of texts, neither truncated nor padded."""
        self._backend.no_truncation()
        self._backend.no_padding()
        rows = self._backend.encode_batch_fast(texts, add_special_tokens=self._special)
        return {name: [getattr(row, _ATTRIBUTES[name]) for row in rows] for name in self.names}


class TokenCache:
    """Cache of captions that were counted and are to be scored; a caption leaves it when it is."""

    def __init__(self, encode: Callable[[list[str]], Columns]):
        self._encode = encode
        self._rows: dict[str, tuple[list[int], ...]] = {}

    def counts(self, captions: Sequence[str]) -> list[int]:
        """Number of tokens of each caption."""
        columns = self._encode(list(captions))
        room = MAX_CAPTIONS - len(self._rows)
        rows = zip(*columns.values(), strict=True)
        self._rows.update(islice(zip(captions, rows, strict=True), room))
        return [len(row) for row in columns["input_ids"]]

    def take(self, captions: Sequence[str]) -> Columns:
        """Columns of captions, which then leave the cache.

        The lists of a caption that occurs twice are shared: they must not be changed.
        """
        known = {caption: self._rows.pop(caption, None) for caption in dict.fromkeys(captions)}
        new = [caption for caption, row in known.items() if row is None]
        columns = self._encode(new or [""])
        known |= zip(new, zip(*columns.values(), strict=True), strict=False)
        rows = [known[caption] for caption in captions]
        return {name: [row[i] for row in rows if row] for i, name in enumerate(columns)}


class LibraryTokenizer:
    """Tokenizer with a lock and the word masking of its model."""

    def __init__(self, tokenizer: Any, *, seeks_end: bool, shifts: bool = False, **arguments: Any):
        self._tokenizer = tokenizer
        self._arguments = arguments
        self._lock = Lock()  # a fast tokenizer may not be used by two threads at once
        self._fast: dict[tuple[tuple[str, Any], ...], FastEncoder | None] = {}
        self._masker = TokenMasker(tokenizer, self._encode, seeks_end=seeks_end, shifts=shifts)

    @property
    def masks(self) -> tuple[str, ...]:
        """Supported kinds of masking."""
        return self._masker.kinds

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts without special tokens."""
        if not texts:
            return []
        columns = self._encode(list(texts), add_special_tokens=False)
        return [list(row) for row in columns["input_ids"]]

    def _encode(self, texts: list[str], **arguments: Any) -> Columns:
        arguments = self._arguments | arguments
        key = tuple(sorted(arguments.items()))
        with self._lock:
            fast = self._fast.get(key)
            if fast is not None:
                return fast.encode(texts)
            called = self._tokenizer(texts, padding=False, verbose=False, **arguments)
            columns = {name: list(rows) for name, rows in called.items()}
            if key not in self._fast:
                self._fast[key] = FastEncoder.of(self._tokenizer, columns, arguments)
        return columns
