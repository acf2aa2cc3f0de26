"""Training batches: each one is a function of the seed and the step number alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose.errors import InputError, option
from contrapose.losses.gather import Processes
from contrapose.tune.data.rows import IndexArray, TrainingSet
from contrapose.tune.masked_batches import MAX_DEVICE_BYTES, MaskedBatch, PlayerTokens
from contrapose.tune.settings import Settings
from contrapose.tune.students import Inputs, Student


@dataclass(frozen=True, slots=True, eq=False)
class TrainingBatch:
    """The training batch of one process.

    Attributes:
        rows: (b,) indices of the images.
        pixels: inputs of the image encoder.
        captions: (b,) indices of their captions in the table of distinct texts.
        negatives: (b,) indices of hard negatives, −1 where a caption has none.
        positives: (b,) indices of hard positives, −1 where a caption has none.
        text: tokens of the captions.
        negative: tokens of the negatives, those of the caption where there is none; None where no
            loss needs them.
        positive: tokens of the positives, in the same way.
        has_negative: (b,) whether there is a negative.
        has_positive: (b,) whether there is a positive.
        masked: captions and negatives with words hidden; None where no loss needs them.
    """

    rows: IndexArray
    pixels: Inputs
    captions: Tensor
    negatives: IndexArray
    positives: IndexArray
    text: Inputs
    negative: Inputs | None
    positive: Inputs | None
    has_negative: Tensor
    has_positive: Tensor
    masked: MaskedBatch | None = None

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
        size = self.settings.batch
        epoch, number = divmod(step, len(self.rows) // size)
        columns = self._columns(epoch)
        share = size // self.job.count
        start = number * size + self.job.rank * share
        rows, captions, negatives, positives = (c[start : start + share] for c in columns)
        pixels = self.student.pixels(self.rows.images, rows.tolist())
        return TrainingBatch(
            rows=rows,
            pixels={name: self._to_device(values) for name, values in pixels.items()},
            captions=self._to_device(torch.from_numpy(captions)),
            negatives=negatives,
            positives=positives,
            text=self.read(captions),
            negative=self._read_changes("negative", captions, negatives),
            positive=self._read_changes("positive", captions, positives),
            has_negative=self._to_device(torch.from_numpy(negatives >= 0)),
            has_positive=self._to_device(torch.from_numpy(positives >= 0)),
            masked=self._masked_batch(captions, negatives),
        )

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
