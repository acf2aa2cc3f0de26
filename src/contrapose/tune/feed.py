"""Training batches: each one is a function of the seed and the step number alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose.data.tagging import A, O, R
from contrapose.errors import InputError, option
from contrapose.losses.gather import Processes
from contrapose.models.masking.text import Span, hide
from contrapose.tune.data.rows import IndexArray, TrainingSet
from contrapose.tune.settings import Settings
from contrapose.tune.students import CoarseVectors, Inputs, Student
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


@dataclass(frozen=True, slots=True, eq=False)
class TrainingBatch:
    """The training batch of one process.

    Attributes:
        rows: (b,) indices of the images.
        pixels: inputs of the image encoder.
        captions: (b,) indices of their captions in the table of distinct texts.
        negatives: (b,) indices of hard negatives, −1 where a caption has none.
        negative_texts: (b,) the same, on the device.
        positives: (b,) indices of hard positives, −1 where a caption has none.
        text: tokens of the captions.
        negative: tokens of the negatives, those of the caption where there is none; None where no
            loss needs them.
        positive: tokens of the positives, in the same way.
        has_negative: (b,) whether there is a negative.
        has_positive: (b,) whether there is a positive.
        masked: captions and negatives with words hidden; None where no loss needs them.
        coarse: (b, d) coarse vectors of the images and of the captions; None where no loss needs
            them.
        seed: of what is drawn from the whole batch, the same in every process.
    """

    rows: IndexArray
    pixels: Inputs
    captions: Tensor
    negatives: IndexArray
    negative_texts: Tensor
    positives: IndexArray
    text: Inputs
    negative: Inputs | None
    positive: Inputs | None
    has_negative: Tensor
    has_positive: Tensor
    masked: MaskedBatch | None = None
    coarse: tuple[Tensor, Tensor] | None = None
    seed: int = 0

    def __len__(self) -> int:
        return len(self.rows)


class Feed:
    """Source of the training batches of a run."""

    def __init__(
        self,
        rows: TrainingSet,
        student: Student,
        settings: Settings,
        *,
        needs: Collection[str] = (),
        device: str = "cpu",
        job: Processes | None = None,
    ):
        """Tokenize the texts and check that the data suit the batch size and the losses.

        Args:
            rows: images and captions.
            student: whose tokens and pixels are made.
            settings: batch size and seed.
            needs: what the losses need beyond images and captions: their `needs`.
            device: where batches go.
            job: the processes that share each batch.

        Raises:
            InputError: there are fewer images than a batch, the processes cannot share it evenly,
                or a loss needs changed captions that the data do not have.
        """
        self.job = job or Processes()
        self.rows, self.student, self.settings, self.device = rows, student, settings, device
        self.needs = frozenset(needs)
        if settings.batch > len(rows):
            raise InputError(
                f"a batch of {settings.batch} needs as many images, and the data has {len(rows)}: "
                f"pass {option('batch_size')} {max(2, len(rows))} or less."
            )
        if settings.batch % self.job.count:
            raise InputError(
                f"{self.job.count} processes cannot share a batch of {settings.batch} evenly."
            )
        for need, changes in (("negative", rows.negatives), ("positive", rows.positives)):
            if need in self.needs and not len(changes.values):
                raise InputError(
                    f"a loss needs {need}s, and no caption of the data has any: "
                    "contrapose build pairs makes them."
                )
        key = student.model.fingerprint
        if key not in rows.tokens:  # another run on the same data may have made them
            rows.tokens[key] = student.tokens(rows.texts)
        self.tokens = {
            name: values.to(device) if values.nbytes < MAX_DEVICE_BYTES else values
            for name, values in rows.tokens[key].items()
        }
        self.players: PlayerTokens | None = None
        if "masked" in self.needs:
            self.players = PlayerTokens(rows, student, rows.tokens[key], device)
        self._epoch: tuple[int, tuple[IndexArray, ...]] | None = None
        self.coarse: CoarseVectors | None = None
        if "coarse" in self.needs:
            parts = [self._indices(step)[:2] for step in range(settings.steps)]
            images, captions = (np.concatenate(it) for it in zip(*parts, strict=True))
            self.coarse = CoarseVectors(
                student, rows.images, images, captions,
                read=self.read, batch=settings.batch // self.job.count, device=device,
            )  # fmt: skip

    def batches(self, first: int, stop: int) -> Iterator[TrainingBatch]:
        """Batches of steps `first` to `stop`, prefetched in a thread."""
        if self.rows.images.pixels is not None:
            yield from map(self.batch, range(first, stop))
            return
        with ThreadPoolExecutor(1) as pool:
            waiting: Future[TrainingBatch] | None = None
            for step in range(first, stop):
                ready = (waiting or pool.submit(self.batch, step)).result()
                waiting = pool.submit(self.batch, step + 1) if step + 1 < stop else None
                yield ready

    def batch(self, step: int) -> TrainingBatch:
        """The batch of a step."""
        rows, captions, negatives, positives = self._indices(step)
        pixels = self.student.pixels(self.rows.images, rows.tolist())
        return TrainingBatch(
            rows=rows,
            pixels={name: self._to_device(values) for name, values in pixels.items()},
            captions=self._to_device(torch.from_numpy(captions)),
            negatives=negatives,
            negative_texts=self._to_device(torch.from_numpy(negatives)),
            positives=positives,
            text=self.read(captions),
            negative=self._read_changes("negative", captions, negatives),
            positive=self._read_changes("positive", captions, positives),
            has_negative=self._to_device(torch.from_numpy(negatives >= 0)),
            has_positive=self._to_device(torch.from_numpy(positives >= 0)),
            masked=self._masked_batch(captions, negatives),
            coarse=None if self.coarse is None else self.coarse.of(rows, captions),
            seed=int(np.random.SeedSequence((self.settings.seed, step, 11)).generate_state(1)[0]),
        )

    def _indices(self, step: int) -> list[IndexArray]:
        """Images, captions, negatives and positives of a step in this process."""
        size = self.settings.batch
        epoch, number = divmod(step, len(self.rows) // size)
        share = size // self.job.count
        start = number * size + self.job.rank * share
        return [column[start : start + share] for column in self._columns(epoch)]

    def read(self, texts: IndexArray) -> Inputs:
        """Tokens of some texts of the table, trimmed to the longest."""
        tokens = {
            name: self._to_device(
                values[torch.from_numpy(texts).to(values.device, non_blocking=True)]
            )
            for name, values in self.tokens.items()
        }
        # Processes gather tokens from each other, and must have them of one length.
        return tokens if self.job.count > 1 else trim_padding(tokens)

    def _read_changes(self, need: str, captions: IndexArray, changed: IndexArray) -> Inputs | None:
        if need not in self.needs:
            return None
        return self.read(np.where(changed < 0, captions, changed))

    def _masked_batch(self, captions: IndexArray, negatives: IndexArray) -> MaskedBatch | None:
        if self.players is None:
            return None
        both = np.stack([captions, np.where(negatives < 0, captions, negatives)], axis=1)
        tokens = self.read(both.reshape(-1))
        return self.players.mask(tokens, both, negatives >= 0, self.device)

    def _to_device(self, values: Tensor) -> Tensor:
        return values.to(self.device, non_blocking=True)

    def _columns(self, epoch: int) -> tuple[IndexArray, ...]:
        """Of one epoch: the image order, and the texts drawn for each image."""
        if self._epoch is None or self._epoch[0] != epoch:
            random = np.random.default_rng((self.settings.seed, epoch, 7))
            rows, count = self.rows, len(self.rows)
            order = random.permutation(count)
            chances: NDArray[np.float64] = random.random((3, count))
            captions = rows.captions.draw(order, chances[0])
            negatives, positives = (
                np.where((index := changes.draw(captions, chance)) < 0, -1,
                         _take_values(changes.values, index))
                for changes, chance in ((rows.negatives, chances[1]), (rows.positives, chances[2]))
            )  # fmt: skip
            self._epoch = epoch, (order, rows.captions.values[captions], negatives, positives)
        return self._epoch[1]


def _take_values(values: IndexArray, indices: IndexArray) -> IndexArray:
    """Values at some indices; any value where an index is negative."""
    return values[np.maximum(indices, 0)] if len(values) else np.full_like(indices, -1)


def trim_padding(tokens: Inputs) -> Inputs:
    """Trim token columns that are padding in every row, by the attention mask."""
    mask = tokens.get("attention_mask")
    if mask is None:
        return tokens
    length = int(mask.any(dim=0).nonzero().max()) + 1
    return {name: values[:, :length] for name, values in tokens.items()}
