"""Log-probabilities of many texts after one image prefix, packed into one sequence.

A prefix is what all of an image's texts begin with: the image and the prompt. It is computed once;
texts stand behind it one after the other, their positions begin anew after the prefix, and each
sees the prefix and itself. Only positions before a counted token meet the vocabulary. Numbers alone
come in here, no tokeniser and no processor.

The vision tower, the projection and the merging of image tokens are the library's own: its forward
pass is run with a stand-in for the language model, which notes what it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose.models.hf.vlm.decoder import Decoder, KeyValueCache

ROW = 512
"""Tokens of texts in one row behind a prefix that is kept; a longer text has a row alone."""
ROWS = 8
"""Such rows at once."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """Text tokens that follow a prefix.

    Attributes:
        ids: the tokens.
        counted: how many of the last ones are asked for.
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
        embeds: (b, p, d) tokens of text and of images.
        positions: (b, p), or (3, b, p) where positions have three axes.
    """

    embeds: Tensor
    positions: Tensor

    @property
    def following(self) -> Tensor:
        """(b,) position of the next token."""
        flat = self.positions.amax(dim=-1)
        return (flat.amax(dim=0) if flat.ndim == 2 else flat) + 1


@dataclass(frozen=True, slots=True, eq=False)
class CachedPrefix:
    """A computed prefix: its KV cache and last hidden state.

    Attributes:
        past: its keys and values in every layer.
        last: (1, 1, d) hidden state of its last token.
        following: (1,) the position of the next token.
        axes: axes of a position: 1 or 3.
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
        prefixes: b of them.
        texts: what follows each, b lists.
    """
    layout = _lay_out(texts)
    batch, length = prefixes.embeds.shape[:2]
    device = prefixes.embeds.device
    embeds = torch.cat([prefixes.embeds, decoder.embed(layout.ids.to(device))], dim=1)
    after = prefixes.following[:, None] + layout.offsets.to(device)
    axes = prefixes.positions.shape[0] if prefixes.positions.ndim == 3 else 1
    positions = torch.cat([prefixes.positions, _expand_axes(after, axes)], dim=-1)
    own = layout.own(device)
    sees = own.new_ones(batch, own.shape[1], length)
    last = torch.cat([sees[:, :1], own.new_zeros(batch, 1, own.shape[1])], dim=2)
    if own.shape[1]:
        allowed = torch.cat([last, torch.cat([sees, own], dim=2)], dim=1)
    else:
        allowed = own.new_ones(batch, 1, length)
    hidden, _ = decoder.run(embeds, positions, allowed, prefix=length)
    values = _gather_logprobs(decoder, hidden, layout)
    return split_by_counts(values, layout.counts)


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
    decoder: Decoder, kept: CachedPrefix, texts: Sequence[Continuation]
) -> list[Tensor]:
    """Log-probabilities of texts after one cached prefix, one CPU tensor per text."""
    found: list[Tensor] = [torch.empty(0)] * len(texts)
    for places in _iterate_row_chunks(texts):
        rows = [[texts[i] for i in row] for row in places]
        layout = _lay_out(rows)
        hidden = kept.last.expand(len(rows), -1, -1)
        if layout.ids.shape[1]:
            hidden = torch.cat([hidden, _run_rows(decoder, kept, layout)], dim=1)
        counts = [text.counted for row in rows for text in row]
        values = split_by_counts(_gather_logprobs(decoder, hidden, layout), counts)
        for i, each in zip((i for row in places for i in row), values, strict=True):
            found[i] = each
    return found


def split_by_counts(values: Tensor, counts: Sequence[int]) -> list[Tensor]:
    """Split a flat tensor into parts of the given lengths."""
    return [values[a:b] for a, b in pairwise(accumulate(counts, initial=0))]


def _run_rows(decoder: Decoder, kept: CachedPrefix, layout: _Layout) -> Tensor:
    """Hidden states (r, t, d) of rows of texts after one cached prefix."""
    device = kept.last.device
    own = layout.own(device)
    allowed = torch.cat([own.new_ones(*own.shape[:2], kept.past.length), own], dim=2)
    positions = kept.following[:, None] + layout.offsets.to(device)
    hidden, _ = decoder.run(
        decoder.embed(layout.ids.to(device)),
        _expand_axes(positions, kept.axes),
        allowed,
        prefix=0,
        past=kept.past,
    )
    return hidden


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Packing layout: texts side by side in rows of equal length.

    Attributes:
        ids: (b, t) tokens that are read; 0 where there is none.
        offsets: (b, t) position of each in its own text.
        blocks: (b, t) number of its text in the row; −1 where there is none.
        rows: which place of the flat (b, 1 + t) grid each counted token follows.
        targets: the counted tokens.
        counts: how many there are in each row.
    """

    ids: Tensor
    offsets: Tensor
    blocks: Tensor
    rows: Tensor
    targets: Tensor
    counts: list[int]

    def own(self, device: torch.device) -> Tensor:
        """(b, t, t) causal block mask: each token sees its own text up to itself."""
        blocks = self.blocks.to(device)
        return (blocks[:, :, None] == blocks[:, None, :]).tril()


