"""The interaction's share on a panel's swaps: how much of the change is seen in words together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.metrics import FloatArray
from contrapose.models.masks import ZERO
from contrapose.tune.bill.panel import Panel
from contrapose.tune.data.rows import Numbers
from contrapose.tune.games import HIDDEN, both_games, masked_texts
from contrapose.tune.losses.dividend import Dividend

SWAPS = "swaps"


class Swaps(NamedTuple):
    """The swaps of a panel that can be played.

    Attributes:
        images: (k,) places of the images.
        texts: (k, 2) places of the right caption and of the wrong one.
        masked: (k · 6) the captions with words hidden.
    """

    images: Numbers
    texts: Numbers
    masked: list[str]


def playable(panel: Panel) -> Swaps | None:
    """The swaps of a panel whose captions both have both players; None where there are none.

    Raises:
        MissingExtraError: captions must be tagged, and the tagger is not installed.
    """
    found = next((test for test in panel.tests if test.name == SWAPS), None)
    if found is None or not len(found.images):
        return None
    hidden = {text: masked_texts(panel.texts[text]) for text in np.unique(found.texts).tolist()}
    kept = [i for i, pair in enumerate(found.texts.tolist()) if all(hidden[t] for t in pair)]
    if not kept:
        return None
    texts = found.texts[kept]
    masked = [each for text in texts.reshape(-1).tolist() for each in hidden[text] or ()]
    return Swaps(found.images[kept, 0], texts, masked)


def shares(swaps: Swaps, model: Any, images: Tensor, texts: Tensor) -> FloatArray | None:
    """(k,) the share of each swap; None of a model that cannot hide these words by zeros.

    Args:
        swaps: what is asked.
        model: reads captions with hidden words.
        images: (n, d) its vectors of all pictures.
        texts: (m, d) of all captions.
    """
    if ZERO not in getattr(model, "text_masks", ()):
        return None
    size = max(1, model.batch_size)
    starts = range(0, len(swaps.masked), size)
    try:
        read = [model.embed_texts(swaps.masked[i : i + size]).float().cpu() for i in starts]
    except InputError:  # the tokens of a word cannot be told from others
        return None
    masked = torch.cat(read).reshape(len(swaps.images), 2 * HIDDEN, -1)
    whole = texts[torch.from_numpy(swaps.texts)]
    games = both_games(masked, whole[:, 0], whole[:, 1])
    found = Dividend().shares(images[torch.from_numpy(swaps.images)][:, None], *games)
    return found.numpy().astype(np.float64)
