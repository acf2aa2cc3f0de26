"""Coarse vectors: images and captions encoded once, before training, to choose close pairs by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from contrapose.tune.data.rows import IndexArray, TrainingImages
from contrapose.tune.students import Inputs, Student


class CoarseVectors:
    """Unit vectors of the images and captions of a run by the model that training starts from.

    They stay the same while the model learns, so that the pairs chosen by them are a function of
    the seed and the step alone, also in a run that resumes.
    """

    def __init__(
        self,
        student: Student,
        images: TrainingImages,
        rows: IndexArray,
        texts: IndexArray,
        *,
        read: Callable[[IndexArray], Inputs],
        batch: int,
        device: str,
    ):
        """Encode images and captions.

        Args:
            student: encodes them, with the weights that it has now.
            images: the images of the training set.
            rows: indices of the images that batches will have, in any order, some twice.
            texts: indices of their captions, in the same way.
            read: gives the tokens of some captions.
            batch: how many are encoded at once.
            device: where the student is.
        """

        def see(some: IndexArray) -> Tensor:
            pixels = student.pixels(images, some.tolist())
            return student.see({name: it.to(device) for name, it in pixels.items()}).vectors

        self.device = device
        self.rows, self.texts = np.unique(rows), np.unique(texts)
        with _evaluation_mode(student), torch.no_grad():
            self.image = _encode(self.rows, see, batch)
            self.text = _encode(self.texts, lambda some: student.read(read(some)), batch)

    def of(self, rows: IndexArray, texts: IndexArray) -> tuple[Tensor, Tensor]:
        """(b, d) vectors of some images and of some captions, on the device."""
        return (
            self.image[np.searchsorted(self.rows, rows)].to(self.device),
            self.text[np.searchsorted(self.texts, texts)].to(self.device),
        )


@contextmanager
def _evaluation_mode(student: Student) -> Iterator[None]:
    """Turn dropout off for a while."""
    modes = [(module, module.training) for module in student.network.modules()]
    student.network.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _encode(indices: IndexArray, encode: Callable[[IndexArray], Tensor], batch: int) -> Tensor:
    parts = [encode(indices[i : i + batch]).float().cpu() for i in range(0, len(indices), batch)]
    return torch.cat(parts)
