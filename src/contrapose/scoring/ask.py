"""Asking a model: what the store does not know yet, in batches, kept as it comes in.

A batch's composition never decides an answer: each image is embedded by itself, each pair scored
by itself, and captions of like length stand together only to save padding.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np

from contrapose.data import ImageRef, text_id
from contrapose.metrics import FloatArray, IntArray, log_prior
from contrapose.models import Captioner, Encoder, Model
from contrapose.scoring.calls import Columns, likelihoods, matches, require_numbers, unit
from contrapose.scoring.pictures import Pictures
from contrapose.scoring.plan import Plan
from contrapose.scoring.scores import Noise, Progress, stored_as
from contrapose.scoring.store import Shelf, Store

if TYPE_CHECKING:
    from PIL.Image import Image

WINDOW = 256
"""Images that are decoded together and held in memory; the next ones are decoded meanwhile."""

KEEP_EVERY = 5.0
"""Seconds of answers that a killed run can lose."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Who is asked, and how.

    Attributes:
        model: who.
        store: what is known already, and where answers go.
        batch_size: images, captions or pairs at once; None takes the model's suggestion.
        noise: the content-free images of the prior.
        progress: told after each batch.
        pictures: images that are open already.
    """

    model: Model
    store: Store = field(default_factory=Store)
    batch_size: int | None = None
    noise: Noise = field(default_factory=Noise)
    progress: Progress | None = None
    pictures: Pictures = field(default_factory=Pictures)

    @property
    def size(self) -> int:
        """How many are asked at once."""
        return max(1, self.batch_size or self.model.batch_size)

    def shelf(self, score: str, suffix: str = "") -> Shelf:
        """The shelf of a score."""
        return self.store.shelf(
            self.model.fingerprint, stored_as(self.model, score, self.noise) + suffix
        )


def image_vectors(asking: Asking, refs: Sequence[ImageRef], ids: Sequence[str]) -> FloatArray:
    """(n, d) unit vectors of distinct images."""
    encoder, shelf, none = (
        cast(Encoder, asking.model),
        asking.shelf("itc", ":image"),
        [""] * len(ids),
    )
    missing = np.flatnonzero(shelf.find(ids, none) < 0)
    with _Keeper(asking, shelf, "itc: images", len(missing)) as keeper:
        for window, images in _opened(asking, refs, ids, missing):
            for some in _cut(np.arange(len(window)), asking.size):
                vectors = unit(
                    encoder.embed_images([images[i] for i in some]), len(some), asking.model
                )
                keeper.keep([ids[window[i]] for i in some], [""] * len(some), {"vector": vectors})
    return shelf.values(shelf.find(ids, none), "vector")


def text_vectors(asking: Asking, texts: Sequence[str]) -> FloatArray:
    """(n, d) unit vectors of distinct captions."""
    encoder, shelf = cast(Encoder, asking.model), asking.shelf("itc", ":text")
    ids, none = [text_id(text) for text in texts], [""] * len(texts)
    missing = np.flatnonzero(shelf.find(none, ids) < 0)
    lengths = np.array([len(texts[int(i)].split()) for i in missing])
    with _Keeper(asking, shelf, "itc: captions", len(missing)) as keeper:
        for some in _cut(missing[np.argsort(lengths, kind="stable")], asking.size):
            vectors = unit(encoder.embed_texts([texts[i] for i in some]), len(some), asking.model)
            keeper.keep([""] * len(some), [ids[i] for i in some], {"vector": vectors})
    return shelf.values(shelf.find(none, ids), "vector")


def pair_values(asking: Asking, score: str, plan: Plan) -> FloatArray:
    """(p,) the score of every pair of the plan."""
    if score == "itc":
        left = image_vectors(asking, plan.images, plan.image_ids)
        return _dots(left, text_vectors(asking, plan.texts), plan.pairs)
    if score == "prior":
        return prior_values(asking, plan.texts)[plan.pairs[:, 1]]
    shelf = asking.shelf(score)
    image_ids = [plan.image_ids[i] for i in plan.pairs[:, 0]]
    text_ids = [plan.text_ids[j] for j in plan.pairs[:, 1]]
    missing = np.flatnonzero(shelf.find(image_ids, text_ids) < 0)
    answer = matches if score == "itm" else likelihoods
    lengths = np.array([len(text.split()) for text in plan.texts])
    with _Keeper(asking, shelf, f"{score}: pairs", len(missing)) as keeper:
        shown = plan.pairs[missing, 0]
        needed = np.array(list(dict.fromkeys(shown.tolist())), dtype=np.int64)
        for window, images in _opened(asking, plan.images, plan.image_ids, needed):
            at = dict(zip(window, images, strict=True))
            here = missing[np.isin(shown, window)]
            pairs = plan.pairs[here]
            here = here[np.lexsort((pairs[:, 1], pairs[:, 0], lengths[pairs[:, 1]]))]
            for some in _cut(here, asking.size):
                asked = plan.pairs[some].tolist()
                captions = [plan.texts[j] for _, j in asked]
                columns = answer(asking.model, [at[i] for i, _ in asked], captions)
                require_numbers(columns["value"], captions, asking.model, score)
                keeper.keep(
                    [plan.image_ids[i] for i, _ in asked],
                    [plan.text_ids[j] for _, j in asked],
                    columns,
                )
    return shelf.values(shelf.find(image_ids, text_ids))


def prior_values(asking: Asking, texts: Sequence[str]) -> FloatArray:
    """(n,) log P(T) of distinct captions under the model's noise images."""
    model, shelf = cast(Captioner, asking.model), asking.shelf("prior")
    ids, none = [text_id(text) for text in texts], [""] * len(texts)
    missing = np.flatnonzero(shelf.find(none, ids) < 0)
    lengths = np.array([len(texts[int(i)].split()) for i in missing])
    noise = model.noise_images(asking.noise.count, asking.noise.seed) if len(missing) else ()
    with _Keeper(asking, shelf, "prior: captions", len(missing)) as keeper:
        for some in _cut(missing[np.argsort(lengths, kind="stable")], asking.size):
            captions = [texts[i] for i in some]
            under = [likelihoods(model, [blank] * len(some), captions)["value"] for blank in noise]
            require_numbers(np.sum(under, axis=0), captions, model, "prior")
            keeper.keep(
                [""] * len(some), [ids[i] for i in some], {"value": log_prior(np.stack(under))}
            )
    return shelf.values(shelf.find(none, ids))


