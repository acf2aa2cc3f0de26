"""Scoring context (model, store, options), and score requests: what is scored, by which call.

A batch's composition never decides a score: each image is embedded by itself, each pair scored by
itself, and captions of like length are batched together only to save padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from contrapose.data import ImageRef
from contrapose.data.video_clips import VideoClip
from contrapose.engine.columns import (
    Columns,
    ModelError,
    PendingColumns,
    ScoredBatch,
    require_finite,
)
from contrapose.engine.content_ids import (
    CONTENT_IDS,
    IMAGE_FILES,
    ContentIdReader,
    HashedFiles,
)
from contrapose.engine.executor import ENOUGH_IMAGES, Executor, LocalExecutor
from contrapose.engine.images import (
    ZERO,
    EncodedImageCache,
    HiddenRegions,
    ImageCache,
    PreparedCache,
    RegionMask,
    prepare_image,
)
from contrapose.engine.memory import free_memory, is_out_of_memory
from contrapose.engine.row_blocks import stack_columns
from contrapose.engine.score_types import NoiseImages, Prior, Progress, store_key
from contrapose.engine.shards import Shard
from contrapose.engine.store import AnswerStore, AnswerTable
from contrapose.engine.videos import prepare_video
from contrapose.errors import ContraposeError, InputError, option
from contrapose.metrics import BoolArray, IntArray
from contrapose.models import CropPreparer, Model, QuestionTemplate
from contrapose.models.capabilities import arrived_positions
from contrapose.scores import Skip, Skips, refusal_skip, unreadable_skip

if TYPE_CHECKING:
    from contrapose.data.decoders import DecodeTask
    from contrapose.models.capabilities import ImageLike
    from contrapose.resize_crop import ResizeCrop

CachePolicy = Literal["reuse", "refresh", "only"]
"""Score what the store does not hold; score everything again; score nothing."""

NO_ID = ("",)
"""Ids in place of images, or of captions, where a score needs none."""


@dataclass(frozen=True, slots=True)
class ScoringContext:
    """Scoring context: the model, the store, and the options of a run.

    Attributes:
        model: the model that scores.
        store: scores that are known already, and where new ones are written.
        batch_size: images, captions or pairs per model call; None starts with the model's default
            and grows where a CUDA device has room.
        prior: images under which a caption's prior is computed.
        question: question template and answer of `vqa`.
        progress: called after each batch.
        images: cache of decoded images.
        prepared: cache of prepared images that are masked in several ways.
        cache_use: what to do with what the store holds; when refreshed, the newest answer counts.
        executor: runs the batches.
        skips: images, captions and pairs that could not be scored.
        batch_sizes: by request label the batch size that fit, once memory ran out.
        shard: the share of the batches that is scored here; None scores all.
        requests: by table the earlier requests of this run, whose pairs later ones do not plan
            again; None where they are not to be remembered.
    """

    model: Model
    store: AnswerStore = field(default_factory=AnswerStore)
    batch_size: int | None = None
    prior: Prior = field(default_factory=NoiseImages)
    question: QuestionTemplate = field(default_factory=QuestionTemplate)
    progress: Progress | None = None
    images: ImageCache = field(default_factory=ImageCache)
    prepared: PreparedCache = field(default_factory=PreparedCache)
    cache_use: CachePolicy = "reuse"
    executor: Executor = field(default_factory=LocalExecutor)
    skips: Skips = field(default_factory=Skips)
    batch_sizes: dict[str, int] = field(default_factory=dict)
    shard: Shard | None = None
    requests: dict[str, list[ScoreRequest]] | None = None

    @property
    def initial_batch_size(self) -> int:
        """Batch size to start with."""
        return max(1, self.batch_size or self.model.batch_size)

    def table(self, score: str, suffix: str = "") -> AnswerTable:
        """Return the answer table of a score."""
        return self.store.table(
            self.model.fingerprint, store_key(self.model, score, self.question) + suffix
        )

    def content_id_reader(self, hashed: HashedFiles | None = None) -> ContentIdReader:
        """Return the reader of the content ids of image files, which the store may know.

        Args:
            hashed: receives the files as soon as their ids are known.
        """
        if self.cache_use == "refresh":
            return ContentIdReader(hashed=hashed)
        shard = (1, 1) if self.shard is None else (self.shard.index, self.shard.count)
        table = self.store.table(IMAGE_FILES, CONTENT_IDS)
        return ContentIdReader(table, self.cache_use != "only", shard, hashed)

    def prepare(self, name: str, ref: ImageRef) -> ImageLike | tuple[ImageLike, ...] | Skip:
        """Open and preprocess an image with a content id; a skip where it cannot be read."""
        known = self.skips.images.get(name)
        if known is not None:
            return known
        try:
            if isinstance(ref.source, VideoClip):
                return prepare_video(self.model, ref.source)
            image = self.images.open(name, ref)
            return prepare_image(self.model, name, ref, image, self.prepared)
        except InputError as error:
            return unreadable_skip(error)

    def decode_task(self, name: str, ref: ImageRef, steps: ResizeCrop | None) -> DecodeTask | None:
        """Describe an image that another process can open and preprocess by the model's steps."""
        image_id, image = name, ref
        masks: tuple[RegionMask, ...] = ()
        source: Any = ref.source
        if isinstance(source, HiddenRegions):
            if source.filling.kind != ZERO or steps is None or not steps.has_fixed_size:
                return None
            name, ref, masks = source.name, source.ref, source.masks
        if steps is None or ref.source is not None or ref.cell is not None:
            return None
        if name in self.skips.images or self.images.holds(name):
            return None
        from contrapose.data.decoders import DecodeTask

        packed = tuple((mask.bits, mask.shape) for mask in masks)
        prepare = partial(self.prepare, image_id, image)
        return DecodeTask(ref, steps, _to_tensor, prepare, packed, name, self.model.fingerprint)


