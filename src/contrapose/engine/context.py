"""Scoring context (model, store, options) and the requests that an executor runs in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from contrapose.data import ImageRef
from contrapose.engine.executor import Executor, LocalExecutor
from contrapose.engine.images import ImageCache, prepare_image
from contrapose.engine.memory import run_halving
from contrapose.engine.prior_images import NoiseImages, Prior
from contrapose.engine.score_types import Columns, ModelError, Progress, store_key
from contrapose.engine.store import AnswerStore, AnswerTable, ScoredBatch
from contrapose.errors import InputError
from contrapose.metrics import IntArray
from contrapose.models import Model, QuestionTemplate
from contrapose.scores.skips import Skip, Skips, refusal_skip, unreadable_skip

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike

CachePolicy = Literal["reuse", "refresh", "only"]
"""Score what the store does not hold; score everything again; score nothing."""


@dataclass(frozen=True, slots=True)
class ScoringContext:
    """Scoring context: the model, the store, and the options of a run.

    Attributes:
        model: who.
        store: what is known already, and where answers go.
        batch_size: images, captions or pairs at once; None begins with the model's suggestion and
            grows where a CUDA device has room.
        prior: the images that a caption's prior is taken under.
        question: what `vqa` asks.
        progress: told after each batch.
        pictures: images that are open already.
        cache_use: what to do with what the store holds; when refreshed, the newest answer counts.
        executor: who does the work.
        skips: what could not be asked.
        sizes: for each kind of question the size that memory allowed, once it ran out.
    """

    model: Model
    store: AnswerStore = field(default_factory=AnswerStore)
    batch_size: int | None = None
    prior: Prior = field(default_factory=NoiseImages)
    question: QuestionTemplate = field(default_factory=QuestionTemplate)
    progress: Progress | None = None
    pictures: ImageCache = field(default_factory=ImageCache)
    cache_use: CachePolicy = "reuse"
    executor: Executor = field(default_factory=LocalExecutor)
    skips: Skips = field(default_factory=Skips)
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Initial batch size."""
        return max(1, self.batch_size or self.model.batch_size)

    def answer_table(self, score: str, suffix: str = "") -> AnswerTable:
        """Return the answer table of a score."""
        return self.store.answer_table(
            self.model.fingerprint, store_key(self.model, score, self.question) + suffix
        )


@dataclass(frozen=True, slots=True, eq=False)
class ScoreRequest:
    """Score request: distinct images, captions or pairs, and the model call that scores them.

    Attributes:
        asking: who is asked, and how.
        score: its name; what is skipped is noted under it.
        what: the same for people.
        shelf: where answers are kept.
        refs: the images; empty where no image is seen, or it lies in no file.
        image_ids: their content ids; one empty id where no image is seen.
        texts: the captions; one empty text where none is read.
        text_ids: their content ids; one empty id where none is read.
        pairs: (p, 2) what is asked: positions in both.
        call: from images and captions, the i-th with the i-th, to what is stored of each.
        shown: in place of `refs`: the image at a position, already in the model's own space.
    """

    asking: ScoringContext
    score: str
    what: str
    answer_table: AnswerTable
    refs: Sequence[ImageRef]
    image_ids: Sequence[str]
    texts: Sequence[str]
    text_ids: Sequence[str]
    pairs: IntArray
    call: Callable[[list[ImageLike], list[str]], Columns]
    shown: Callable[[int], ImageLike] | None = None

    @property
    def sees(self) -> bool:
        """Whether the request shows images."""
        return bool(self.refs) or self.shown is not None

    def rows(self) -> IntArray:
        """Return each pair's row in the table; −1 where it has none, or is to be scored again."""
        rows = self.answer_table.find(self.image_ids, self.text_ids, self.pairs)
        if self.asking.cache_use == "refresh":
            rows[rows < self.answer_table.rows_at_start] = -1
        return rows

    def pieces(self, batch: IntArray) -> list[int]:
        """List the images of a batch."""
        return list(dict.fromkeys(self.pairs[batch, 0].tolist())) if self.sees else []

    def prepare(self, piece: int) -> ImageLike | Skip:
        """Open and preprocess an image; a skip where it cannot be read."""
        if self.shown is not None:
            return self.shown(piece)
        name, model = self.image_ids[piece], self.asking.model
        known = self.asking.skips.images.get(name)
        if known is not None:
            return known
        try:
            image = self.asking.pictures.open(name, self.refs[piece])
            return prepare_image(model, self.refs[piece], image)
        except InputError as error:
            return unreadable_skip(error)

    def answer(self, batch: IntArray, ready: Mapping[int, Any]) -> ScoredBatch:
        """Score a batch; inputs that cannot be scored are recorded as skipped.

        Raises:
            InputError: there is no memory even for one, or the model's answers are no answers.
        """
        for piece, made in ready.items():
            if isinstance(made, Skip):
                self.asking.skips.images[self.image_ids[piece]] = made
        whole = self.pairs[batch]
        if self.sees:
            sound = [not isinstance(ready[i], Skip) for i in whole[:, 0].tolist()]
            whole = whole[np.array(sound, dtype=np.bool_)]
        answered, columns = self._careful(whole, ready)
        return ScoredBatch(
            images=[self.image_ids[i] for i, _ in answered],
            texts=[self.text_ids[j] for _, j in answered],
            columns=columns,
            asked=len(batch),
        )

    def _careful(
        self, pairs: IntArray, ready: Mapping[int, Any]
    ) -> tuple[list[list[int]], list[Columns]]:
        """Score the pairs, fewer at a time when memory runs out."""
        answered: list[list[int]] = []
        columns: list[Columns] = []
        size = min(self.asking.sizes.get(self.what, len(pairs)), len(pairs))
        try:
            for _, found, worked in run_halving(
                size, len(pairs), lambda some: self._each(pairs[some].tolist(), ready)
            ):
                answered += found[0]
                columns += found[1]
                if worked < size:
                    self.asking.sizes[self.what] = worked
        except MemoryError:
            raise ModelError(
                f"{self.asking.model.name} has no room for even one of {self.what} at a time; free "
                "some memory, or pass --dtype bf16 or another --device."
            ) from None
        return answered, columns

    def _each(
        self, pairs: list[list[int]], ready: Mapping[int, Any]
    ) -> tuple[list[list[int]], list[Columns]]:
        """Score the pairs; when the model refuses the batch, each by itself."""
        try:
            return pairs, [self._called(pairs, ready)]
        except ModelError:
            raise
        except InputError as error:
            if len(pairs) == 1:
                ((i, j),) = pairs
                image = "" if self.shown is not None else self.image_ids[i]  # noise is no one's
                text = self.text_ids[j]
                what = "pair" if image and text else "caption" if text else "image"
                self.asking.skips.refuse(self.score, image, text, refusal_skip(error, what))
                return [], []
        alone = [self._each([pair], ready) for pair in pairs]
        return (
            [pair for answered, _ in alone for pair in answered],
            [some for _, columns in alone for some in columns],
        )

    def _called(self, pairs: list[list[int]], ready: Mapping[int, Any]) -> Columns:
        images = [ready[i] for i, _ in pairs] if self.sees else []
        return self.call(images, [self.texts[j] for _, j in pairs])
