"""Which tokens of a caption belong to its hidden words, as tokenisers of the library tell it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from contrapose.errors import InputError
from contrapose.models.masks import (
    MASK,
    PAD,
    TOKEN_0,
    ZERO,
    Span,
    by_offsets,
    by_prefix,
)

KEPT = 4096
"""Texts whose tokens are remembered."""
Encode = Callable[..., dict[str, list[Any]]]
"""Texts and the tokeniser's arguments → columns, a row a text."""


class HiddenWords:
    """Finds the tokens of hidden words, and what stands in their place.

    Attributes:
        kinds: how words can be hidden: by zeros, and by the tokens that the tokeniser has.
    """

    def __init__(self, tokenizer: Any, encode: Encode, *, ends: bool, shifts: bool = False):
        """Ways to hide the words that a tokeniser reads.

        Args:
            tokenizer: the library's.
            encode: calls it, in whatever way the model does.
            ends: whether the network looks for the end token, which may then not stand elsewhere.
            shifts: whether the network counts places by tokens that are no padding: a padding token
                within a caption would move the words behind it.
        """
        pad = tokenizer.pad_token_id
        own = pad if pad is not None and not (ends and pad == tokenizer.eos_token_id) else 0
        self._tokens = {TOKEN_0: 0} if shifts else {PAD: own, TOKEN_0: 0}
        if tokenizer.mask_token_id is not None:
            self._tokens[MASK] = tokenizer.mask_token_id
        self._fast = bool(tokenizer.is_fast)
        self._encode = encode
        # A caption comes again with every coalition of its words.
        self._read = lru_cache(maxsize=KEPT)(self._tokens_of)

    @property
    def kinds(self) -> tuple[str, ...]:
        """How words can be hidden."""
        return (ZERO, *self._tokens)

    def token(self, kind: str) -> int:
        """What stands in place of a hidden word's tokens.

        Raises:
            InputError: the tokeniser has nothing of the kind.
        """
        if kind not in self._tokens:
            raise InputError(f"its tokeniser cannot hide words by {kind!r}.")
        return self._tokens[kind]

    def bare(self, caption: str, hidden: Sequence[Span]) -> list[bool]:
        """For each token of a caption, without start and end, whether it is of a hidden word."""
        if self._fast:
            return by_offsets(self._read(caption)[1], caption, hidden)
        return by_prefix(lambda text: self._read(text)[0], caption, hidden)

    def within(
        self, row: Sequence[int], added: int, caption: str, hidden: Sequence[Span]
    ) -> list[bool]:
        """The same for a row with start and end, which may have been cut.

        Args:
            row: token numbers.
            added: how many of them the tokeniser adds to any caption.
            caption: what the tokeniser is given.
            hidden: where the hidden words are in it.

        Raises:
            InputError: the caption's tokens are not found in the row.
        """
        ids = self._read(caption)[0][: len(row) - added]
        for before in range(added + 1):
            if list(row[before : before + len(ids)]) == ids:
                flags = self.bare(caption, hidden)[: len(ids)]
                return [False] * before + flags + [False] * (len(row) - before - len(ids))
        raise InputError(
            f"the words of {caption[:40]!r} cannot be told apart: use --baseline delete."
        )

    def _tokens_of(self, text: str) -> tuple[list[int], list[Span]]:
        """Token numbers of a text, and where they stand; no places of a slow tokeniser."""
        places = {"return_offsets_mapping": True} if self._fast else {}
        found = self._encode([text], add_special_tokens=False, **places)
        offsets = found["offset_mapping"][0] if self._fast else []
        return list(found["input_ids"][0]), list(offsets)
