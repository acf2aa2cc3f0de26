"""Features of two frozen encoders, computed once and written as plain arrays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.files import new_folder, write_bytes, write_text
from contrapose.models.joined.spec import FORMAT, SPEC, Joining
from contrapose.models.options import LoadOptions
from contrapose.tune.heads.features import Features

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

T = TypeVar("T")
BATCH = 64


@dataclass(frozen=True, slots=True)
class Pairs:
    """Images with their captions.

    Attributes:
        images: opened when their turn comes, so that a generator will do.
        captions: of each image, at least one.
    """

    images: Iterable[Image]
    captions: Sequence[Sequence[str]]


def write_features(
    folder: Path,
    joining: Joining,
    splits: Mapping[str, Pairs],
    options: LoadOptions | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Ask two encoders about pairs and write what `read_features` reads, whole or not at all.

    A `joined.json` goes with the arrays, so that heads trained on them know their encoders.

    Args:
        folder: where to write.
        joining: the encoders; folders are named from the working directory.
        splits: `train`, and to measure `test`.
        options: how to load the encoders.
        overwrite: replace a folder that is there.

    Raises:
        InputError: an encoder cannot be used, or images and captions are not equally many.
    """
    from contrapose.models.joined.model import image_side, text_side
    from contrapose.models.precise import precise

    options = options or LoadOptions()
    look = precise(image_side(joining, Path(), "heads", options).features)
    read = precise(text_side(joining, Path(), "heads", options).features)
    with new_folder(folder, overwrite=overwrite) as place:
        for split, pairs in splits.items():
            owners = np.repeat(np.arange(len(pairs.captions)), [len(it) for it in pairs.captions])
            images = _rows(look(part) for part in _parts(pairs.images))
            words = [caption for captions in pairs.captions for caption in captions]
            texts = _rows(read(part) for part in _parts(words))
            if len(images) != len(pairs.captions):
                raise InputError(
                    f"{split} has {len(images)} images and captions of {len(pairs.captions)}."
                )
            made = Features(images, texts, owners)
            for name in ("images", "texts", "image_of_text"):
                write_bytes(place / f"{split}_{name}.npy", _bytes(getattr(made, name)))
        said = {"format": FORMAT, **asdict(joining.placed(Path()))}
        write_text(place / SPEC, json.dumps(said, indent=2) + "\n")


def _parts(things: Iterable[T]) -> Iterator[list[T]]:
    left = iter(things)
    while part := list(islice(left, BATCH)):
        yield part


def _rows(parts: Iterable[Tensor]) -> NDArray[np.float32]:
    found = [part.float().cpu().numpy() for part in parts]
    return np.concatenate(found) if found else np.zeros((0, 0), dtype=np.float32)


def _bytes(array: NDArray[np.generic]) -> bytes:
    stream = BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()
