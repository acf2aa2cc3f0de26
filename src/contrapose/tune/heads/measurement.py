"""Evaluation of heads: retrieval in both directions, and deltas, on held-out features.

A delta query is made from captions alone: an image I, one of its captions t1, and the nearest
caption t2 of another image J, by the sentence encoder's own vectors. The query is
E(I) + λ·(E(t2) − E(t1)) at unit length, I left out; J is the answer (equation 2 of Couairon et al.
2022 with sentences for words). It asks for one photograph, and so is stricter than SIMAT's oracle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from contrapose.errors import InputError
from contrapose.metrics import interval, intervals, mean_of, recalls
from contrapose.metrics.retrieval import WAYS, mean_recall
from contrapose.metrics.types import Outcome, binary_outcome
from contrapose.tune.heads.features import Features

KS = (1, 5, 10)
RESAMPLES = 2_000


class HeadEmbedder(Protocol):
    """Two heads at work."""

    def embed_images(self, features: Tensor) -> Tensor:
        """Unit vectors of image features."""

    def embed_texts(self, features: Tensor) -> Tensor:
        """Unit vectors of caption features."""


@dataclass(frozen=True, slots=True)
class HeadMetricValue:
    """A number with its 95 % interval, chance level and number of queries."""

    value: float
    low: float
    high: float
    chance: float | None
    count: int


@dataclass(frozen=True, slots=True)
class HeadMetrics:
    """All numbers of two heads.

    Attributes:
        retrieval: `image_to_text_r1` … `text_to_image_r10` and `mean_recall`.
        deltas: for each λ: `r1`, `r5`, `r10`.
    """

    retrieval: dict[str, HeadMetricValue]
    deltas: dict[float, dict[str, HeadMetricValue]]


def measure(
    heads: HeadEmbedder,
    features: Features,
    *,
    scales: Sequence[float] = (),
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> HeadMetrics:
    """Retrieval, and deltas at each scale λ; an image and its captions are resampled together."""
    images, texts = embed_features(heads, features)
    pairs = features.pairs
    outcomes = recalls(_product(images, texts), pairs)
    clusters = {WAYS[0]: None, WAYS[1]: features.image_of_text}
    retrieval: dict[str, HeadMetricValue] = {}
    for way in WAYS:
        own = {name: each for name, each in outcomes.items() if name.startswith(way)}
        retrieval |= _metric_values(own, clusters[way], seed, resamples)
    statistic, drawn = mean_recall(outcomes, pairs)
    low, high = interval(statistic, clusters=drawn, seed=seed, resamples=resamples)
    chance = float(np.mean([each.chance or 0.0 for each in outcomes.values()]))
    retrieval["mean_recall"] = HeadMetricValue(statistic.value(), low, high, chance, len(pairs))
    queries = DeltaQueries.nearest(features) if scales else None
    deltas = {}
    for scale in scales:
        assert queries is not None  # noqa: S101 - there is a scale
        found = queries.outcomes(images, texts, scale)
        deltas[scale] = _metric_values(found, features.image_of_text, seed, resamples)
    return HeadMetrics(retrieval, deltas)


def measure_mean_recall(heads: HeadEmbedder, features: Features) -> float:
    """The mean of the six recalls, without an interval."""
    images, texts = embed_features(heads, features)
    found = recalls(_product(images, texts), features.pairs)
    return float(np.mean([each.mean() for each in found.values()]))


def embed_features(heads: HeadEmbedder, features: Features) -> tuple[Tensor, Tensor]:
    """Images' and captions' unit vectors."""
    with torch.no_grad():
        return (
            heads.embed_images(torch.from_numpy(np.array(features.images))),
            heads.embed_texts(torch.from_numpy(np.array(features.texts))),
        )


@dataclass(frozen=True, slots=True, eq=False)
class DeltaQueries:
    """Delta queries: one for each caption.

    Attributes:
        source: (q,) the image that each starts from.
        before: (q,) its caption.
        after: (q,) the caption of another image.
        target: (q,) that image.
    """

    source: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    target: NDArray[np.int64]

    @classmethod
    def nearest(cls, features: Features) -> DeltaQueries:
        """Each caption with the nearest one of another image.

        Raises:
            InputError: there are too few images to choose from.
        """
        owners = features.image_of_text.astype(np.int64)
        if len(features.images) <= max(KS):
            raise InputError(f"deltas need more than {max(KS)} images to choose from.")
        rows = torch.from_numpy(np.array(features.texts)).float()
        rows, whose = normalize(rows, dim=1), torch.from_numpy(owners)
        after = []
        for part, own in zip(torch.split(rows, 1024), torch.split(whose, 1024), strict=True):
            near = (part @ rows.T).masked_fill_(own[:, None] == whose, -torch.inf)
            after.append(near.argmax(dim=1))
        found = torch.cat(after).numpy()
        return cls(owners, np.arange(len(owners)), found, owners[found])

    def outcomes(self, images: Tensor, texts: Tensor, scale: float) -> dict[str, Outcome]:
        """Whether the target is among the first k images, the query's own left out."""
        source, before, after = (
            torch.from_numpy(rows).to(images.device)
            for rows in (self.source, self.before, self.after)
        )
        queries = normalize(images[source] + scale * (texts[after] - texts[before]), dim=1)
        scores = queries @ images.T
        right = scores.gather(1, torch.from_numpy(self.target).to(images.device)[:, None])
        scores.scatter_(1, source[:, None], -torch.inf)
        above = (scores > right).sum(dim=1).cpu().numpy()
        at_least = (scores >= right).sum(dim=1).cpu().numpy() - 1
        return {
            f"r{k}": binary_outcome(
                at_least < k, (above < k) & (at_least >= k), k / (len(images) - 1)
            )
            for k in KS
        }


def _metric_values(
    outcomes: Mapping[str, Outcome], clusters: NDArray[np.integer] | None, seed: int, resamples: int
) -> dict[str, HeadMetricValue]:
    drawn = intervals(
        [mean_of(each.values) for each in outcomes.values()],
        clusters=clusters,
        seed=seed,
        resamples=resamples,
    )
    return {
        name: HeadMetricValue(each.mean(), *ends, each.chance, len(each.values))
        for (name, each), ends in zip(outcomes.items(), drawn, strict=True)
    }


def _product(left: Tensor, right: Tensor) -> NDArray[np.float32]:
    found: NDArray[np.float32] = (left @ right.T).cpu().numpy()
    return found
