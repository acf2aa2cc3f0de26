"""Evaluation on vectors that are known: a model whose images and captions are rows of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from contrapose.arrays import find_distinct
from contrapose.data import Gallery, ImageRef, Suite, in_memory_benchmark
from contrapose.data.example_columns import ExampleColumns
from contrapose.engine import AnswerStore, Progress, ScoringContext, distinct_images, embed_distinct
from contrapose.engine.galleries import expand_prompts
from contrapose.errors import InputError
from contrapose.evaluation.selection import PartData, select
from contrapose.models import Encoder
from contrapose.models.joined.model import project_vectors
from contrapose.results.measures import Measurements
from contrapose.tune.heads.features import Features
from contrapose.tune.panels import EvaluationPanel
from contrapose.tune.report import Evaluator

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import AnyImage
from typing import Protocol

from contrapose.results.statistics import build_statistics
from contrapose.tune.panels import make_panel

Heads = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """Image source: a row of image vectors, as one pixel whose color is the row's number."""

    row: int

    @property
    def content(self) -> str:
        """Name of the row."""
        return f"feature row {self.row}"

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Pixels of rows."""
        from PIL import Image

        return [Image.frombytes("RGB", (1, 1), it.row.to_bytes(3, "big")) for it in sources]


class FeatureModel:
    """Dual encoder over known unit vectors: images are `FeatureRow`s.

    Attributes:
        images: (n, d) vectors of images.
        texts: (m, d) vectors of captions.
        rows: row of each caption; None where captions are the row numbers themselves.
    """

    name = fingerprint = "features"
    batch_size = 4096

    def __init__(self, images: Tensor, texts: Tensor, rows: Mapping[str, int] | None = None):
        self.images, self.texts, self.rows = images, texts, rows

    def embed_images(self, images: Sequence[AnyImage]) -> Tensor:
        """Vectors of images."""
        pixels: list[Any] = list(images)
        return self.images[[int.from_bytes(image.tobytes(), "big") for image in pixels]]

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Vectors of captions."""
        return self.texts[[int(text) if self.rows is None else self.rows[text] for text in texts]]


def feature_gallery(features: Features) -> Gallery:
    """Retrieval gallery of features, for a `FeatureModel`."""
    return Gallery(
        "retrieval",
        tuple(ImageRef(str(row), source=FeatureRow(row)) for row in range(len(features.images))),
        tuple(map(str, range(len(features.texts)))),
        tuple((image, text) for text, image in enumerate(features.image_of_text.tolist())),
    )


@dataclass(frozen=True, slots=True, eq=False)
class VectorPanel:
    """Evaluation panel with a model's vectors of its images and captions.

    Attributes:
        evaluator: of the panel, with `FeatureRow`s for images.
        images: (n, d) the model's vectors.
        texts: (m, d) those of captions.
        rows: row of each caption; None where captions are row numbers.
        panel: the panel on images; None where there are vectors only.
    """

    evaluator: Evaluator
    images: Tensor
    texts: Tensor
    rows: Mapping[str, int] | None = None
    panel: EvaluationPanel | None = None

    def measure(self, heads: Heads | None = None) -> dict[str, Measurements]:
        """Measure the model, followed by heads where there are some."""
        images, texts = self.images, self.texts
        if heads:
            cpu = {name: head.detach().cpu().float() for name, head in heads.items()}
            images = project_vectors(images, cpu, "image", "these vectors")
            texts = project_vectors(texts, cpu, "text", "these vectors")
        return self.evaluator.measure(FeatureModel(images, texts, self.rows))


def encode_panel(
    panel: EvaluationPanel, model: Encoder, progress: Progress | None = None
) -> VectorPanel:
    """Encode all images and captions of a panel once.

    Raises:
        InputError: an image cannot be read.
    """
    refs: list[ImageRef] = []
    texts: list[str] = []
    selection = select(panel.suite)
    for _, data in selection.parts.values():
        if isinstance(data, Gallery):
            refs += data.images
            texts += expand_prompts(data)
        elif isinstance(data, list | ExampleColumns):
            refs += [image for example in data for image in example.images]
            texts += [text for example in data for text in example.texts]
    seen = distinct_images(refs)
    captions, _ = find_distinct(texts)
    context = ScoringContext(model, AnswerStore(None), progress=progress)
    images, words = embed_distinct(context, seen.refs, seen.ids, captions)
    for skip in (*seen.unreadable.values(), *context.skips.images.values()):
        raise InputError(f"an image of {panel.source} cannot be used: {skip.detail}.")
    if np.isnan(words).any():
        raise InputError(f"a caption of {panel.source} cannot be read by {model.name}.")
    row_of = {
        ref: ImageRef(ref.key, source=FeatureRow(row))
        for ref, row in zip(refs, seen.index.tolist(), strict=True)
    }

    def with_rows(data: PartData) -> PartData:
        if isinstance(data, Gallery):
            return replace(data, images=tuple(row_of[ref] for ref in data.images))
        if not isinstance(data, list | ExampleColumns):
            return data
        return [replace(it, images=tuple(row_of[ref] for ref in it.images)) for it in data]

    parts = {
        name: in_memory_benchmark(with_rows(data), name, benchmark.card.family)
        for name, (benchmark, data) in selection.parts.items()
    }
    return VectorPanel(
        Evaluator(EvaluationPanel(panel.source, Suite("tuning", panel.source, parts))),
        torch.from_numpy(images),
        torch.from_numpy(words),
        {caption: row for row, caption in enumerate(captions)},
        panel,
    )


class HeadEmbedder(Protocol):
    """Heads that map features into the common space."""

    def embed_images(self, features: Tensor) -> Tensor:
        """Unit vectors of image features."""

    def embed_texts(self, features: Tensor) -> Tensor:
        """Unit vectors of caption features."""


def embed_features(heads: HeadEmbedder, features: Features) -> tuple[Tensor, Tensor]:
    """Unit vectors of images and of captions."""
    with torch.no_grad():
        return (
            heads.embed_images(torch.from_numpy(np.array(features.images))),
            heads.embed_texts(torch.from_numpy(np.array(features.texts))),
        )


def measure_mean_recall(heads: HeadEmbedder, features: Features) -> float:
    """The mean of the six recalls, without an interval."""
    evaluator = Evaluator(make_panel("features", {"retrieval": feature_gallery(features)}))
    measured = evaluator.measure(FeatureModel(*embed_features(heads, features)))
    return build_statistics(measured["retrieval"])["mean_recall"].value()
