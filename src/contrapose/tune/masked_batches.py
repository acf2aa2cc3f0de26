"""Masked captions of a batch, for losses that need `masked`.

A caption and its negative are two games on their image. The players are the words for objects, O,
and the words for relations and attributes, X. Each game has four coalitions: that of both players
is the text itself, whose vectors are computed anyway; the other three are built here, with zeros in
place of the embeddings of hidden words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose.data.tagging import A, O, R
from contrapose.errors import InputError
from contrapose.models.masking.text import Span, hide
from contrapose.tune.data.rows import IndexArray, TrainingSet
from contrapose.tune.students import Inputs, Student
from contrapose.world.benchmark import text_groups

PLAYER_GROUPS = ((O,), (R, A))
"""The word groups of each player."""
MASKED_COALITIONS = 3
"""Coalitions of a text that hide something: of nobody, of O alone, of X alone."""
MAX_DEVICE_BYTES = 1 << 28
"""Bytes of tokens, or of masks on them, that are kept on the device."""


class MaskedBatch(NamedTuple):
    """Masked captions and negatives of a batch, without the unmasked coalitions.

    Attributes:
        tokens: (b, 6, l) of captions, then of their negatives, three times each.
        hidden: (b, 6, l) which of them are hidden: of O and X, of X, of O.
        has: (b,) whether there is a negative and both texts have both players.
    """

    tokens: Inputs
    hidden: Tensor
    has: Tensor

    def read(self, student: Student, rows: slice = slice(None)) -> Tensor:
        """(r, 6, d) text vectors of some rows."""
        tokens = {name: it[rows].flatten(0, 1) for name, it in self.tokens.items()}
        vectors = student.read(tokens, self.hidden[rows].flatten(0, 1))
        return vectors.reshape(-1, 2 * MASKED_COALITIONS, vectors.shape[-1])


def complete_games(masked: Tensor, text: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """(b, 4, d) text vectors of captions and of negatives, by coalition mask.

    Args:
        masked: (b, 6, d) vectors of masked texts, from `MaskedBatch.read`.
        text: (b, d) vectors of captions.
        negative: (b, d) vectors of negatives.
    """
    right, wrong = masked.chunk(2, dim=1)
    return (
        torch.cat([right, text[:, None].to(right.dtype)], dim=1),
        torch.cat([wrong, negative[:, None].to(wrong.dtype)], dim=1),
    )


class PlayerTokens:
    """Token masks of both players for all texts of a training set."""

    def __init__(self, rows: TrainingSet, student: Student, tokens: Inputs, device: str):
        """Tag every text that has or is a hard negative.

        Args:
            rows: the training set.
            student: aligns words and tokens.
            tokens: tokens of all texts of the training set, on the CPU.
            device: where the masks are kept.

        Raises:
            InputError: no caption that has a negative has both players.
            MissingExtraError: captions must be tagged, and the tagger is not installed.
        """
        sizes = np.diff(rows.negatives.offsets)
        pairs = np.repeat(rows.captions.values, sizes), rows.negatives.values
        indices = np.unique(np.concatenate(pairs))
        texts = [rows.texts[index] for index in indices.tolist()]
        width = next(iter(tokens.values())).shape[1]
        masks = torch.zeros(len(PLAYER_GROUPS), len(rows.texts), width, dtype=torch.bool)
        spans = [player_spans(text) for text in texts]
        for player, mask in enumerate(masks):
            of_player = [groups[player] for groups in spans]
            mask[torch.from_numpy(indices)] = _token_masks(student, texts, of_player, tokens)
        self.plays = masks.any(dim=2).all(dim=0).numpy()
        self.pairs = len(pairs[0])
        self.played = int((self.plays[pairs[0]] & self.plays[pairs[1]]).sum())
        if not self.played:
            raise InputError(
                "a loss needs captions with words for objects and words for relations or "
                "attributes, in the caption and in its negative: the data has none."
            )
        self.masks = masks.to(device) if masks.nbytes < MAX_DEVICE_BYTES else masks

    @property
    def note(self) -> str:
        """Number of playable captions, for the log."""
        return (
            f"dividend: {self.played} of {self.pairs} captions with a negative have words for "
            "objects and words that bind them"
        )

    def mask(
        self, tokens: Inputs, texts: IndexArray, wrong: NDArray[np.bool_], device: str
    ) -> MaskedBatch:
        """Build the masked texts of a batch.

        Args:
            tokens: (2b, l) tokens of each caption and its negative, one after the other.
            texts: (b, 2) their indices; the caption's twice where there is no negative.
            wrong: (b,) whether there is a negative.
            device: where the masked texts go.
        """
        shape = len(texts), 2 * MASKED_COALITIONS, next(iter(tokens.values())).shape[1]
        indices = torch.from_numpy(texts.reshape(-1)).to(self.masks.device)
        of_o, of_x = self.masks[:, indices, : shape[2]]
        hidden = torch.stack([of_o | of_x, of_x, of_o], dim=1).reshape(shape)
        return MaskedBatch(
            {
                name: it.repeat_interleave(MASKED_COALITIONS, dim=0).reshape(shape)
                for name, it in tokens.items()
            },
            hidden.to(device, non_blocking=True),
            torch.from_numpy(wrong & self.plays[texts].all(axis=1)).to(device, non_blocking=True),
        )


def player_spans(text: str) -> tuple[list[Span], ...]:
    """Character spans of the words of each player in a text."""
    groups = text_groups(text)
    return tuple(
        [span for name in names for span in groups.get(name, ())] for names in PLAYER_GROUPS
    )


def mask_players(text: str) -> list[str] | None:
    """The three masked versions of a text; None where a player has no word."""
    of_o, of_x = player_spans(text)
    return [hide(text, spans) for spans in (of_o + of_x, of_x, of_o)] if of_o and of_x else None


def _token_masks(
    student: Student, texts: Sequence[str], spans: Sequence[Sequence[Span]], tokens: Inputs
) -> Tensor:
    """(n, l) token masks of some words; empty for texts whose words cannot be aligned."""
    masked = [hide(text, some) for text, some in zip(texts, spans, strict=True)]
    try:
        return student.flags(masked, tokens)
    except InputError:
        if len(texts) == 1:
            return torch.zeros(1, next(iter(tokens.values())).shape[1], dtype=torch.bool)
    half = len(texts) // 2
    parts = (slice(None, half), slice(half, None))
    return torch.cat([_token_masks(student, texts[part], spans[part], tokens) for part in parts])
