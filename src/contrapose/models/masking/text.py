"""Captions with masked words, and the tokens that belong to them.

A masked word keeps its position. `zero` sets its token embeddings to zero; `pad`, `mask` and
`token-0` replace its tokens. Start and end tokens are never masked. `delete` removes the words from
the text, which needs no support by the model. A model lists the other kinds that it supports in
`text_masks`; only such a model is given a `MaskedText`.

A captioner's log-probabilities of masked tokens are 0: the mean over all tokens is then the sum
over the unmasked tokens, divided by the number of all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from contrapose.errors import InputError, option

Span = tuple[int, int]
"""Offsets of a first character and of the one after the last."""

ZERO, PAD, MASK, TOKEN_0, DELETE = "zero", "pad", "mask", "token-0", "delete"
TEXT_MASKS = {
    ZERO: "the token embeddings of hidden words are zero",
    PAD: "hidden words become the padding token (token 0 where it is also the end that is sought)",
    MASK: "hidden words become the mask token of the model's tokeniser",
    TOKEN_0: "hidden words become token 0, as in the authors' released script",
    DELETE: "hidden words are taken out of the text",
}
"""Kinds of masking, with their descriptions."""


@runtime_checkable
class TextMasker(Protocol):
    """A model that takes `MaskedText` wherever it takes captions.

    Plain and masked captions may be mixed in a batch. Token counts are those of the whole caption.
    """

    @property
    def text_masks(self) -> tuple[str, ...]:
        """Supported kinds of masking: some of `zero`, `pad`, `mask` and `token-0`."""


class MaskedText(str):
    """A caption with masked words.

    As a string it encodes caption, spans and kind, so that ids, caches and comparisons distinguish
    it from every plain caption.

    Attributes:
        caption: the full caption.
        hidden: spans of the masked words, sorted and disjoint.
        kind: the kind of masking.
    """

    caption: str
    hidden: tuple[Span, ...]
    kind: str

    def __new__(cls, caption: str, hidden: Iterable[Span], kind: str = ZERO) -> MaskedText:
        """Mask the words at the given spans of a caption."""
        spans = merge_spans(hidden, caption)
        made = super().__new__(cls, f"\0hidden {kind} {json.dumps(spans)}\0{caption}")
        made.caption, made.hidden, made.kind = caption, spans, kind
        return made

    def __reduce__(self) -> tuple[type[MaskedText], tuple[str, tuple[Span, ...], str]]:
        """Pickle by parts."""
        return MaskedText, (self.caption, self.hidden, self.kind)


def hide(caption: str, hidden: Iterable[Span], kind: str = ZERO) -> str:
    """Mask words of a caption; the plain caption where there are no spans.

    Raises:
        InputError: there is no such kind, or a span lies outside the caption.
    """
    if kind not in TEXT_MASKS:
        raise InputError(f"words cannot be hidden by {kind!r}; there are {', '.join(TEXT_MASKS)}.")
    spans = merge_spans(hidden, caption)
    if not spans:
        return caption
    return delete_words(caption, spans) if kind == DELETE else MaskedText(caption, spans, kind)


def delete_words(caption: str, hidden: Sequence[Span]) -> str:
    """Delete words from a caption; empty where nothing is left."""
    left = caption
    for start, end in sorted(hidden, reverse=True):
        left = f"{left[:start]} {left[end:]}"
    return re.sub(r"\s+([,.;:!?])", r"\1", " ".join(left.split()))


def merge_spans(spans: Iterable[Span], caption: str) -> tuple[Span, ...]:
    """Sort spans and merge those that touch or overlap.

    Raises:
        InputError: one is empty or lies outside the caption.
    """
    merged: list[Span] = []
    for start, end in sorted(spans):
        if not 0 <= start < end <= len(caption):
            raise InputError(
                f"the words at {start}–{end} are not in the caption {caption[:40]!r}, which has "
                f"{len(caption)} characters."
            )
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return tuple(merged)


def full_caption(text: str) -> str:
    """Full caption of a masked one; a plain caption as it is."""
    return text.caption if isinstance(text, MaskedText) else text


def full_captions(texts: Iterable[str]) -> list[str]:
    """Full captions of masked or plain ones."""
    return [full_caption(text) for text in texts]


def flag_by_offsets(offsets: Sequence[Span], caption: str, hidden: Sequence[Span]) -> list[bool]:
    """Mask flag of each token, by its character offsets.

    An empty or blank token belongs to the next word. Special tokens must not be among the offsets.
    """
    flags = []
    for start, end in offsets:
        piece = caption[start:end]
        first = start + len(piece) - len(piece.lstrip())
        last = first + len(piece.strip())
        if first >= end:
            first, last = end, end + 1
        flags.append(any(first < stop and last > begin for begin, stop in hidden))
    return flags


def flag_by_prefix(
    encode: Callable[[str], Sequence[int]], caption: str, hidden: Sequence[Span]
) -> list[bool]:
    """Mask flag of each token, by tokenizing prefixes: for tokenizers without offsets.

    Args:
        encode: token ids of a text, without special tokens.
        caption: the full caption.
        hidden: spans of the masked words.

    Raises:
        InputError: the tokens before a word depend on the word.
    """
    ids = list(encode(caption))
    flags = [False] * len(ids)
    for start, end in hidden:
        bounds = []
        for stop in (start, end):
            before = caption[:stop].rstrip()
            tokens = list(encode(before)) if before else []
            if ids[: len(tokens)] != tokens:
                raise InputError(
                    f"the tokens of {caption[start:end]!r} cannot be told from the others in "
                    f"{caption[:40]!r}: use {option('baseline', DELETE)}."
                )
            bounds.append(len(tokens))
        flags[slice(*bounds)] = [True] * (bounds[1] - bounds[0])
    return flags


def replace_tokens(row: Sequence[int], flags: Sequence[bool], token: int) -> list[int]:
    """Replace the flagged tokens by another token."""
    return [token if flag else original for original, flag in zip(row, flags, strict=True)]


def require_text_mask(model: object, kind: str, score: str) -> None:
    """Raise unless a model supports a kind of masking for a score.

    Raises:
        InputError: it does not, or there is no such kind.
    """
    if kind not in TEXT_MASKS:
        raise InputError(f"words cannot be hidden by {kind!r}; there are {', '.join(TEXT_MASKS)}.")
    if kind == DELETE:
        return
    able = model.text_masks if isinstance(model, TextMasker) and score != "vqa" else ()
    if kind not in able:
        name = getattr(model, "name", type(model).__name__)
        others = f" (it can by {', '.join(able)})" if able else ""
        raise InputError(
            f"{name} cannot hide words by {kind!r} for {score}{others}: use "
            f"{option('baseline', DELETE)}."
        )


CACHE_SIZE = 4096
"""Texts whose tokens are cached."""
Encode = Callable[..., dict[str, list[Any]]]
"""Tokenizer call: texts and arguments → columns, with one row per text."""


class TokenMasker:
    """Finds the tokens of masked words, and the token that replaces them.

    Attributes:
        kinds: supported kinds of masking: `zero`, and those whose token the tokenizer has.
    """

    def __init__(self, tokenizer: Any, encode: Encode, *, seeks_end: bool, shifts: bool = False):
        """Create a masker for the tokenizer of a model.

        Args:
            tokenizer: the library's tokenizer.
            encode: calls the tokenizer with the model's arguments.
            seeks_end: whether the network reads the state of the first end token: no other token
                may then be replaced by it.
            shifts: whether position ids count only tokens that are not padding: a padding token
                within a caption would shift the words after it.
        """
        pad = tokenizer.pad_token_id
        usable = pad is not None and not (seeks_end and pad == tokenizer.eos_token_id)
        self._tokens = {TOKEN_0: 0} if shifts else {PAD: pad if usable else 0, TOKEN_0: 0}
        if tokenizer.mask_token_id is not None:
            self._tokens[MASK] = tokenizer.mask_token_id
        self._fast = bool(tokenizer.is_fast)
        self._encode = encode
        # A caption comes again with every coalition of its words.
        self._tokenize = lru_cache(maxsize=CACHE_SIZE)(self._tokenize_once)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Supported kinds of masking."""
        return (ZERO, *self._tokens)

    def token(self, kind: str) -> int:
        """Token that replaces the tokens of a masked word.

        Raises:
            InputError: the tokenizer has none.
        """
        if kind not in self._tokens:
            raise InputError(f"its tokeniser cannot hide words by {kind!r}.")
        return self._tokens[kind]

    def flags(self, caption: str, hidden: Sequence[Span]) -> list[bool]:
        """Mask flag of each token of a caption, special tokens excluded."""
        if self._fast:
            return flag_by_offsets(self._tokenize(caption)[1], caption, hidden)
        return flag_by_prefix(lambda text: self._tokenize(text)[0], caption, hidden)

    def row_flags(
        self, row: Sequence[int], added: int, caption: str, hidden: Sequence[Span]
    ) -> list[bool]:
        """Mask flag of each token of a row with special tokens, possibly truncated.

        Args:
            row: token ids.
            added: number of special tokens among them.
            caption: the text given to the tokenizer.
            hidden: spans of the masked words in it.

        Raises:
            InputError: the caption's tokens are not found in the row.
        """
        ids = self._tokenize(caption)[0][: len(row) - added]
        for before in range(added + 1):
            if list(row[before : before + len(ids)]) == ids:
                flags = self.flags(caption, hidden)[: len(ids)]
                return [False] * before + flags + [False] * (len(row) - before - len(ids))
        raise InputError(
            f"the words of {caption[:40]!r} cannot be told apart: use {option('baseline', DELETE)}."
        )

    def _tokenize_once(self, text: str) -> tuple[list[int], list[Span]]:
        """Token ids of a text and their offsets; no offsets from a slow tokenizer."""
        arguments = {"return_offsets_mapping": True} if self._fast else {}
        columns = self._encode([text], add_special_tokens=False, **arguments)
        offsets = columns["offset_mapping"][0] if self._fast else []
        return list(columns["input_ids"][0]), list(offsets)