class _Keeper:
    """Puts answers on the shelf every few seconds and at the end, also when the end is early."""

    def __init__(self, asking: Asking, shelf: Shelf, what: str, total: int):
        self.progress, self.shelf, self.what, self.total = asking.progress, shelf, what, total
        self.done, self.since = 0, time.monotonic()
        self.waiting: list[tuple[list[str], list[str], Columns]] = []

    def __enter__(self) -> _Keeper:
        if self.progress is not None and self.total:
            self.progress(self.what, 0, self.total)
        return self

    def __exit__(self, *_: object) -> None:
        self._put()

    def keep(self, images: list[str], texts: list[str], columns: Columns) -> None:
        self.waiting.append((images, texts, columns))
        self.done += len(images)
        if time.monotonic() - self.since >= KEEP_EVERY:
            self._put()
        if self.progress is not None:
            self.progress(self.what, self.done, self.total)

    def _put(self) -> None:
        if self.waiting:
            images, texts, columns = zip(*self.waiting, strict=True)
            self.shelf.add(
                [name for some in images for name in some],
                [name for some in texts for name in some],
                {name: np.concatenate([some[name] for some in columns]) for name in columns[0]},
            )
        self.waiting, self.since = [], time.monotonic()


def _dots(images: FloatArray, texts: FloatArray, pairs: IntArray) -> FloatArray:
    """Cosines of the pairs in float64, so that no comparison hangs on the sum's rounding."""
    found = np.empty(len(pairs))
    for some in _cut(np.arange(len(pairs)), 1 << 14):
        left, right = images[pairs[some, 0]], texts[pairs[some, 1]]
        found[some] = np.einsum("pd,pd->p", left.astype(np.float64), right.astype(np.float64))
    return found


def _opened(
    asking: Asking, refs: Sequence[ImageRef], ids: Sequence[str], chosen: IntArray
) -> Iterator[tuple[list[int], list[Image]]]:
    """Windows of images, the next one being decoded while this one is used."""
    windows = list(_cut(chosen, WINDOW))
    if not windows:
        return

    def opened(window: list[int]) -> list[Image]:
        return asking.pictures.open([ids[i] for i in window], [refs[i] for i in window])

    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(opened, windows[0])
        for here, following in zip(windows, [*windows[1:], None], strict=True):
            images = coming.result()
            if following is not None:
                coming = ahead.submit(opened, following)
            yield here, images


def _cut(items: IntArray, size: int) -> Iterator[list[int]]:
    for start in range(0, len(items), size):
        yield items[start : start + size].tolist()