ModelCall = Callable[[list[Any], list[str]], PendingColumns]
"""From images and captions, the i-th with the i-th, to the stored columns of each pair."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreRequest:
    """Score request: distinct images, captions or pairs, and the model call that scores them.

    Attributes:
        context: the model, the store and the options.
        score: name of the score; skips are recorded under it.
        label: the request in words, for progress and messages.
        table: where scores are stored.
        refs: the images; empty where a score needs none, or `make_image` gives them.
        image_ids: their content ids; one empty id where a score needs no image.
        texts: the captions; one empty text where a score needs none.
        text_ids: their content ids; one empty id where a score needs no caption.
        pairs: (p, 2) the pairs to score: positions in images and captions.
        call: the model call.
        make_image: instead of `refs`: the image at a position, in the model's own pixel space.
        encoded: cache of encoded images, where the captions of one image fill several batches.
        steps: resize and crop with which other processes can prepare the images; None where the
            model does more.
    """

    context: ScoringContext
    score: str
    label: str
    table: AnswerTable
    refs: Sequence[ImageRef]
    image_ids: Sequence[str]
    texts: Sequence[str]
    text_ids: Sequence[str]
    pairs: IntArray
    call: ModelCall
    make_image: Callable[[int], ImageLike] | None = None
    encoded: EncodedImageCache | None = None
    steps: ResizeCrop | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Ask the model for its steps once: there may be millions of images."""
        model = self.context.model
        if self.make_image is None and isinstance(model, CropPreparer):
            object.__setattr__(self, "steps", model.resize_crop)

    @property
    def has_images(self) -> bool:
        """Whether the model is given images."""
        return bool(self.refs) or self.make_image is not None

    def find_rows(self, positions: IntArray | None = None) -> IntArray:
        """Find the rows of pairs in the table; −1 where they have none, or are scored again.

        Args:
            positions: of the pairs; None is all of them.
        """
        rows = self.find_stored(positions)
        if self.context.cache_use == "refresh":
            rows[rows < self.table.rows_at_start] = -1
        return rows

    def find_stored(self, positions: IntArray | None = None) -> IntArray:
        """Find the rows of pairs in the table, however old; −1 where they have none."""
        pairs = self.pairs if positions is None else self.pairs[positions]
        return self.table.find(self.image_ids, self.text_ids, pairs)

    def inputs(self, batch: IntArray) -> list[int]:
        """List the images of a batch, by position."""
        return list(dict.fromkeys(self.pairs[batch, 0].tolist())) if self.has_images else []

    def input_size(self, key: int) -> int:
        """Number of images that an input is as large as: the frames of a video read at once."""
        source = self.refs[key].source if self.make_image is None else None
        return source.count if isinstance(source, VideoClip) else 1

    def prepare(self, key: int) -> ImageLike | tuple[ImageLike, ...] | Skip:
        """Open and preprocess an image; a skip where it cannot be read."""
        if self.make_image is not None:
            return self.make_image(key)
        return self.context.prepare(self.image_ids[key], self.refs[key])

    def decode_task(self, key: int) -> DecodeTask | None:
        """Describe an image that another process can open and preprocess."""
        if self.make_image is not None:
            return None
        return self.context.decode_task(self.image_ids[key], self.refs[key], self.steps)

    def expect_images(self, missing: BoolArray) -> None:
        """Tell the executor how many images other processes can prepare for the missing pairs."""
        executor = self.context.executor
        if isinstance(executor, LocalExecutor) and self.refs and executor.decoders is None:
            images = np.unique(self.pairs[missing, 0]).tolist()
            tasks = (self.decode_task(i) for i in images)
            executor.expect_images(sum(1 for _ in islice(filter(None, tasks), ENOUGH_IMAGES)))

    def answer(self, batch: IntArray, ready: Mapping[int, Any]) -> ScoredBatch:
        """Score a batch, in halves while memory runs out; record as skipped what has no score.

        Raises:
            InputError: there is no memory even for one pair, or the model's output is invalid.
        """
        context, pairs = self.context, self.pairs[batch]
        for key, image in ready.items():
            if isinstance(image, Skip):
                context.skips.images[self.image_ids[key]] = image
        if self.has_images:
            readable = [not isinstance(ready[i], Skip) for i in pairs[:, 0].tolist()]
            pairs = pairs[np.array(readable, dtype=np.bool_)]
        answered: list[list[int]] = []
        columns: list[PendingColumns] = []
        start, size = 0, min(context.batch_sizes.get(self.label, len(pairs)), len(pairs))
        while start < len(pairs):
            some = pairs[start : start + size].tolist()
            scored = self._score_or_skip(some, ready)
            if scored is not None:
                answered += scored[0]
                columns += scored[1]
                start += len(some)
                continue
            if len(some) == 1:
                raise ModelError(
                    f"{context.model.name} has no room for even one of {self.label} at a time; "
                    f"free some memory, or pass {option('dtype', 'bf16')} or another "
                    f"{option('device')}."
                )
            size = (len(some) + 1) // 2
            context.batch_sizes[self.label] = size
            free_memory()
        return ScoredBatch(
            images=[self.image_ids[i] for i, _ in answered],
            texts=[self.text_ids[j] for _, j in answered],
            pending=columns,
            tried=len(batch),
        )

    def _score_or_skip(
        self, pairs: list[list[int]], ready: Mapping[int, Any]
    ) -> tuple[list[list[int]], list[PendingColumns]] | None:
        """Score the pairs; one by one when the model refuses the batch; None without memory."""
        try:
            return pairs, [self._call_model(pairs, ready)]
        except ModelError:
            raise
        except InputError as error:
            if len(pairs) == 1:
                self._record_refusal(pairs[0], error)
                return [], []
        except Exception as error:
            if is_out_of_memory(error):
                return None
            raise
        singles = [self._score_or_skip([pair], ready) for pair in pairs]
        scored = [single for single in singles if single is not None]
        if len(scored) < len(singles):
            return None
        return (
            [pair for answered, _ in scored for pair in answered],
            [some for _, columns in scored for some in columns],
        )

    def _call_model(self, pairs: list[list[int]], ready: Mapping[int, Any]) -> PendingColumns:
        images = [ready[i] for i, _ in pairs] if self.has_images else []
        texts = [self.texts[j] for _, j in pairs]
        try:
            columns = self.call(
                images if self.encoded is None else self.encoded.encode(images), texts
            )
        except BaseException as error:
            arrived = [pairs[k] for k in arrived_positions(error)]
            if arrived and len(pairs) > 1:
                self._store_arrived(arrived, ready)
            raise
        if callable(columns):
            return partial(self._wait, columns, texts)
        require_finite(columns, texts, self.context.model, self.score)
        return columns

    def _store_arrived(self, pairs: list[list[int]], ready: Mapping[int, Any]) -> None:
        """Store the answers that arrived before the call of their batch failed."""
        images: list[str] = []
        texts: list[str] = []
        columns: list[Columns] = []
        for pair in pairs:
            with suppress(ContraposeError):  # a pair that is refused
                answer = self._call_model([pair], ready)
                columns.append(answer() if callable(answer) else answer)
                images.append(self.image_ids[pair[0]])
                texts.append(self.text_ids[pair[1]])
        if columns:
            self.table.add(images, texts, stack_columns(columns))

    def _wait(self, columns: Callable[[], Columns], texts: Sequence[str]) -> Columns:
        """Wait for the columns of a model call."""
        done = columns()
        require_finite(done, texts, self.context.model, self.score)
        return done

    def _record_refusal(self, pair: list[int], error: InputError) -> None:
        image, text = pair
        image_id = "" if self.make_image is not None else self.image_ids[image]
        text_id = self.text_ids[text]
        kind = "pair" if image_id and text_id else "caption" if text_id else "image"
        self.context.skips.refuse(self.score, image_id, text_id, refusal_skip(error, kind))


def _to_tensor(pixels: NDArray[np.uint8]) -> ImageLike:
    import torch

    return torch.from_numpy(pixels)
