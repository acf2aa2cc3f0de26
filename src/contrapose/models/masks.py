"""Captions with hidden words: what a model is asked when part of a sentence is to play no part.

A hidden word keeps its place. By `zero` its tokens' embeddings become zero; by `pad`, `mask` and
`token-0` its tokens become others. What marks a caption's start and end always stays. By `delete`
the words are taken out, which is plain text and needs nothing of a model. Models say in
`text_masks` which of the others they can do; nobody else is given a `MaskedText`.

A captioner's log-probabilities of hidden tokens are 0, so that the mean over all tokens is the sum
over the present ones, divided by the number of all: a hidden word adds nothing by itself, and the
others read zeros in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from contrapose.errors import InputError

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
"""Ways to hide words, and what each does."""


@runtime_checkable
class MasksText(Protocol):
    """A model that takes captions with hidden words, as `MaskedText`, wherever it takes captions.

    Plain and masked captions may be mixed in a batch. Token counts are those of the whole caption.
    """

    @property
    def text_masks(self) -> tuple[str, ...]:
        """How it can hide words: some of `zero`, `pad`, `mask` and `token-0`."""


class MaskedText(str):
    """A caption some of whose words are hidden.

    As text it is an encoding of all three parts, which no plain caption has: ids, caches and
    comparisons take it for a caption of its own.

    Attributes:
        caption: the whole caption.
        hidden: where the hidden words are, in order, none touching another.
        kind: how they are hidden.
    """

    caption: str
    hidden: tuple[Span, ...]
    kind: str

    def __new__(cls, caption: str, hidden: Iterable[Span], kind: str = ZERO) -> MaskedText:
        """Hide the words at some places of a caption."""
        spans = merged(hidden, caption)
        made = super().__new__(cls, f"\0hidden {kind} {json.dumps(spans)}\0{caption}")
        made.caption, made.hidden, made.kind = caption, spans, kind
        return made

    def __reduce__(self) -> tuple[type[MaskedText], tuple[str, tuple[Span, ...], str]]:
        """To be made again from its parts."""
        return MaskedText, (self.caption, self.hidden, self.kind)


def hide(caption: str, hidden: Iterable[Span], kind: str = ZERO) -> str:
    """The caption with words hidden; the caption itself where there are none.

    Raises:
        InputError: there is no such kind, or a place lies outside the caption.
    """
    if kind not in TEXT_MASKS:
        raise InputError(f"words cannot be hidden by {kind!r}; there are {', '.join(TEXT_MASKS)}.")
    spans = merged(hidden, caption)
    if not spans:
        return caption
    return deleted(caption, spans) if kind == DELETE else MaskedText(caption, spans, kind)


def deleted(caption: str, hidden: Sequence[Span]) -> str:
    """What is left of a caption without some words; empty where that is nothing."""
    left = caption
    for start, end in sorted(hidden, reverse=True):
        left = f"{left[:start]} {left[end:]}"
    return re.sub(r"\s+([,.;:!?])", r"\1", " ".join(left.split()))


def merged(spans: Iterable[Span], caption: str) -> tuple[Span, ...]:
    """Places in order, those that touch or overlap as one.

    Raises:
        InputError: one is empty or lies outside the caption.
    """
    found: list[Span] = []
    for start, end in sorted(spans):
        if not 0 <= start < end <= len(caption):
            raise InputError(
                f"the words at {start}–{end} are not in the caption {caption[:40]!r}, which has "
                f"{len(caption)} characters."
            )
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return tuple(found)


def caption_of(text: str) -> str:
    """The whole caption of a masked one; a plain one as it is."""
    return text.caption if isinstance(text, MaskedText) else text


def captions_of(texts: Iterable[str]) -> list[str]:
    """The whole captions."""
    return [caption_of(text) for text in texts]


def by_offsets(offsets: Sequence[Span], caption: str, hidden: Sequence[Span]) -> list[bool]:
    """Which tokens belong to hidden words, from where in the caption each token stands.

    A token of nothing, or of nothing but space, belongs to the word behind it. What a tokeniser
    adds to a caption must not be among them.
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


def by_prefix(
    encode: Callable[[str], Sequence[int]], caption: str, hidden: Sequence[Span]
) -> list[bool]:
    """The same by the tokens of the text up to each word: for tokenisers that tell no places.

    Args:
        encode: tokens of a text, without start and end.
        caption: the whole caption.
        hidden: where the hidden words are.

    Raises:
        InputError: the tokens before a word depend on the word.
    """
    whole = list(encode(caption))
    flags = [False] * len(whole)
    for start, end in hidden:
        places = []
        for stop in (start, end):
            before = caption[:stop].rstrip()
            tokens = list(encode(before)) if before else []
            if whole[: len(tokens)] != tokens:
                raise InputError(
                    f"the tokens of {caption[start:end]!r} cannot be told from the others in "
                    f"{caption[:40]!r}: use --baseline delete."
                )
            places.append(len(tokens))
        flags[places[0] : places[1]] = [True] * (places[1] - places[0])
    return flags


def replaced(row: Sequence[int], flags: Sequence[bool], token: int) -> list[int]:
    """Token numbers with another at the flagged places."""
    return [token if flag else own for own, flag in zip(row, flags, strict=True)]


def require_text_mask(model: object, kind: str, score: str) -> None:
    """Say so when a model cannot hide words in a way, for a score.

    Raises:
        InputError: it cannot, or there is no such way.
    """
    if kind not in TEXT_MASKS:
        raise InputError(f"words cannot be hidden by {kind!r}; there are {', '.join(TEXT_MASKS)}.")
    if kind == DELETE:
        return
    able = model.text_masks if isinstance(model, MasksText) and score != "vqa" else ()
    if kind not in able:
        name = getattr(model, "name", type(model).__name__)
        others = f" (it can by {', '.join(able)})" if able else ""
        raise InputError(
            f"{name} cannot hide words by {kind!r} for {score}{others}: use --baseline delete."
        )
