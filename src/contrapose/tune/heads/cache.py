"""Features of two frozen encoders, computed once and written as plain arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
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
    from torch import Tensor

    from contrapose.models.capabilities import Picture
    from contrapose.tune.heads.training import Told

T = TypeVar("T")
BATCH = 64


@dataclass(frozen=True, slots=True)
class Pairs:
    """Images with their captions.

    Attributes:
        images: opened when their turn comes, so that a generator will do; prepared ones will too.
        captions: of each image, at least one.
    """

    images: Iterable[Picture]
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
    keep_features(folder, joining, splits, look, read, overwrite=overwrite)


def keep_features(
    folder: Path,
    joining: Joining,
    splits: Mapping[str, Pairs],
    look: Callable[[list[Picture]], Tensor],
    read: Callable[[list[str]], Tensor],
    *,
    overwrite: bool = False,
    batch: int = BATCH,
    more: Mapping[str, str] | None = None,
    progress: Told | None = None,
) -> None:
    """The same of encoders that are loaded already.

    Args:
        folder: where to write.
        joining: what they are.
        splits: as in `write_features`.
        look: vectors of images.
        read: vectors of captions; each different one is read once.
        overwrite: replace a folder that is there.
        batch: how many are given at once.
        more: other files of text to write beside the arrays, by name.
        progress: told `(what, done, total)`.

    Raises:
        InputError: images and captions are not equally many, or nothing can be written.
    """
    told = progress or _untold
    with new_folder(folder, overwrite=overwrite) as place:
        for split, pairs in splits.items():
            owners = np.repeat(np.arange(len(pairs.captions)), [len(it) for it in pairs.captions])
            count = len(pairs.captions)
            images = _rows(look, pairs.images, batch, partial(told, "images to vectors"), count)
            words = [caption for captions in pairs.captions for caption in captions]
            once = {text: at for at, text in enumerate(dict.fromkeys(words))}
            captions = partial(told, "captions to vectors")
            texts = _rows(read, once, batch, captions, len(once))[[once[word] for word in words]]
            if len(images) != len(pairs.captions):
                raise InputError(
                    f"{split} has {len(images)} images and captions of {len(pairs.captions)}."
                )
            made = Features(images, texts, owners)
            for name in ("images", "texts", "image_of_text"):
                write_bytes(place / f"{split}_{name}.npy", _bytes(getattr(made, name)))
        said = {"format": FORMAT, **asdict(joining.placed(Path()))}
        write_text(place / SPEC, json.dumps(said, indent=2) + "\n")
        for name, text in (more or {}).items():
            write_text(place / name, text)


def _untold(what: str, done: int, total: int) -> None:
    """Says nothing."""


def _rows(
    ask: Callable[[list[T]], Tensor],
    things: Iterable[T],
    batch: int,
    told: Callable[[int, int], None],
    total: int,
) -> NDArray[np.float32]:
    left = iter(things)
    found: list[NDArray[np.float32]] = []
    done = 0
    told(0, total)
    while part := list(islice(left, batch)):
        found.append(ask(part).float().cpu().numpy())
        done += len(part)
        told(done, total)
    return np.concatenate(found) if found else np.zeros((0, 0), dtype=np.float32)


def _bytes(array: NDArray[np.generic]) -> bytes:
    stream = BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()
