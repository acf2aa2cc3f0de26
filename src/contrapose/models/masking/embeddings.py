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
"""Attribute names of the word embedding in text networks."""


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
        words: the word embedding.
        flags: (n, l) flag of each input token; None where nothing is masked.
    """
    if flags is None or words is None:
        yield
        return

    calls: list[int] = []

    def zero(module: nn.Module, inputs: Any, vectors: Tensor) -> Tensor:
        calls.append(1)
        if vectors.shape[:-1] != flags.shape:
            raise ValueError(f"flags of {tuple(flags.shape)} for words of {tuple(vectors.shape)}")
        return vectors.masked_fill(flags[..., None].to(vectors.device), 0.0)

    handle = words.register_forward_hook(zero)
    try:
        yield
    finally:
        handle.remove()
    if not calls:
        raise RuntimeError("the word embedding whose rows were to be zeroed was not used")


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
        rows: mask flags of each caption's first tokens; later tokens are not masked.
        texts: the captions; only those masked by `zero` count.
        width: of a padded row.
        left: whether padding is on the left.
        device: of the flags.
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
    width = int(packed.positions.max()) + 1
    flags = make_zero_flags(
        [row[:width] for row in rows], texts, width, device=packed.owners.device
    )
    if flags is None:
        return None
    return flags[packed.owners.clamp(min=0), packed.positions] & (packed.owners >= 0)


def zero_masked_logprobs(logprobs: Ragged, rows: Sequence[Sequence[bool]]) -> Ragged:
    """Set the log-probabilities of masked tokens to 0.

    Args:
        logprobs: of every token but the first.
        rows: mask flags of each caption's first tokens; later tokens are not masked.
    """
    if not any(any(row) for row in rows):
        return logprobs
    masked = torch.zeros(len(logprobs.values), dtype=torch.bool)
    for row, start in zip(rows, logprobs.offsets[:-1], strict=True):
        for i, flag in enumerate(row[1:]):
            if flag:
                masked[int(start) + i] = True
    values = logprobs.values.masked_fill(masked.to(logprobs.values.device), 0.0)
    return Ragged(values, logprobs.offsets)
