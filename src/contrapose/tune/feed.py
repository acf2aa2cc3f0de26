"""Training batches: each one is a function of the seed and the step number alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses.gather import Processes
from contrapose.tune.data.rows import IndexArray, TrainingSet
from contrapose.tune.masked_batches import MAX_DEVICE_BYTES, MaskedBatch, PlayerTokens
from contrapose.tune.settings import Settings
from contrapose.tune.students import Inputs, Student


@dataclass(frozen=True, slots=True, eq=False)
class TrainingBatch:
    """The training batch of one process.

    Attributes:
        rows: (b,) which images.
        pixels: of them.
        captions: (b,) places of their captions in the table of texts, where no text stands twice.
        negatives: (b,) likewise, −1 where a caption has none.
        positives: (b,) likewise.
        text: tokens of the captions.
        negative: tokens of the negatives, the caption's own where there is none; None where no loss
            asks for them.
        positive: likewise.
        has_negative: (b,) whether there is one.
        has_positive: (b,) likewise.
        games: captions and negatives with words hidden; None where no loss asks for them.
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
    games: MaskedBatch | None = None

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
        negatives: bool = False,
        positives: bool = False,
        games: bool = False,
        device: str = "cpu",
        job: Processes | None = None,
    ):
        """Tokenize the texts and check that the data suit the batch size and the losses.

        Raises:
            InputError: there are fewer images than a batch, the processes cannot share it evenly,
                or a loss asks for changes that no caption has.
        """
        self.job = job or Processes()
        self.rows, self.student, self.settings, self.device = rows, student, settings, device
        self.wanted = negatives, positives
        if settings.batch > len(rows):
            raise InputError(
                f"a batch of {settings.batch} needs as many images, and the data has {len(rows)}: "
                f"pass --batch-size {max(2, len(rows))} or less."
            )
        if settings.batch % self.job.count:
            raise InputError(
                f"{self.job.count} processes cannot share a batch of {settings.batch} evenly."
            )
        for wanted, made, name, loss in (
            (negatives, rows.negatives, "negatives", "dividend" if games else "hn"),
            (positives, rows.positives, "positives", "hp"),
        ):
            if wanted and not len(made.values):
                raise InputError(
                    f"--with {loss} needs {name}, and no caption of the data has any: "
                    "contrapose build pairs makes them."
                )
        key = student.model.fingerprint
        if key not in rows.tokens:  # another run on the same data may have made them
            rows.tokens[key] = student.tokens(rows.texts)
        self.tokens = {
            name: values.to(device) if values.nbytes < MAX_DEVICE_BYTES else values
            for name, values in rows.tokens[key].items()
        }
        self.players = PlayerTokens(rows, student, rows.tokens[key], device) if games else None
        self._round: tuple[int, tuple[IndexArray, ...]] | None = None

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
        round_, place = divmod(step, len(self.rows) // size)
        columns = self._columns(round_)
        each = size // self.job.count
        start = place * size + self.job.rank * each
        rows, captions, negatives, positives = (c[start : start + each] for c in columns)
        pixels = self.student.pixels(self.rows.images, rows.tolist())
        return TrainingBatch(
            rows=rows,
            pixels={name: self._there(values) for name, values in pixels.items()},
            captions=self._there(torch.from_numpy(captions)),
            negatives=negatives,
            positives=positives,
            text=self.read(captions),
            negative=self._read_changes(captions, negatives) if self.wanted[0] else None,
            positive=self._read_changes(captions, positives) if self.wanted[1] else None,
            has_negative=self._there(torch.from_numpy(negatives >= 0)),
            has_positive=self._there(torch.from_numpy(positives >= 0)),
            games=self._masked_batch(captions, negatives),
        )

    def read(self, texts: IndexArray) -> Inputs:
        """Tokens of some texts of the table, trimmed to the longest."""
        found = {
            name: self._there(values[torch.from_numpy(texts).to(values.device, non_blocking=True)])
            for name, values in self.tokens.items()
        }
        # Processes gather tokens from each other, and must have them of one length.
        return found if self.job.count > 1 else trim_padding(found)

    def _read_changes(self, captions: IndexArray, changed: IndexArray) -> Inputs:
        return self.read(np.where(changed < 0, captions, changed))

    def _masked_batch(self, captions: IndexArray, negatives: IndexArray) -> MaskedBatch | None:
        if self.players is None:
            return None
        both = np.stack([captions, np.where(negatives < 0, captions, negatives)], axis=1)
        tokens = self.read(both.reshape(-1))
        return self.players.games(tokens, both, negatives >= 0, self.device)

    def _there(self, values: Tensor) -> Tensor:
        return values.to(self.device, non_blocking=True)

    def _columns(self, round_: int) -> tuple[IndexArray, ...]:
        """Of one epoch: the image order, and the texts drawn for each image."""
        if self._round is None or self._round[0] != round_:
            random = np.random.default_rng((self.settings.seed, round_, 7))
            count = len(self.rows)
            order = random.permutation(count)
            chances: NDArray[np.float64] = random.random((3, count))
            rows = self.rows
            sayings = rows.captions.draw(order, chances[0])
            negatives, positives = (
                np.where(
                    (place := made.draw(sayings, chance)) < 0, -1, _take_values(made.values, place)
                )
                for made, chance in ((rows.negatives, chances[1]), (rows.positives, chances[2]))
            )
            columns = (order, rows.captions.values[sayings], negatives, positives)
            self._round = round_, columns
        return self._round[1]


def _take_values(values: IndexArray, places: IndexArray) -> IndexArray:
    """Values at some indices; any value where an index is negative."""
    return values[np.maximum(places, 0)] if len(values) else np.full_like(places, -1)


def trim_padding(tokens: Inputs) -> Inputs:
    """Trim token columns that are padding in every row, by the attention mask."""
    mask = tokens.get("attention_mask")
    if mask is None:
        return tokens
    length = int(mask.any(dim=0).nonzero().max()) + 1
    return {name: values[:, :length] for name, values in tokens.items()}
