"""Features of two frozen encoders, computed once and cached as plain arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.files import new_folder, read_npy, require_regular, write_bytes, write_text
from contrapose.metrics.types import FloatArray, IntArray
from contrapose.models.joined import FORMAT, SPEC, JoinedSpec
from contrapose.models.options import LoadOptions
from contrapose.tune.settings import ProgressCallback

if TYPE_CHECKING:
    from torch import Tensor

    from contrapose.models.capabilities import ImageLike
from torch import Tensor

ARRAY_NAMES = ("images", "texts", "image_of_text")
CHECK_CHUNK = 1 << 24
"""Numbers looked at together."""


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of images and captions from one encoder per side, before any head.

    Attributes:
        images: (n, p) one row an image.
        texts: (m, q) one row a caption.
        image_of_text: (m,) the row of each caption's image; every image has at least one caption.
    """

    images: FloatArray
    texts: FloatArray
    image_of_text: IntArray

    def __post_init__(self) -> None:
        """Validate that the arrays belong together.

        Raises:
            InputError: says which array, and what is wrong with it.
        """
        check_features(self)

    @property
    def pairs(self) -> IntArray:
        """(m, 2) matching rows of image and caption."""
        return np.stack([self.image_of_text, np.arange(len(self.texts))], axis=1)

    def of_images(self, rows: NDArray[np.int64]) -> Features:
        """The subset of some images, with their captions."""
        places = np.full(len(self.images), -1)
        places[rows] = np.arange(len(rows))
        kept = places[self.image_of_text] >= 0
        return Features(self.images[rows], self.texts[kept], places[self.image_of_text[kept]])


def read_features(folder: Path, split: str) -> Features:
    """Read `SPLIT_images.npy`, `SPLIT_texts.npy` and `SPLIT_image_of_text.npy` of a folder.

    Without the last, captions must be as many as images, or the same number of times as many,
    those of one image one after the other.

    Raises:
        InputError: a file is missing or no plain array, or the arrays do not belong together.
    """
    images, texts = (_read_array(folder / f"{split}_{part}.npy") for part in ARRAY_NAMES[:2])
    file = folder / f"{split}_{ARRAY_NAMES[2]}.npy"
    if file.is_file():
        owners = _read_array(file)
    else:
        count = len(texts) // max(1, len(images))
        if not count or count * len(images) != len(texts):
            raise InputError(
                f"there are {len(images)} images and {len(texts)} captions: the image of each must "
                f"stand in {file.name}.",
                file=folder,
            )
        owners = np.repeat(np.arange(len(images)), count)
    try:
        return Features(images, texts, owners)
    except InputError as error:
        raise InputError(f"{split} features: {error.message}", file=folder) from None


def has_features(folder: Path, split: str) -> bool:
    """Whether a folder holds the features of a split."""
    return (folder / f"{split}_images.npy").is_file()


def check_features(features: Features) -> None:
    """Raise `InputError` unless the arrays belong together and all values are finite."""
    owners = features.image_of_text
    for name, array in (("images", features.images), ("texts", features.texts)):
        if array.ndim != 2 or not array.size:
            raise InputError(f"{name} must be an array of rows × numbers, found {array.shape}.")
        if not np.issubdtype(array.dtype, np.floating):
            raise InputError(f"{name} must be floating point, found {array.dtype}.")
        for start, block in _iterate_blocks(array):
            bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
            if bad.size:
                raise InputError(f"{name}: row {start + bad[0]} has a NaN or an infinity.")
    if owners.shape != (len(features.texts),):
        raise InputError(
            f"image_of_text has shape {owners.shape} for {len(features.texts)} captions: it needs "
            "one number a caption."
        )
    if not np.issubdtype(owners.dtype, np.integer):
        raise InputError(f"image_of_text must be whole numbers, found {owners.dtype}.")
    if owners.min() < 0 or owners.max() >= len(features.images):
        raise InputError(f"image_of_text must lie in 0 … {len(features.images) - 1}, the images.")
    counts = np.bincount(owners, minlength=len(features.images))
    if not counts.all():
        raise InputError(f"image {int(counts.argmin())} has no caption.")