def _lay_out(texts: Sequence[Sequence[Continuation]]) -> _Layout:
    """Lay texts out in one row per prefix."""
    width = max((sum(text.read for text in row) for row in texts), default=0)
    shape = (len(texts), width)
    ids, offsets = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    blocks: NDArray[np.int64] = np.full(shape, -1, np.int64)
    rows: list[NDArray[np.int64]] = []
    targets: list[int] = []
    for i, row in enumerate(texts):
        start = 0
        for number, text in enumerate(row):
            span = slice(start, start + text.read)
            ids[i, span] = text.ids[:-1]
            offsets[i, span] = np.arange(text.read)
            blocks[i, span] = number
            # the token at j follows the one at j − 1; the first follows the prefix's last
            places = np.arange(len(text.ids) - text.counted, len(text.ids))
            rows.append(i * (1 + width) + np.where(places == 0, 0, start + places))
            targets += text.ids[len(text.ids) - text.counted :]
            start += text.read
    return _Layout(
        torch.from_numpy(ids),
        torch.from_numpy(offsets),
        torch.from_numpy(blocks),
        torch.from_numpy(np.concatenate(rows) if rows else np.zeros(0, np.int64)),
        torch.tensor(targets, dtype=torch.long),
        [sum(text.counted for text in row) for row in texts],
    )


def _gather_logprobs(decoder: Decoder, hidden: Tensor, layout: _Layout) -> Tensor:
    """Log-probabilities (m,) of a layout's counted tokens, on the CPU."""
    places, asked = torch.unique(layout.rows, return_inverse=True)
    needed = hidden.flatten(0, 1)[places.to(hidden.device)]
    return decoder.logprobs(needed, asked, layout.targets.to(hidden.device)).cpu()


def _expand_axes(positions: Tensor, axes: int) -> Tensor:
    return positions if axes == 1 else positions.expand(axes, -1, -1)


def _iterate_row_chunks(texts: Sequence[Continuation]) -> Iterator[list[list[int]]]:
    """Text indices in rows, longest first, a few rows at a time."""
    rows: list[list[int]] = []
    row: list[int] = []
    length = 0
    for i in sorted(range(len(texts)), key=lambda i: -texts[i].read):
        if row and length + texts[i].read > ROW:
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
        inputs: what its forward pass takes, (b, p) tokens and the images.
    """
    from transformers.modeling_outputs import BaseModelOutputWithPast

    noted: dict[str, Any] = {}

    def note(*args: Any, **kwargs: Any) -> BaseModelOutputWithPast:
        if args:
            raise RuntimeError("the language model is given arguments without names")
        noted.update(kwargs)
        return BaseModelOutputWithPast(last_hidden_state=kwargs["inputs_embeds"])

    given = {name: values for name, values in inputs.items() if name != "attention_mask"}
    with _replace_forward(find_language_model(network), note):
        network.model(**given, use_cache=False)
    mask = noted.get("attention_mask")
    strange = [
        name
        for name, value in noted.items()
        if name not in _KNOWN | _HARMLESS and value is not None and value is not False
    ]
    if strange or mask is not None:
        raise RuntimeError(f"the language model is given {[*strange, 'a mask'][0]}")
    embeds: Tensor = noted["inputs_embeds"]
    return Prefixes(embeds, _find_positions(noted.get("position_ids"), embeds))


def _find_positions(given: Tensor | None, embeds: Tensor) -> Tensor:
    batch, length = embeds.shape[:2]
    if given is None:
        return torch.arange(length, device=embeds.device).expand(batch, -1)
    if given.ndim == 3:
        return given[-3:]  # before the three axes some models have one for masks
    return given.expand(batch, -1)


@contextmanager
def _replace_forward(module: Any, forward: Any) -> Iterator[None]:
    """Temporarily replace a module's forward."""
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
