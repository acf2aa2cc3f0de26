"""Caption packing: captions of one image as one sequence under a block mask.

A network whose text reads the image by attention reads it once for all captions that lie in one
row: a block mask hides each from the others, and positions begin anew. Rows are filled up to the
longest one, so what was asked of many images goes in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.arrays import Ragged

MAX_ROW_TOKENS = 256
"""Tokens of a row, where a single caption has no more: attention within it grows by the square."""
NO_OWNER = -1


@dataclass(frozen=True, slots=True, eq=False)
class PackedCaptions:
    """Captions packed into rows.

    Attributes:
        tokens: (r, l) token numbers; the last of each caption is left out, since nothing follows.
        places: (r, l) place of each token in its own caption, from 0.
        owners: (r, l) which caption each token is of; −1 where a row is filled up.
        rows: (r,) whose captions a row holds: the image's number, as given.
        sources: (t,) where the numbers that foretell each counted token come out, in the rows one
            after another; caption by caption.
        targets: (t,) the counted tokens, in the same order.
        offsets: where each caption's counted tokens begin, and the end.
    """

    tokens: Tensor
    places: Tensor
    owners: Tensor
    rows: list[int]
    sources: Tensor
    targets: Tensor
    offsets: list[int]

    def allowed(self, prefix: int = 0, *, causal: bool = True) -> Tensor:
        """(r, 1, l, prefix + l) boolean attention mask: the whole prefix, then one's own caption.

        Args:
            prefix: tokens that stand before every row and that all may look at.
            causal: at the earlier tokens of one's own caption only, or at all of them.
        """
        own = self.owners[:, :, None] == self.owners[:, None, :]
        if causal:
            own = own.tril()
        return F.pad(own, (prefix, 0), value=True)[:, None]

    def mask(self, dtype: torch.dtype, prefix: int = 0, *, causal: bool = True) -> Tensor:
        """Additive form of the attention mask: 0, or the least number of the dtype."""
        allowed = self.allowed(prefix, causal=causal)
        low = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
        return low.masked_fill_(~allowed, torch.finfo(dtype).min)

    def chosen(self, states: Tensor) -> Tensor:
        """Select the states (t, width) that predict a counted token."""
        return states.flatten(0, 1)[self.sources]


def pack(
    captions: Sequence[Sequence[int]],
    images: Sequence[int],
    *,
    counted: Sequence[int] | None = None,
    longest: int = MAX_ROW_TOKENS,
    fill: int = 0,
    device: torch.device | str = "cpu",
) -> PackedCaptions:
    """Pack captions into rows, those of an image together, in as few rows as `longest` allows.

    Args:
        captions: token numbers, each with all that stands before and after it.
        images: the number of the image that each goes with.
        counted: how many of the last tokens of each count; left out: all but the first.
        longest: most tokens of a row of several captions.
        fill: the token that fills a row up.
        device: where the tensors are to be.
    """
    filled = _assign_rows(captions, images, longest)
    length = max(sum(len(captions[i]) - 1 for i in row) for row in filled)
    counts = [len(each) - 1 for each in captions] if counted is None else list(counted)
    tokens, places, owners = [], [], []
    begins = [0] * len(captions)
    for number, row in enumerate(filled):
        line: list[int] = []
        place: list[int] = []
        owner: list[int] = []
        for i in row:
            begins[i] = number * length + len(line)
            line += captions[i][:-1]
            place += range(len(captions[i]) - 1)
            owner += [i] * (len(captions[i]) - 1)
        spare = length - len(line)
        tokens.append(line + [fill] * spare)
        places.append(place + [0] * spare)
        owners.append(owner + [NO_OWNER] * spare)
    sources: list[int] = []
    targets: list[int] = []
    for i, caption in enumerate(captions):
        after = len(caption) - counts[i]
        sources += range(begins[i] + after - 1, begins[i] + len(caption) - 1)
        targets += caption[after:]
    return PackedCaptions(
        torch.tensor(tokens, device=device),
        torch.tensor(places, device=device),
        torch.tensor(owners, device=device),
        [images[row[0]] for row in filled],
        torch.tensor(sources, dtype=torch.long, device=device),
        torch.tensor(targets, dtype=torch.long, device=device),
        [0, *accumulate(counts)],
    )


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
    return Ragged(target_logprobs(logits, packed.targets).cpu(), packed.offsets)


def target_logprobs(logits: Tensor, targets: Tensor) -> Tensor:
    """(t,) log P of each target under its row of logits, in float32."""
    wide = logits.float()
    own = wide.gather(1, targets[:, None]).squeeze(1)
    return own - wide.logsumexp(dim=1)


def sum_per_caption(found: Ragged) -> Tensor:
    """(captions,) sum of each caption's values."""
    offsets = torch.as_tensor(found.offsets)
    owners = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    return torch.zeros(len(offsets) - 1).index_add_(0, owners, found.values)
