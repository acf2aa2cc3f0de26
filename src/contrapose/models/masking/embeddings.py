"""Zero masking: token embeddings of masked words set to zero inside a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from contrapose.arrays import Ragged
from contrapose.models.masking.text import ZERO, MaskedText
from contrapose.models.packing import PackedCaptions

EMBEDDING_NAMES = (
    "word_embeddings",
    "token_embedding",
    "embed_tokens",
    "shared",
    "tok_embeddings",
    "wte",
)
"""What libraries call the table of word vectors."""


def find_word_embedding(network: Any) -> nn.Embedding | None:
    """Find the word embedding of a text network; None where there is none."""
    for name, module in network.named_modules():
        if isinstance(module, nn.Embedding) and name.rpartition(".")[2] in EMBEDDING_NAMES:
            return module
    return None


@contextmanager
def zero_embeddings(words: nn.Module | None, flags: Tensor | None) -> Iterator[None]:
    """Context manager that zeroes the embeddings of flagged tokens.

    Args:
        words: the table of word vectors.
        flags: (n, l) for each token that the table is asked for; None where nothing is hidden.
    """
    if flags is None or words is None:
        yield
        return

    calls: list[int] = []

    def blank(module: nn.Module, given: Any, found: Tensor) -> Tensor:
        calls.append(1)
        if found.shape[:-1] != flags.shape:
            raise ValueError(f"flags of {tuple(flags.shape)} for words of {tuple(found.shape)}")
        return found.masked_fill(flags[..., None].to(found.device), 0.0)

    handle = words.register_forward_hook(blank)
    try:
        yield
    finally:
        handle.remove()
    if not calls:
        raise RuntimeError("no word was read from the table in which words were to be hidden")


def make_zero_flags(
    rows: Sequence[Sequence[bool]],
    texts: Sequence[str],
    width: int,
    *,
    left: bool = False,
    device: torch.device | str = "cpu",
) -> Tensor | None:
    """Flags (n, width) of tokens whose embeddings are zeroed; None where there are none.

    Args:
        rows: for each caption its tokens that belong to hidden words; what is not there does not.
        texts: the captions; only those hidden by `zero` count.
        width: of a padded row.
        left: whether padding stands on the left.
        device: where the flags are to be.
    """
    if not any(is_zero_masked(text) for text in texts):
        return None
    flags = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, (row, text) in enumerate(zip(rows, texts, strict=True)):
        if is_zero_masked(text):
            start = width - len(row) if left else 0
            flags[i, start : start + len(row)] = torch.tensor(row, dtype=torch.bool)
    return flags.to(device)


def is_zero_masked(text: str) -> bool:
    """Whether a caption has words masked by zero embeddings."""
    return isinstance(text, MaskedText) and text.kind == ZERO and bool(text.hidden)


def pack_zero_flags(
    rows: Sequence[Sequence[bool]], texts: Sequence[str], packed: PackedCaptions
) -> Tensor | None:
    """Flags (r, l) of zeroed tokens for packed captions."""
    width = int(packed.places.max()) + 1
    flags = make_zero_flags(
        [row[:width] for row in rows], texts, width, device=packed.owners.device
    )
    if flags is None:
        return None
    return flags[packed.owners.clamp(min=0), packed.places] & (packed.owners >= 0)


def zero_masked_logprobs(found: Ragged, rows: Sequence[Sequence[bool]]) -> Ragged:
    """Set the log-probabilities of masked tokens to 0.

    Args:
        found: of every token but the first.
        rows: for each caption, from its first token on, the tokens that are of hidden words; what
            is not there is not hidden.
    """
    if not any(any(row) for row in rows):
        return found
    hidden = torch.zeros(len(found.values), dtype=torch.bool)
    for row, start in zip(rows, found.offsets[:-1], strict=True):
        for place, flag in enumerate(row[1:]):
            if flag:
                hidden[int(start) + place] = True
    return Ragged(found.values.masked_fill(hidden.to(found.values.device), 0.0), found.offsets)
