"""One kind of question to a model, as work for an executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from contrapose.data import ImageRef
from contrapose.errors import InputError
from contrapose.metrics import IntArray
from contrapose.scoring.asking import Asking
from contrapose.scoring.calls import Columns, ModelError
from contrapose.scoring.hidden import prepared
from contrapose.scoring.keeper import Answer
from contrapose.scoring.memory import halving
from contrapose.scoring.shelf import Shelf
from contrapose.scoring.skips import Skip, refused, unreadable

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Distinct images, captions, or pairs of them, and how the model is called on them.

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

    asking: Asking
    score: str
    what: str
    shelf: Shelf
    refs: Sequence[ImageRef]
    image_ids: Sequence[str]
    texts: Sequence[str]
    text_ids: Sequence[str]
    pairs: IntArray
    call: Callable[[list[Picture], list[str]], Columns]
    shown: Callable[[int], Picture] | None = None

    @property
    def sees(self) -> bool:
        """Whether images are shown."""
        return bool(self.refs) or self.shown is not None

    def rows(self) -> IntArray:
        """For each pair its row on the shelf; −1 where it has none, or is to be asked again."""
        rows = self.shelf.find(self.image_ids, self.text_ids, self.pairs)
        if self.asking.policy == "all":
            rows[rows < self.shelf.inherited] = -1
        return rows

    def pieces(self, batch: IntArray) -> list[int]:
        """The images of a batch."""
        return list(dict.fromkeys(self.pairs[batch, 0].tolist())) if self.sees else []

    def prepare(self, piece: int) -> Picture | Skip:
        """Decode an image, and preprocess it where the model lets others do so."""
        if self.shown is not None:
            return self.shown(piece)
        name, model = self.image_ids[piece], self.asking.model
        known = self.asking.skips.images.get(name)
        if known is not None:
            return known
        try:
            image = self.asking.pictures.open(name, self.refs[piece])
            return prepared(model, self.refs[piece], image)
        except InputError as error:
            return unreadable(error)

    def answer(self, batch: IntArray, ready: Mapping[int, Any]) -> Answer:
        """Ask a batch; what cannot be asked is noted, and the others do not suffer for it.

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
        return Answer(
            images=[self.image_ids[i] for i, _ in answered],
            texts=[self.text_ids[j] for _, j in answered],
            columns=columns,
            asked=len(batch),
        )

    def _careful(
        self, pairs: IntArray, ready: Mapping[int, Any]
    ) -> tuple[list[list[int]], list[Columns]]:
        """Answers of the pairs that have some; fewer at a time when memory runs out."""
        answered: list[list[int]] = []
        columns: list[Columns] = []
        size = min(self.asking.sizes.get(self.what, len(pairs)), len(pairs))
        try:
            for _, found, worked in halving(
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
        """Answers of the pairs; when the model refuses the batch, of each by itself."""
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
                self.asking.skips.refuse(self.score, image, text, refused(error, what))
                return [], []
        alone = [self._each([pair], ready) for pair in pairs]
        return (
            [pair for answered, _ in alone for pair in answered],
            [some for _, columns in alone for some in columns],
        )

    def _called(self, pairs: list[list[int]], ready: Mapping[int, Any]) -> Columns:
        images = [ready[i] for i, _ in pairs] if self.sees else []
        return self.call(images, [self.texts[j] for _, j in pairs])
