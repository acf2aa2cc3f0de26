"""Log-probabilities of many texts after one prefix: packed into one sequence, each sees its own.

A prefix is what all of an image's texts begin with: the image and the prompt. It is computed once;
texts stand behind it one after the other, their positions begin anew after the prefix, and each
sees the prefix and itself. Only positions before a counted token meet the vocabulary. Numbers alone
come in here, no tokeniser and no processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose.models.hf.vlm.decoder import Decoder, Past

ROW = 512
"""Tokens of texts in one row behind a prefix that is kept; a longer text has a row alone."""
ROWS = 8
"""Such rows at once."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """Tokens after a prefix.

    Attributes:
        ids: the tokens.
        counted: how many of the last ones are asked for.
    """

    ids: tuple[int, ...]
    counted: int

    @property
    def read(self) -> int:
        """Tokens that must be read: the last one is only predicted."""
        return len(self.ids) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Prefixes:
    """Beginnings of one length, as a language model is given them.

    Attributes:
        embeds: (b, p, d) tokens of text and of images.
        positions: (b, p), or (3, b, p) where positions have three axes.
    """

    embeds: Tensor
    positions: Tensor

    @property
    def following(self) -> Tensor:
        """(b,) the position of the next token."""
        flat = self.positions.amax(dim=-1)
        return (flat.amax(dim=0) if flat.ndim == 2 else flat) + 1


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A prefix that was computed already.

    Attributes:
        past: its keys and values in every layer.
        last: (1, 1, d) hidden state of its last token.
        following: (1,) the position of the next token.
        axes: axes of a position: 1 or 3.
    """

    past: Past
    last: Tensor
    following: Tensor
    axes: int


def score(
    decoder: Decoder, prefixes: Prefixes, texts: Sequence[Sequence[Continuation]]
) -> list[Tensor]:
    """Log-probabilities of every counted token, a flat tensor on the CPU for each prefix.

    Args:
        decoder: the language model.
        prefixes: b of them.
        texts: what follows each, b lists.
    """
    layout = _lay(texts)
    batch, length = prefixes.embeds.shape[:2]
    device = prefixes.embeds.device
    embeds = torch.cat([prefixes.embeds, decoder.embed(layout.ids.to(device))], dim=1)
    after = prefixes.following[:, None] + layout.offsets.to(device)
    axes = prefixes.positions.shape[0] if prefixes.positions.ndim == 3 else 1
    positions = torch.cat([prefixes.positions, _on_axes(after, axes)], dim=-1)
    own = layout.own(device)
    sees = own.new_ones(batch, own.shape[1], length)
    last = torch.cat([sees[:, :1], own.new_zeros(batch, 1, own.shape[1])], dim=2)
    if own.shape[1]:
        allowed = torch.cat([last, torch.cat([sees, own], dim=2)], dim=1)
    else:
        allowed = own.new_ones(batch, 1, length)
    hidden, _ = decoder.run(embeds, positions, allowed, prefix=length)
    values = _asked(decoder, hidden, layout)
    return parted(values, layout.counts)


def keep(decoder: Decoder, prefixes: Prefixes) -> list[Kept]:
    """Prefixes computed once, for texts that come later."""
    length = prefixes.embeds.shape[1]
    hidden, past = decoder.run(prefixes.embeds, prefixes.positions, None, prefix=length)
    if past is None:
        raise RuntimeError("the decoder kept no keys")
    axes = prefixes.positions.shape[0] if prefixes.positions.ndim == 3 else 1
    return [
        Kept(
            Past(
                tuple(key[i : i + 1].contiguous() for key in past.keys),
                tuple(value[i : i + 1].contiguous() for value in past.values),
            ),
            hidden[i : i + 1],
            prefixes.following[i : i + 1],
            axes,
        )
        for i in range(len(hidden))
    ]


def score_kept(decoder: Decoder, kept: Kept, texts: Sequence[Continuation]) -> list[Tensor]:
    """Log-probabilities of texts after one kept prefix, a tensor on the CPU for each text."""
    found: list[Tensor] = [torch.empty(0)] * len(texts)
    for places in _chunks(texts):
        rows = [[texts[i] for i in row] for row in places]
        layout = _lay(rows)
        hidden = kept.last.expand(len(rows), -1, -1)
        if layout.ids.shape[1]:
            hidden = torch.cat([hidden, _after(decoder, kept, layout)], dim=1)
        counts = [text.counted for row in rows for text in row]
        values = parted(_asked(decoder, hidden, layout), counts)
        for i, each in zip((i for row in places for i in row), values, strict=True):
            found[i] = each
    return found


def parted(values: Tensor, counts: Sequence[int]) -> list[Tensor]:
    """A flat tensor in parts of some lengths."""
    return [values[a:b] for a, b in pairwise(accumulate(counts, initial=0))]


def _after(decoder: Decoder, kept: Kept, layout: _Layout) -> Tensor:
    """Hidden states (r, t, d) of rows of texts behind one prefix."""
    device = kept.last.device
    own = layout.own(device)
    allowed = torch.cat([own.new_ones(*own.shape[:2], kept.past.length), own], dim=2)
    positions = kept.following[:, None] + layout.offsets.to(device)
    hidden, _ = decoder.run(
        decoder.embed(layout.ids.to(device)),
        _on_axes(positions, kept.axes),
        allowed,
        prefix=0,
        past=kept.past,
    )
    return hidden


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Texts side by side in rows of equal length.

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
        """(b, t, t) which tokens of the row each may see: those of its text up to itself."""
        blocks = self.blocks.to(device)
        return (blocks[:, :, None] == blocks[:, None, :]).tril()


def _lay(texts: Sequence[Sequence[Continuation]]) -> _Layout:
    """Lay texts out, a row behind each prefix."""
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


def _asked(decoder: Decoder, hidden: Tensor, layout: _Layout) -> Tensor:
    """Log-probabilities (m,) on the CPU of a layout's counted tokens."""
    places, asked = torch.unique(layout.rows, return_inverse=True)
    needed = hidden.flatten(0, 1)[places.to(hidden.device)]
    return decoder.logprobs(needed, asked, layout.targets.to(hidden.device)).cpu()


def _on_axes(positions: Tensor, axes: int) -> Tensor:
    return positions if axes == 1 else positions.expand(axes, -1, -1)


def _chunks(texts: Sequence[Continuation]) -> Iterator[list[list[int]]]:
    """Rows of texts by number, longest first, a few rows at a time."""
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
