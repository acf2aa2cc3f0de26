"""Searcher: a model and an index, and queries of image and text answered by exact search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrapose.arrays import normalize_rows
from contrapose.data import ImageRef
from contrapose.data.images import bytes_id, read_bytes
from contrapose.engine import AnswerStore, ScoringContext, compute_caption_ids, embed_distinct
from contrapose.engine.corpora import STYLES, SUBJECTS
from contrapose.errors import InputError, option
from contrapose.metrics import FloatArray, IntArray
from contrapose.metrics.fusion import (
    BasicStatistics,
    Fusion,
    basic_statistics,
    check_scale,
    compose_queries,
    fuse_basic,
    fuse_similarities,
)
from contrapose.models import Model
from contrapose.models.sides import embeds_side
from contrapose.scores import UNKNOWN_SKIP
from contrapose.search.backends import VectorBackend
from contrapose.search.exact import multiply, rank_row, search_exact
from contrapose.search.index import Index
from contrapose.search.queries import (
    CALIBRATION_SHARE,
    Hit,
    ImageBytes,
    SearchQuery,
    SearchResult,
    WordChange,
    calibrate_scale,
    sentence_pairs,
)
from contrapose.search.spaces import require_text_encoder
from contrapose.search.writer import require_encoder

CALIBRATION_SAMPLE = 10_000
"""Images that stand for a larger index in the calibration, spread evenly."""

SAME = 0.995
"""Cosine from which a model is said not to tell two texts apart."""

MAX_TEXTS = 20_000
"""Vectors of texts from which a searcher, which may answer for days, starts anew."""


class Searcher:
    """Model and index that answer queries; vectors of texts are kept between queries.

    Attributes:
        index: the index.
        model: the model that made it, or a text encoder of its space.
    """

    def __init__(
        self,
        index: Index,
        model: Model,
        *,
        load_image_model: Callable[[], Model] | None = None,
        subjects: Sequence[str] = SUBJECTS,
        styles: Sequence[str] = STYLES,
        backend: VectorBackend | None = None,
    ):
        """Join an index and its model.

        Args:
            index: the index.
            model: must have the index's fingerprint, or be of the space of its vectors.
            load_image_model: loads the model that made the index, which embeds query images where
                `model` is a text encoder alone.
            subjects: texts that name what images show, for BASIC and for the neutral text.
            styles: texts that name how images show it, for BASIC.
            backend: searches in place of exact search, for fusions with one query vector.

        Raises:
            InputError: the index is of another model.
        """
        require_text_encoder(index, model)
        side = "image" if embeds_side(model, "image") else "text"
        self.index, self.model = index, require_encoder(model, side)
        self._load_image_model = None if load_image_model is None else cache(load_image_model)
        self._image_context: ScoringContext | None = None
        self.subjects, self.styles = tuple(subjects), tuple(styles)
        self.backend = backend
        self._context = ScoringContext(self.model, AnswerStore(None))
        self._texts: dict[str, NDArray[np.float32]] = {}
        self._statistics: BasicStatistics | None = None
        self._sample: NDArray[np.float32] | None = None
        if model.fingerprint != index.fingerprint and embeds_side(model, "text"):
            self.embed_texts(self.subjects[:1])  # refuses vectors of another width at once

    def with_index(self, index: Index) -> Searcher:
        """Searcher of the same model on another state of the index.

        Raises:
            InputError: the index is of another model.
        """
        other = Searcher(
            index,
            self.model,
            load_image_model=self._load_image_model,
            subjects=self.subjects,
            styles=self.styles,
        )
        other._texts, other._context = dict(self._texts), self._context
        other._image_context = self._image_context
        return other

    def search(self, query: SearchQuery, k: int = 10) -> SearchResult:
        """Find the k best images; the query image itself is left out.

        The first search compares the checksums of all vectors.

        Raises:
            InputError: the query image or a text cannot be used, the fusion does not fit, or the
                index is damaged.
        """
        if k < 1:
            raise InputError(f"{option('k')} must be at least 1, found {k}.")
        if self.backend is None:
            self.index.check()
        fusion = query.choose_fusion()
        notes: list[str] = []
        image, left_out = self._embed_image(query.image)
        texts = self._prepare_texts(query)
        words = query.fused_text
        text = None if words is None else texts[words]
        deltas = [self._delta(change, query.captions, texts, notes) for change in query.changes]
        direction = np.sum(deltas, axis=0) if deltas else None
        scale, calibrated = self._choose_scale(query, fusion, image, direction)
        edited = image
        if fusion.name in ("image", "text") and deltas:
            notes.append(f"the fusion {fusion.name} uses no changes")
        elif (
            fusion.name != "delta"
            and query.text is not None
            and image is not None
            and direction is not None
        ):
            # The image is edited by the changes, then fused with the free text.
            weight = calibrate_scale(image, direction, self._calibration_sample())
            edited = normalize_rows(image + weight * direction)
            notes.append(f"the image is edited with λ = {weight:.2f}, calibrated on the index")
        rows, scores = self._rank(fusion, edited, text, direction, scale, left_out, k)
        if calibrated:
            notes.append(
                f"λ = {scale:.2f} is calibrated: the query lies as far along the change as the "
                f"{CALIBRATION_SHARE:.0%} of the index that lie furthest"
            )
        if fusion.name == "basic":
            notes.append("BASIC is centered by the means of this index and of its list of subjects")
        hits = self._describe(rows, scores, image, text, deltas)
        return SearchResult(
            query,
            hits,
            fusion.name,
            scale if fusion.scale is not None else None,
            calibrated,
            tuple(self.index.path(row) for row in left_out.tolist()),
            tuple(dict.fromkeys(notes)),
            self.model.name,
            self.index.root,
        )

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts as (n, d) unit vectors, each text once.

        Raises:
            InputError: the model does not read a text.
        """
        if len(self._texts) > MAX_TEXTS:
            self._texts.clear()
            self._context = ScoringContext(self.model, AnswerStore(None))
        missing = [text for text in dict.fromkeys(texts) if text not in self._texts]
        if missing:
            if not embeds_side(self.model, "text"):
                raise InputError(
                    f"{self.model.name} cannot embed captions: it is an image encoder alone; name "
                    f"a text encoder of the same space as {option('model')}."
                )
            _, vectors = embed_distinct(self._context, [], [], missing)
            width = self.index.vectors.shape[1]
            if vectors.shape[1] not in (0, width):
                raise InputError(
                    f"{self.model.name} gives vectors of {vectors.shape[1]:,} numbers, and those "
                    f"of the index have {width:,}: it is of another space."
                )
            names = compute_caption_ids(self._context, missing)
            for text, name, vector in zip(missing, names, vectors, strict=True):
                if not len(vector) or np.isnan(vector).any():
                    skip = self._context.skips.texts.get(("itc", name), UNKNOWN_SKIP)
                    raise InputError(f"{text!r} cannot be searched: {skip.detail}.")
                self._texts[text] = vector
        return np.stack([self._texts[text] for text in texts])

    def _embed_image(
        self, image: Path | bytes | None
    ) -> tuple[NDArray[np.float32] | None, IntArray]:
        """Vector of the query image, and the index's rows with the same content."""
        nothing = np.zeros(0, dtype=np.int64)
        if image is None:
            return None, nothing
        content = image if isinstance(image, bytes) else read_bytes(ImageRef("query", image))
        name = bytes_id(content)
        rows = self.index.find_content(name)
        if len(rows):
            self.index.check(rows[:1])
            return np.array(self.index.vectors[rows[0]]), rows
        ref = ImageRef("query", source=ImageBytes(content))
        context = self._open_image_context()
        context.skips.images.pop(name, None)
        vectors, _ = embed_distinct(context, [ref], [name], [])
        if not vectors.shape[1] or np.isnan(vectors).any():
            skip = context.skips.images.get(name, UNKNOWN_SKIP)
            where = None if isinstance(image, bytes) else image
            raise InputError(f"the query image cannot be used: {skip.detail}.", file=where)
        return np.asarray(vectors[0]), nothing

    def _open_image_context(self) -> ScoringContext:
        """Context of the model that embeds query images; loaded for the first that needs it."""
        if embeds_side(self.model, "image"):
            return self._context
        if self._image_context is None:
            loaded = self.model if self._load_image_model is None else self._load_image_model()
            encoder = require_encoder(loaded)
            self.index.require_model(encoder.fingerprint, encoder.name)
            self._image_context = ScoringContext(encoder, AnswerStore(None))
        return self._image_context

    def _prepare_texts(self, query: SearchQuery) -> dict[str, NDArray[np.float32]]:
        """Embed all texts of a query in one call."""
        texts = [] if query.fused_text is None else [query.fused_text]
        for change in query.changes:
            texts += [word for word in (change.source, change.target) if word]
        distinct = list(dict.fromkeys(texts))
        return dict(zip(distinct, self.embed_texts(distinct), strict=True)) if distinct else {}

    def _delta(
        self,
        change: WordChange,
        captions: Sequence[str],
        texts: dict[str, NDArray[np.float32]],
        notes: list[str],
    ) -> NDArray[np.float32]:
        """Vector of a change: of its words, or the average over captions."""
        if captions and change.source:
            pairs = sentence_pairs(change, captions)
            vectors = self.embed_texts([text for pair in pairs for text in pair])
            notes.append(f"{change}: the mean difference of {len(pairs):,} captions")
            return np.asarray((vectors[1::2] - vectors[0::2]).mean(axis=0))
        neutral = self.embed_texts(self.subjects).mean(axis=0)
        source, target = (
            texts[word] if word else neutral for word in (change.source, change.target)
        )
        cosine = float(source @ target) / float(np.linalg.norm(source) * np.linalg.norm(target))
        if cosine >= SAME:
            one, other = (
                repr(word) if word else "a neutral text" for word in (change.source, change.target)
            )
            notes.append(
                f"{self.model.name} hardly tells {one} and {other} apart (cosine {cosine:.4f}): "
                "this change says little"
            )
        return np.asarray(target - source)

    def _choose_scale(
        self,
        query: SearchQuery,
        fusion: Fusion,
        image: NDArray[np.float32] | None,
        direction: NDArray[np.float32] | None,
    ) -> tuple[float, bool]:
        """λ of the query, and whether it was calibrated; a text with changes has λ = 1."""
        calibrate = fusion.name == "delta" and query.scale is None and image is not None
        if calibrate and direction is not None and image is not None:
            return calibrate_scale(image, direction, self._calibration_sample()), True
        return check_scale(fusion, query.scale), False

    def _calibration_sample(self) -> NDArray[np.float32]:
        if self._sample is None:
            step = -(-len(self.index) // CALIBRATION_SAMPLE)
            self.index.check()
            self._sample = np.array(self.index.vectors[::step])
        return self._sample

    def _rank(
        self,
        fusion: Fusion,
        image: NDArray[np.float32] | None,
        text: NDArray[np.float32] | None,
        direction: NDArray[np.float32] | None,
        scale: float,
        left_out: IntArray,
        k: int,
    ) -> tuple[IntArray, FloatArray]:
        """Rank the index: rows and scores, best first."""
        vectors = self.index.vectors
        if fusion.vector:
            if fusion.name == "delta":
                base = image if image is not None else text
                zero = np.zeros_like(base)
                given = {"image": base, "source": zero, "target": direction}
            else:
                given = {"image": image, "text": text}
            query = compose_queries(
                fusion.name,
                **{name: value[None] for name, value in given.items() if value is not None},
                scale=scale if fusion.scale is not None else None,
            )
            if self.backend is None:
                exclude = (np.zeros(len(left_out), dtype=np.int64), left_out)
                nearest = search_exact(query, vectors, k, exclude=exclude, longest=1.0)
            else:
                nearest = self.backend.search(query, min(k + len(left_out), len(vectors)))
            present = (nearest.rows[0] >= 0) & ~np.isin(nearest.rows[0], left_out)
            return nearest.rows[0][present][:k], nearest.scores[0][present][:k]
        if self.backend is not None:
            raise InputError(f"the fusion {fusion.name} needs exact search, without a copy.")
        if image is None or text is None:  # refused by `choose_fusion`
            raise InputError(f"the fusion {fusion.name} needs an image and a text.")
        if fusion.name == "basic":
            scores = fuse_basic(vectors, image[None], text[None], self._basic_statistics())
        else:
            both = multiply(np.stack([image, text]), vectors)
            weight = scale if fusion.scale is not None else None
            scores = fuse_similarities(fusion.name, both[:1], both[1:], scale=weight)
        return rank_row(scores[0], k, left_out)

    def _basic_statistics(self) -> BasicStatistics:
        if self._statistics is None:
            self._statistics = basic_statistics(
                self.index.vectors, self.embed_texts(self.subjects), self.embed_texts(self.styles)
            )
            if not self._statistics.components.shape[1]:
                raise InputError(
                    f"{self.model.name} tells none of the subjects of BASIC apart; pass a list of "
                    f"others with {option('subjects')}."
                )
        return self._statistics

    def _describe(
        self,
        rows: IntArray,
        scores: FloatArray,
        image: NDArray[np.float32] | None,
        text: NDArray[np.float32] | None,
        deltas: Sequence[NDArray[np.float32]],
    ) -> tuple[Hit, ...]:
        """Describe the hits: their paths, and what speaks for each."""
        self.index.check(rows)
        vectors = np.asarray(self.index.vectors[rows])
        return tuple(
            Hit(
                rank,
                row,
                self.index.path(row),
                float(score),
                None if image is None else float(vector @ image),
                None if text is None else float(vector @ text),
                tuple(float(vector @ delta) for delta in deltas),
            )
            for rank, (row, score, vector) in enumerate(
                zip(rows.tolist(), scores, vectors, strict=True), 1
            )
        )
