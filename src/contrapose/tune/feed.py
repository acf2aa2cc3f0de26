"""Batches: which images and captions a step sees is a function of the seed and the step alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose.errors import InputError
from contrapose.tune.data.rows import Numbers, Rows
from contrapose.tune.games import KEPT, Games, Players
from contrapose.tune.losses.gather import Processes
from contrapose.tune.settings import Settings
from contrapose.tune.students.student import Inputs, Student


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What one process sees in a step.

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

    rows: Numbers
    pixels: Inputs
    captions: Tensor
    negatives: Numbers
    positives: Numbers
    text: Inputs
    negative: Inputs | None
    positive: Inputs | None
    has_negative: Tensor
    has_positive: Tensor
    games: Games | None = None

    def __len__(self) -> int:
        return len(self.rows)


class Feed:
    """The batches of a run."""

    def __init__(
        self,
        rows: Rows,
        student: Student,
        settings: Settings,
        *,
        negatives: bool = False,
        positives: bool = False,
        games: bool = False,
        device: str = "cpu",
        job: Processes | None = None,
    ):
        """Batches for one process.

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
            name: values.to(device) if values.nbytes < KEPT else values
            for name, values in rows.tokens[key].items()
        }
        self.players = Players(rows, student, rows.tokens[key], device) if games else None
        self._round: tuple[int, tuple[Numbers, ...]] | None = None

    def batches(self, first: int, stop: int) -> Iterator[Batch]:
        """The batches of steps `first` to `stop`, each made while the one before is learnt from."""
        if self.rows.images.pixels is not None:
            yield from map(self.batch, range(first, stop))
            return
        with ThreadPoolExecutor(1) as pool:
            waiting: Future[Batch] | None = None
            for step in range(first, stop):
                ready = (waiting or pool.submit(self.batch, step)).result()
                waiting = pool.submit(self.batch, step + 1) if step + 1 < stop else None
                yield ready

    def batch(self, step: int) -> Batch:
        """The batch of a step."""
        size = self.settings.batch
        round_, place = divmod(step, len(self.rows) // size)
        columns = self._columns(round_)
        each = size // self.job.count
        start = place * size + self.job.rank * each
        rows, captions, negatives, positives = (c[start : start + each] for c in columns)
        pixels = self.student.pixels(self.rows.images, rows.tolist())
        return Batch(
            rows=rows,
            pixels={name: self._there(values) for name, values in pixels.items()},
            captions=self._there(torch.from_numpy(captions)),
            negatives=negatives,
            positives=positives,
            text=self.read(captions),
            negative=self._changed(captions, negatives) if self.wanted[0] else None,
            positive=self._changed(captions, positives) if self.wanted[1] else None,
            has_negative=self._there(torch.from_numpy(negatives >= 0)),
            has_positive=self._there(torch.from_numpy(positives >= 0)),
            games=self._games(captions, negatives),
        )

    def read(self, texts: Numbers) -> Inputs:
        """Tokens of some texts of the table, no longer than they need to be."""
        found = {
            name: self._there(values[torch.from_numpy(texts).to(values.device, non_blocking=True)])
            for name, values in self.tokens.items()
        }
        # Processes gather tokens from each other, and must have them of one length.
        return found if self.job.count > 1 else shortened(found)

    def _changed(self, captions: Numbers, changed: Numbers) -> Inputs:
        return self.read(np.where(changed < 0, captions, changed))

    def _games(self, captions: Numbers, negatives: Numbers) -> Games | None:
        if self.players is None:
            return None
        both = np.stack([captions, np.where(negatives < 0, captions, negatives)], axis=1)
        tokens = self.read(both.reshape(-1))
        return self.players.games(tokens, both, negatives >= 0, self.device)

    def _there(self, values: Tensor) -> Tensor:
        return values.to(self.device, non_blocking=True)

    def _columns(self, round_: int) -> tuple[Numbers, ...]:
        """Of one round over all images: their order, and which texts go with each."""
        if self._round is None or self._round[0] != round_:
            random = np.random.default_rng((self.settings.seed, round_, 7))
            count = len(self.rows)
            order = random.permutation(count)
            chances: NDArray[np.float64] = random.random((3, count))
            rows = self.rows
            sayings = rows.captions.draw(order, chances[0])
            negatives, positives = (
                np.where((place := made.draw(sayings, chance)) < 0, -1, _at(made.values, place))
                for made, chance in ((rows.negatives, chances[1]), (rows.positives, chances[2]))
            )
            columns = (order, rows.captions.values[sayings], negatives, positives)
            self._round = round_, columns
        return self._round[1]


def _at(values: Numbers, places: Numbers) -> Numbers:
    """Values at places; any value where a place is negative."""
    return values[np.maximum(places, 0)] if len(values) else np.full_like(places, -1)


def shortened(tokens: Inputs) -> Inputs:
    """Without columns that are padding in every row, where a mask tells what is."""
    mask = tokens.get("attention_mask")
    if mask is None:
        return tokens
    length = int(mask.any(dim=0).nonzero().max()) + 1
    return {name: values[:, :length] for name, values in tokens.items()}
