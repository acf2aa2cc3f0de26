"""Log-probabilities of many texts after one image prefix, packed into one sequence.

The prefix of an image is the image and the prompt. It is computed once; texts follow it side by
side, with positions that continue the prefix, and each attends to the prefix and to itself. Only
states that predict a counted token meet the vocabulary.

The vision tower, the projection and the merging of image tokens are the library's: its forward pass
is run with the language model's `forward` replaced by a function that records its inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from contrapose.models.hf.vlm.decoder import Decoder, KeyValueCache
from contrapose.models.packing import PackedCaptions, pack_rows

ROW_TOKENS = 512
"""Most tokens of a row of several texts after a cached prefix."""
ROWS = 8
"""Rows per pass."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """Text tokens that follow a prefix.

    Attributes:
        ids: the token ids.
        counted: number of last tokens that are scored.
    """

    ids: tuple[int, ...]
    counted: int

    @property
    def read(self) -> int:
        """Number of input tokens: all but the last, which is only predicted."""
        return len(self.ids) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Prefixes:
    """Embedded prefixes of one length with their positions.

    Attributes:
        embeds: (b, p, d) embedded text and image tokens.
        positions: (b, p), or (3, b, p) where positions have three axes.
    """

    embeds: Tensor
    positions: Tensor

    @property
    def following(self) -> Tensor:
        """(b,) position of the next token.

        Of three axes the first, time, does not count: text goes on after the rows and columns of a
        video, however long it is.
        """
        last = self.positions[..., -1]
        return (last[1:].amax(dim=0) if last.ndim == 2 else last) + 1


@dataclass(frozen=True, slots=True, eq=False)
class CachedPrefix:
    """A computed prefix: its KV cache and last hidden state.

    Attributes:
        past: keys and values of every layer.
        last: (1, 1, d) hidden state of its last token.
        following: (1,) position of the next token.
        axes: number of axes of a position: 1 or 3.
    """

    past: KeyValueCache
    last: Tensor
    following: Tensor
    axes: int


def score_prefixes(
    decoder: Decoder, prefixes: Prefixes, texts: Sequence[Sequence[Continuation]]
) -> list[Tensor]:
    """Log-probabilities of the counted tokens after prefixes, one flat CPU tensor each.

    Args:
        decoder: the language model.
        prefixes: b prefixes.
        texts: b lists, the texts after each prefix.
    """
    device = prefixes.embeds.device
    packed = _pack_texts(texts, device)
    batch, length = prefixes.embeds.shape[:2]
    embeds = torch.cat([prefixes.embeds, decoder.embed(packed.tokens)], dim=1)
    after = prefixes.following[:, None] + packed.positions
    axes = prefixes.positions.shape[0] if prefixes.positions.ndim == 3 else 1
    positions = torch.cat([prefixes.positions, _expand_axes(after, axes)], dim=-1)
    blocks = packed.block_mask()
    to_prefix = blocks.new_ones(batch, blocks.shape[1], length)
    last = torch.cat([to_prefix[:, :1], blocks.new_zeros(batch, 1, blocks.shape[1])], dim=2)
    if blocks.shape[1]:
        allowed = torch.cat([last, torch.cat([to_prefix, blocks], dim=2)], dim=1)
    else:
        allowed = blocks.new_ones(batch, 1, length)
    hidden, _ = decoder.run(embeds, positions, allowed, prefix=length)
    values = _gather_logprobs(decoder, hidden, packed)
    return split_by_counts(values, [sum(text.counted for text in row) for row in texts])


def cache_prefixes(decoder: Decoder, prefixes: Prefixes) -> list[CachedPrefix]:
    """Compute prefixes once for later texts."""
    length = prefixes.embeds.shape[1]
    hidden, past = decoder.run(prefixes.embeds, prefixes.positions, None, prefix=length)
    if past is None:
        raise RuntimeError("the decoder kept no keys")
    axes = prefixes.positions.shape[0] if prefixes.positions.ndim == 3 else 1
    return [
        CachedPrefix(
            KeyValueCache(
                tuple(key[i : i + 1].contiguous() for key in past.keys),
                tuple(value[i : i + 1].contiguous() for value in past.values),
            ),
            hidden[i : i + 1],
            prefixes.following[i : i + 1],
            axes,
        )
        for i in range(len(hidden))
    ]


def score_cached(
    decoder: Decoder, prefix: CachedPrefix, texts: Sequence[Continuation]
) -> list[Tensor]:
    """Log-probabilities of texts after one cached prefix, one CPU tensor per text."""
    logprobs: list[Tensor] = [torch.empty(0)] * len(texts)
    for rows in _iterate_row_chunks(texts):
        packed = _pack_texts([[texts[i] for i in row] for row in rows], prefix.last.device)
        hidden = prefix.last.expand(len(rows), -1, -1)
        if packed.tokens.shape[1]:
            hidden = torch.cat([hidden, _run_rows(decoder, prefix, packed)], dim=1)
        indices = [i for row in rows for i in row]
        counts = [texts[i].counted for i in indices]
        values = split_by_counts(_gather_logprobs(decoder, hidden, packed), counts)
        for i, part in zip(indices, values, strict=True):
            logprobs[i] = part
    return logprobs


def split_by_counts(values: Tensor, counts: Sequence[int]) -> list[Tensor]:
    """Split a flat tensor into parts of the given lengths."""
    return [values[a:b] for a, b in pairwise(accumulate(counts, initial=0))]


def _run_rows(decoder: Decoder, prefix: CachedPrefix, packed: PackedCaptions) -> Tensor:
    """Hidden states (r, t, d) of rows of texts after one cached prefix."""
    hidden, _ = decoder.run(
        decoder.embed(packed.tokens),
        _expand_axes(prefix.following[:, None] + packed.positions, prefix.axes),
        packed.attention_mask(prefix.past.length)[:, 0],
        prefix=0,
        past=prefix.past,
    )
    return hidden


def _pack_texts(texts: Sequence[Sequence[Continuation]], device: torch.device) -> PackedCaptions:
    """Pack the texts after each prefix into one row."""
    flat = [text for row in texts for text in row]
    ends = list(accumulate((len(row) for row in texts), initial=0))
    return pack_rows(
        [text.ids for text in flat],
        [range(start, end) for start, end in pairwise(ends)],
        range(len(texts)),
        counted=[text.counted for text in flat],
        after_prefix=True,
        device=device,
    )


def _gather_logprobs(decoder: Decoder, hidden: Tensor, packed: PackedCaptions) -> Tensor:
    """Log-probabilities (m,) of the counted tokens, on the CPU; a shared state is used once."""
    states, indices = torch.unique(packed.sources, return_inverse=True)
    needed = hidden.flatten(0, 1)[states.to(hidden.device)]
    return decoder.logprobs(needed, indices, packed.targets.to(hidden.device)).cpu()


def _expand_axes(positions: Tensor, axes: int) -> Tensor:
    return positions if axes == 1 else positions.expand(axes, -1, -1)


def _iterate_row_chunks(texts: Sequence[Continuation]) -> Iterator[list[list[int]]]:
    """Text indices in rows, longest first, a few rows at a time."""
    rows: list[list[int]] = []
    row: list[int] = []
    length = 0
    for i in sorted(range(len(texts)), key=lambda i: -texts[i].read):
        if row and length + texts[i].read > ROW_TOKENS:
            rows, row, length = [*rows, row], [], 0
            if len(rows) == ROWS:
                yield rows
                rows = []
        row.append(i)
        length += texts[i].read
    if row:
        rows.append(row)
    if rows:
        yield rows


_KNOWN = {"inputs_embeds", "position_ids", "attention_mask", "past_key_values", "input_ids"}
_HARMLESS = {"use_cache", "return_dict", "output_attentions", "output_hidden_states"}


def find_language_model(network: Any) -> Any:
    """Language model inside an image-text network; None where there is none."""
    body = getattr(network, "model", network)
    return getattr(body, "language_model", None) or getattr(body, "text_model", None)


def embed_prefixes(network: Any, inputs: Mapping[str, Tensor]) -> Prefixes:
    """Embed prefixes of one length as the library gives them to its language model.

    Args:
        network: the library's model.
        inputs: of its forward pass, (b, p) tokens and the images.
    """
    from transformers.modeling_outputs import BaseModelOutputWithPast

    recorded: dict[str, Any] = {}

    def record(*args: Any, **kwargs: Any) -> BaseModelOutputWithPast:
        if args:
            raise RuntimeError("the language model is given arguments without names")
        recorded.update(kwargs)
        return BaseModelOutputWithPast(last_hidden_state=kwargs["inputs_embeds"])

    unmasked = {name: values for name, values in inputs.items() if name != "attention_mask"}
    with _replace_forward(find_language_model(network), record):
        network.model(**unmasked, use_cache=False)
    mask = recorded.get("attention_mask")
    strange = [
        name
        for name, value in recorded.items()
        if name not in _KNOWN | _HARMLESS and value is not None and value is not False
    ]
    if strange or mask is not None:
        raise RuntimeError(f"the language model is given {[*strange, 'a mask'][0]}")
    embeds: Tensor = recorded["inputs_embeds"]
    return Prefixes(embeds, _find_positions(recorded.get("position_ids"), embeds))


def _find_positions(positions: Tensor | None, embeds: Tensor) -> Tensor:
    batch, length = embeds.shape[:2]
    if positions is None:
        return torch.arange(length, device=embeds.device).expand(batch, -1)
    if positions.ndim == 3:
        return positions[-3:]  # before the three axes some models have one for masks
    return positions.expand(batch, -1)


@contextmanager
def _replace_forward(module: Any, forward: Any) -> Iterator[None]:
    """Temporarily replace a module's forward."""
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