def _iterate_blocks(array: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    rows = max(1, CHECK_CHUNK // array.shape[1])
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]


def _read_array(file: Path) -> NDArray[Any]:
    """Memory-map an array that is not a pickle."""
    require_regular(file)
    if not file.is_file():
        raise InputError(
            "there is no such file; needed are "
            f"{', '.join(f'SPLIT_{part}.npy' for part in ARRAY_NAMES)} "
            "with SPLIT train and, to measure, test.",
            file=file,
        )
    array = read_npy(file, mapped=True)
    if not array.ndim:
        raise InputError("is one number and no array.", file=file)
    return array


T = TypeVar("T")
BATCH = 64


@dataclass(frozen=True, slots=True)
class CaptionedImages:
    """Images with their captions.

    Attributes:
        images: opened when their turn comes, so that a generator will do; prepared ones will too.
        captions: of each image, at least one.
    """

    images: Iterable[ImageLike]
    captions: Sequence[Sequence[str]]


def write_features(
    folder: Path,
    joining: JoinedSpec,
    splits: Mapping[str, CaptionedImages],
    options: LoadOptions | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Encode pairs with two encoders and write the arrays of `read_features` atomically.

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
    from contrapose.models.exact import exact_inference
    from contrapose.models.joined.model import load_image_encoder, load_text_encoder

    options = options or LoadOptions()
    look = exact_inference(load_image_encoder(joining, Path(), "heads", options).features)
    read = exact_inference(load_text_encoder(joining, Path(), "heads", options).features)
    cache_features(folder, joining, splits, look, read, overwrite=overwrite)


def cache_features(
    folder: Path,
    joining: JoinedSpec,
    splits: Mapping[str, CaptionedImages],
    look: Callable[[list[ImageLike]], Tensor],
    read: Callable[[list[str]], Tensor],
    *,
    overwrite: bool = False,
    batch: int = BATCH,
    more: Mapping[str, str] | None = None,
    progress: ProgressCallback | None = None,
) -> None:
    """Encode pairs with loaded encoders and write the arrays atomically.

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
    report = progress or ignore_progress
    with new_folder(folder, overwrite=overwrite) as target:
        for split, pairs in splits.items():
            owners = np.repeat(np.arange(len(pairs.captions)), [len(it) for it in pairs.captions])
            count = len(pairs.captions)
            images = _encode_rows(
                look, pairs.images, batch, partial(report, "images to vectors"), count
            )
            words = [caption for captions in pairs.captions for caption in captions]
            once = {text: at for at, text in enumerate(dict.fromkeys(words))}
            captions = partial(report, "captions to vectors")
            texts = _encode_rows(read, once, batch, captions, len(once))[
                [once[word] for word in words]
            ]
            if len(images) != len(pairs.captions):
                raise InputError(
                    f"{split} has {len(images)} images and captions of {len(pairs.captions)}."
                )
            made = Features(images, texts, owners)
            for name in ("images", "texts", "image_of_text"):
                write_bytes(target / f"{split}_{name}.npy", _array_bytes(getattr(made, name)))
        said = {"format": FORMAT, **asdict(joining.resolve_paths(Path()))}
        write_text(target / SPEC, json.dumps(said, indent=2) + "\n")
        for name, text in (more or {}).items():
            write_text(target / name, text)


def ignore_progress(what: str, done: int, total: int) -> None:
    """Progress callback that does nothing."""


def _encode_rows(
    encode: Callable[[list[T]], Tensor],
    inputs: Iterable[T],
    batch: int,
    progress: Callable[[int, int], None],
    total: int,
) -> NDArray[np.float32]:
    left = iter(inputs)
    parts: list[NDArray[np.float32]] = []
    done = 0
    progress(0, total)
    while part := list(islice(left, batch)):
        parts.append(encode(part).float().cpu().numpy())
        done += len(part)
        progress(done, total)
    return np.concatenate(parts) if parts else np.zeros((0, 0), dtype=np.float32)


def _array_bytes(array: NDArray[np.generic]) -> bytes:
    stream = BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


CaptionRows = NDArray[np.int64]


def draw_batches(owners: CaptionRows, size: int, epochs: int, seed: int) -> Iterator[CaptionRows]:
    """Batches of caption rows, each caption `epochs` times in all.

    An epoch goes round the images, in a new order each time, and takes another caption of each: no
    image stands twice in a batch where there are at least `size` of them with captions left. So all
    other captions are negatives. What does not fill the last batch is left out.

    Args:
        owners: (m,) the image of each caption.
        size: captions a batch; at most m.
        epochs: how often each caption is seen.
        seed: of the order.
    """
    draw = np.random.default_rng(seed)
    size = min(size, len(owners))
    held: CaptionRows = np.zeros(0, dtype=np.int64)
    for _ in range(epochs):
        for turn in _draw_rounds(owners, draw):
            held = np.concatenate([held, _separate_images(turn, owners, held, size, draw)])
            while len(held) >= size:
                yield held[:size]
                held = held[size:]


def count_batches(captions: int, size: int, epochs: int) -> int:
    """Number of batches."""
    return captions * epochs // min(size, captions)


def count_epochs(captions: int, size: int, count: int) -> int:
    """Smallest number of epochs that has so many batches."""
    return -(-count * min(size, captions) // captions)


def _draw_rounds(owners: CaptionRows, draw: np.random.Generator) -> Iterator[CaptionRows]:
    """Each image's captions in random order: all first ones, all second ones …, shuffled."""
    shuffled = draw.permutation(len(owners))
    by_image = shuffled[np.argsort(owners[shuffled], kind="stable")]
    counts = np.bincount(owners)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    places = np.arange(len(owners)) - starts
    for turn in range(int(counts.max())):
        yield draw.permutation(by_image[places == turn])


def _separate_images(
    turn: CaptionRows, owners: CaptionRows, held: CaptionRows, size: int, draw: np.random.Generator
) -> CaptionRows:
    """A round with the images already in the pending batch moved to the end."""
    if not len(held):
        return turn
    twice = np.isin(owners[turn], owners[held])
    fresh, again = turn[~twice], turn[twice]
    room = size - len(held)
    # The rest is mixed again, so that the images that had to wait do not stay together.
    rest = draw.permutation(np.concatenate([fresh[room:], again]))
    return np.concatenate([fresh[:room], rest])
