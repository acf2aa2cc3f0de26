"""Caption packing: captions of one image side by side in one sequence, under a block mask.

Text that attends to an image can share that image's keys and values with every caption in the same
row. A block-diagonal mask hides the captions of a row from each other, and their positions start
again from 0. Rows are padded to the longest one, so one call scores the captions of many images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.arrays import Ragged

MAX_ROW_TOKENS = 256
"""Most tokens of a row of several captions: the cost of attention grows with its square."""
NO_OWNER = -1


@dataclass(frozen=True, slots=True, eq=False)
class PackedCaptions:
    """Captions packed into rows.

    Attributes:
        tokens: (r, l) input token ids; the last token of a caption is only predicted, never read.
        positions: (r, l) position of each token in its caption, from 0.
        owners: (r, l) index of the caption that each token belongs to; −1 for padding.
        row_images: (r,) index of the image of each row.
        sources: (t,) on the CPU, index of the state that predicts each counted token, in the
            flattened states of all rows; caption after caption.
        targets: (t,) on the CPU, the counted tokens, in the same order.
        offsets: start of each caption's counted tokens, and the end.
    """

    tokens: Tensor
    positions: Tensor
    owners: Tensor
    row_images: list[int]
    sources: Tensor
    targets: Tensor
    offsets: list[int]

    def block_mask(self, *, causal: bool = True) -> Tensor:
        """(r, l, l) boolean mask: a token sees its own caption, only backwards if `causal`."""
        blocks = self.owners[:, :, None] == self.owners[:, None, :]
        return blocks.tril() if causal else blocks

    def attention_mask(self, prefix: int = 0, *, causal: bool = True) -> Tensor:
        """(r, 1, l, prefix + l) boolean attention mask: the full prefix, then the block mask."""
        return F.pad(self.block_mask(causal=causal), (prefix, 0), value=True)[:, None]

    def additive_mask(self, dtype: torch.dtype, prefix: int = 0, *, causal: bool = True) -> Tensor:
        """Additive form of the attention mask: 0, or the least number of the dtype."""
        allowed = self.attention_mask(prefix, causal=causal)
        bias = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
        return bias.masked_fill_(~allowed, torch.finfo(dtype).min)

    def select(self, states: Tensor) -> Tensor:
        """Select the states (t, width) that predict a counted token."""
        return states.flatten(0, 1)[self.sources.to(states.device)]


def pack(
    captions: Sequence[Sequence[int]],
    images: Sequence[int],
    *,
    counted: Sequence[int] | None = None,
    longest: int = MAX_ROW_TOKENS,
    device: torch.device | str = "cpu",
) -> PackedCaptions:
    """Pack captions into rows, those of an image together, in as few rows as `longest` allows.

    Args:
        captions: token ids of each caption, special tokens included.
        images: index of the image of each caption.
        counted: number of last tokens of each caption that are scored; default: all but the first.
        longest: most tokens of a row of several captions.
        device: of tokens, positions and owners.
    """
    rows = _assign_rows(captions, images, longest)
    return pack_rows(
        captions, rows, [images[row[0]] for row in rows], counted=counted, device=device
    )


def pack_rows(
    captions: Sequence[Sequence[int]],
    rows: Sequence[Sequence[int]],
    row_images: Sequence[int],
    *,
    counted: Sequence[int] | None = None,
    after_prefix: bool = False,
    device: torch.device | str = "cpu",
) -> PackedCaptions:
    """Pack captions into given rows.

    Args:
        captions: token ids of each caption.
        rows: indices of the captions of each row.
        row_images: index of the image of each row.
        counted: number of last tokens of each caption that are scored; default: all that have a
            token before them.
        after_prefix: whether the state of a prefix's last token, which predicts the first token of
            every caption, comes before the states of each row: `sources` then counts r × (1 + l).
        device: of tokens, positions and owners.
    """
    first = 0 if after_prefix else 1
    counts = [len(caption) - first for caption in captions] if counted is None else list(counted)
    length = max((sum(len(captions[i]) - 1 for i in row) for row in rows), default=0)
    width = length + 1 - first
    tokens, positions, owners = _grid(rows, length), _grid(rows, length), _grid(rows, length)
    owners.fill(NO_OWNER)
    starts = [0] * len(captions)
    for number, row in enumerate(rows):
        start = 0
        for i in row:
            span = slice(start, start + len(captions[i]) - 1)
            tokens[number, span] = captions[i][:-1]
            positions[number, span] = np.arange(span.stop - span.start)
            owners[number, span] = i
            starts[i] = number * width + start
            start = span.stop
    row_starts = {i: number * width for number, row in enumerate(rows) for i in row}
    sources: list[int] = []
    targets: list[int] = []
    for i, caption in enumerate(captions):
        skipped = len(caption) - counts[i]
        states = range(starts[i] + skipped - first, starts[i] + len(caption) - first)
        sources += states if skipped or first else (row_starts[i], *states[1:])
        targets += caption[skipped:]
    return PackedCaptions(
        torch.from_numpy(tokens).to(device),
        torch.from_numpy(positions).to(device),
        torch.from_numpy(owners).to(device),
        list(row_images),
        torch.tensor(sources, dtype=torch.long),
        torch.tensor(targets, dtype=torch.long),
        [0, *accumulate(counts)],
    )


def _grid(rows: Sequence[object], length: int) -> NDArray[np.int64]:
    return np.zeros((len(rows), length), dtype=np.int64)


def _assign_rows(
    captions: Sequence[Sequence[int]], images: Sequence[int], longest: int
) -> list[list[int]]:
    """Assign captions to rows, in the order of the images' first captions."""
    rows: list[list[int]] = []
    open_row: dict[int, int] = {}
    used: list[int] = []
    for i, image in enumerate(images):
        tokens = len(captions[i]) - 1
        row = open_row.get(image)
        if row is None or used[row] + tokens > longest:
            row = open_row[image] = len(rows)
            rows.append([])
            used.append(0)
        rows[row].append(i)
        used[row] += tokens
    return rows


def ragged_logprobs(logits: Tensor, packed: PackedCaptions) -> Ragged:
    """Log-probabilities of the counted tokens from their logits (t, vocabulary), in float32."""
    targets = packed.targets.to(logits.device)
    return Ragged(target_logprobs(logits, targets).cpu(), packed.offsets)


def target_logprobs(logits: Tensor, targets: Tensor) -> Tensor:
    """(t,) log P of each target under its row of logits, in float32."""
    wide = logits.float()
    return wide.gather(1, targets[:, None]).squeeze(1) - wide.logsumexp(dim=1)


def sum_per_caption(logprobs: Ragged) -> Tensor:
    """(captions,) sum of each caption's log-probabilities."""
    offsets = torch.as_tensor(logprobs.offsets)
    owners = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    return torch.zeros(len(offsets) - 1).index_add_(0, owners, logprobs.values)
