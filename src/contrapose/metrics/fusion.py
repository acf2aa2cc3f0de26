"""Training-free fusions of an image query and a text query over a gallery of unit vectors.

A fusion by name turns query vectors and a gallery into scores, queries × gallery. `text`, `image`,
`sum` and `delta` build one query vector, so that any nearest-neighbor search can answer them;
`product`, `weicom` and `basic` combine two rows of similarities.

Sources: delta, Couairon et al., Embedding Arithmetic of Multimodal Queries for Image Retrieval,
2022; WeiCom, Psomas et al., Composed Image Retrieval for Remote Sensing, 2024; sum, product and
BASIC, Psomas et al., Instance-Level Composed Image Retrieval, 2025.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError, option
from contrapose.metrics.types import FloatArray

SATURATION = 8.5
"""Standard deviations beyond which the normal distribution function is 0 or 1 in float64."""

HARRIS = 0.1
"""Weight of the squared sum that BASIC subtracts from the product."""

CONTRAST = 0.2
"""Weight of the negative texts in BASIC's contrastive projection."""

COMPONENTS = 250
"""Largest number of components that BASIC keeps."""

SAMPLE = 1000
"""Gallery images that stand for all in the estimate of BASIC's smallest similarities."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """Fusion of an image query and a text query.

    Attributes:
        name: the name that `fuse` knows it by.
        needs: names of the query vectors it needs: image, text, source, target.
        vector: whether it builds one query vector, so that scores are cosines.
        scale: its default λ; None where it has no λ. λ = 0 ranks by the image alone.
        title: its formula in words.
    """

    name: str
    needs: tuple[str, ...]
    vector: bool
    scale: float | None
    title: str


FUSIONS: dict[str, Fusion] = {
    fusion.name: fusion
    for fusion in (
        Fusion("text", ("text",), True, None, "cosine with the text"),
        Fusion("image", ("image",), True, None, "cosine with the image"),
        Fusion("sum", ("image", "text"), True, 1.0, "cosine with image + λ·text"),
        Fusion(
            "delta", ("image", "source", "target"), True, 1.0,
            "cosine with image + λ·(target − source)",
        ),
        Fusion("product", ("image", "text"), False, None, "product of both cosines, negatives 0"),
        Fusion(
            "weicom", ("image", "text"), False, 0.5,
            "(1 − λ)·Φ(standardized image cosine) + λ·Φ(standardized text cosine)",
        ),
        Fusion(
            "basic", ("image", "text"), False, None,
            "centering, contrastive projection, product − 0.1·sum²",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class BasicStatistics:
    """Statistics of a gallery and of texts that BASIC needs beside a query.

    The paper takes the means of one million LAION images and the smallest similarities of
    generated images. Here both are those of the gallery itself and of the texts; each modality is
    divided by the size of its own smallest similarity.

    Attributes:
        image_mean: (d,) subtracted from image vectors.
        text_mean: (d,) subtracted from text vectors.
        components: (d, c) orthonormal directions that tell the positive texts apart, and not the
            negative ones.
        image_minimum: smallest similarity of two centered images, below 0.
        text_minimum: smallest similarity of a centered text with a centered image, below 0.
        expansion: nearest images averaged into the image query; 0 for none, 25 in the paper.
    """

    image_mean: NDArray[np.float32]
    text_mean: NDArray[np.float32]
    components: NDArray[np.float32]
    image_minimum: float
    text_minimum: float
    expansion: int = 0


def require_fusion(name: str) -> Fusion:
    """Return the fusion of a name.

    Raises:
        InputError: there is none.
    """
    if name not in FUSIONS:
        raise InputError(f"there is no fusion {name!r}; there are {', '.join(FUSIONS)}.")
    return FUSIONS[name]


def fuse(
    name: str,
    gallery: ArrayLike,
    *,
    image: ArrayLike | None = None,
    text: ArrayLike | None = None,
    source: ArrayLike | None = None,
    target: ArrayLike | None = None,
    scale: float | None = None,
    statistics: BasicStatistics | None = None,
) -> FloatArray:
    """Score every image of a gallery for every composed query.

    Args:
        name: a key of `FUSIONS`.
        gallery: (N, d) unit vectors of images; float16 is widened.
        image: (q, d) unit vectors of the query images.
        text: (q, d) unit vectors of the query texts.
        source: (q, d) vectors of the words to replace; sums of them for several changes.
        target: (q, d) vectors of the words to replace them by.
        scale: λ; by default the fusion's own.
        statistics: of `basic_statistics`, for `basic` alone.

    Returns:
        (q, N) scores, higher is better.

    Raises:
        InputError: there is no such fusion, a vector is missing or not finite, shapes do not fit,
            or λ is outside the fusion's range.
    """
    fusion = require_fusion(name)
    vectors = _check_gallery(gallery)
    if fusion.vector:
        query = compose_queries(
            name, image=image, text=text, source=source, target=target, scale=scale
        )
        _check_width(query, vectors)
        return np.asarray(query @ vectors.T)
    images, texts = _require_vectors(fusion, {"image": image, "text": text})
    _check_width(images, vectors)
    if name == "basic":
        if statistics is None:
            raise InputError("the fusion basic needs the statistics of basic_statistics.")
        return fuse_basic(vectors, images, texts, statistics)
    return fuse_similarities(name, images @ vectors.T, texts @ vectors.T, scale=scale)


def compose_queries(
    name: str,
    *,
    image: ArrayLike | None = None,
    text: ArrayLike | None = None,
    source: ArrayLike | None = None,
    target: ArrayLike | None = None,
    scale: float | None = None,
) -> NDArray[np.float32]:
    """Build (q, d) unit query vectors of `text`, `image`, `sum` or `delta`; arguments as in `fuse`.

    Raises:
        InputError: the fusion has no query vector, or as in `fuse`.
    """
    fusion = require_fusion(name)
    if not fusion.vector:
        raise InputError(f"the fusion {name} combines similarities and has no query vector.")
    given = {"image": image, "text": text, "source": source, "target": target}
    vectors = _require_vectors(fusion, given)
    weight = check_scale(fusion, scale)
    if name == "sum":
        return _normalize(vectors[0] + weight * vectors[1])
    if name == "delta":
        return _normalize(vectors[0] + weight * (vectors[2] - vectors[1]))
    return _normalize(vectors[0])


def fuse_similarities(
    name: str, image: ArrayLike, text: ArrayLike, *, scale: float | None = None
) -> FloatArray:
    """Combine (q, N) cosines of the image query and of the text query by `product` or `weicom`.

    WeiCom standardizes each row by its mean and standard deviation over the gallery, and maps it
    through the normal distribution function; a row without spread becomes ½.

    Raises:
        InputError: the fusion does not combine two similarities, or λ is not in 0 … 1.
    """
    fusion = require_fusion(name)
    rows = np.asarray(image), np.asarray(text)
    if rows[0].shape != rows[1].shape:
        raise InputError(f"similarities of {rows[0].shape} and {rows[1].shape} do not fit.")
    weight = check_scale(fusion, scale)
    if name == "product":
        return np.asarray(np.maximum(rows[0], 0) * np.maximum(rows[1], 0))
    if name == "weicom":
        of_image, of_text = map(_normal_ranks, rows)
        return np.asarray((1 - weight) * of_image + weight * of_text)
    raise InputError(f"the fusion {name} does not combine two similarities.")


def basic_statistics(
    gallery: ArrayLike,
    positive: ArrayLike,
    negative: ArrayLike,
    *,
    contrast: float = CONTRAST,
    components: int = COMPONENTS,
    expansion: int = 0,
) -> BasicStatistics:
    """Estimate the statistics of BASIC from a gallery and two lists of texts.

    The directions are the eigenvectors of (1 − a)·C₊ − a·C₋ with positive eigenvalues, largest
    first; C₊ and C₋ are the scatter matrices of the texts, both about the mean of the positive
    ones. The smallest similarities are taken over at most 1,000 images spread evenly.

    Args:
        gallery: (N, d) unit vectors of images.
        positive: (n, d) unit vectors of texts that name what an image query shows: subjects.
        negative: (m, d) unit vectors of texts that name how it is shown: styles.
        contrast: a.
        components: largest number of directions to keep.
        expansion: see `BasicStatistics`.

    Raises:
        InputError: there are fewer than two texts of a kind, or shapes do not fit.
    """
    vectors = _check_gallery(gallery)
    lists = [_check_matrix(texts, "texts of BASIC") for texts in (positive, negative)]
    for texts in lists:
        _check_width(texts, vectors)
        if len(texts) < 2:
            raise InputError("BASIC needs at least two positive and two negative texts.")
    mean = lists[0].mean(axis=0, dtype=np.float64)
    scatter = [(texts - mean).T @ (texts - mean) / (len(texts) - 1) for texts in lists]
    values, directions = np.linalg.eigh((1 - contrast) * scatter[0] - contrast * scatter[1])
    count = min(components, int(np.count_nonzero(values > 1e-9 * max(values[-1], 1e-12))))
    image_mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    step = -(-len(vectors) // SAMPLE)
    sample = vectors[::step] - image_mean
    centered = (lists[0] - mean).astype(np.float32)
    return BasicStatistics(
        image_mean=image_mean,
        text_mean=mean.astype(np.float32),
        components=np.ascontiguousarray(directions[:, ::-1][:, :count], dtype=np.float32),
        image_minimum=_below_zero(sample @ sample.T),
        text_minimum=_below_zero(centered @ sample.T),
        expansion=expansion,
    )


def check_scale(fusion: Fusion, scale: float | None) -> float:
    """Return λ of a fusion: the given one, else its default; 0 where it has none.

    Raises:
        InputError: λ is not finite, below 0, above 1 where it is a share, or has no meaning.
    """
    if scale is None or fusion.scale is None:
        if scale is not None:
            raise InputError(f"the fusion {fusion.name} has no λ; leave {option('scale')} out.")
        return fusion.scale or 0.0
    highest = 1.0 if fusion.name == "weicom" else math.inf
    if not (math.isfinite(scale) and 0 <= scale <= highest):
        allowed = "from 0 to 1" if highest == 1 else "a number of at least 0"
        raise InputError(f"λ of {fusion.name} must be {allowed}, not {scale}.")
    return float(scale)


def fuse_basic(
    gallery: NDArray[np.float32],
    image: NDArray[np.float32],
    text: NDArray[np.float32],
    statistics: BasicStatistics,
) -> FloatArray:
    """Center, project and expand the queries, then combine both similarities; nothing is checked.

    Each similarity s becomes max(0, (s − s_min)/|s_min|); the score is their product minus
    0.1·(their sum)², Harris's criterion of corners.
    """
    # A centered gallery is never built: ⟨q, v − μ⟩ = ⟨q, v⟩ − ⟨q, μ⟩.
    mean, components = statistics.image_mean, statistics.components

    def similarity(queries: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(queries @ gallery.T - (queries @ mean)[:, None])

    def project(queries: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(queries @ components @ components.T)

    centered = image - mean
    if statistics.expansion:
        first = similarity(project(centered))
        count = min(statistics.expansion, len(gallery))
        nearest = np.argsort(-first, axis=1, kind="stable")[:, :count]
        weights = np.exp(0.1 * np.take_along_axis(first, nearest, axis=1))
        total = np.exp(0.1) + weights.sum(axis=1, keepdims=True)
        neighbors = np.einsum("qk,qkd->qd", weights, gallery[nearest] - mean)
        centered = ((np.exp(0.1) * centered + neighbors) / total).astype(np.float32)
    of_image = _rectify(similarity(project(centered)), statistics.image_minimum)
    of_text = _rectify(similarity(text - statistics.text_mean), statistics.text_minimum)
    return np.asarray(of_image * of_text - HARRIS * (of_image + of_text) ** 2)


def _rectify(similarity: NDArray[np.float32], minimum: float) -> NDArray[np.float32]:
    return np.asarray(np.maximum((similarity - minimum) / abs(minimum), 0), dtype=np.float32)


def _below_zero(similarity: NDArray[np.float32]) -> float:
    """Smallest similarity; centered vectors have negative ones unless all are equal."""
    return min(float(similarity.min()), -1e-6)


def _normal_ranks(similarity: FloatArray) -> NDArray[np.float64]:
    """Standardize rows and map them through the normal distribution function, in float64."""
    wide = similarity.astype(np.float64)
    if wide.shape[1] < 2:
        return np.full(wide.shape, 0.5)
    centered = wide - wide.mean(axis=1, keepdims=True)
    deviation = centered.std(axis=1, ddof=1, keepdims=True)
    # Rounding gives equal similarities a spread of about 1e-8.
    flat = deviation < 1e-7
    standard = np.where(flat, 0.0, centered / np.where(flat, 1.0, deviation))
    values = _normal_table()
    # The points are evenly spaced, so that no search is needed as in np.interp.
    steps = (np.clip(standard, -SATURATION, SATURATION) + SATURATION) * (
        (len(values) - 1) / (2 * SATURATION)
    )
    before = np.minimum(steps.astype(np.int64), len(values) - 2)
    low, high = values[before], values[before + 1]
    return np.asarray(low + (steps - before) * (high - low))


@cache
def _normal_table() -> NDArray[np.float64]:
    """Table of the normal distribution function; between two points the error is below 1e-8."""
    points = np.linspace(-SATURATION, SATURATION, 1 << 15).tolist()
    return np.array([0.5 * math.erfc(-point / math.sqrt(2)) for point in points])


def _normalize(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to unit length, computed in float64; a row of zeros stays zero."""
    wide = vectors.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.maximum(length, 1e-12), dtype=np.float32)


def _require_vectors(
    fusion: Fusion, given: dict[str, ArrayLike | None]
) -> list[NDArray[np.float32]]:
    """Return the vectors a fusion needs, all of one shape."""
    vectors = []
    for need in fusion.needs:
        value = given[need]
        if value is None:
            raise InputError(f"the fusion {fusion.name} needs {need} vectors.")
        vectors.append(_check_matrix(value, f"{need} vectors"))
    if len({array.shape for array in vectors}) > 1:
        shapes = ", ".join(str(array.shape) for array in vectors)
        raise InputError(f"query vectors of {fusion.name} must have one shape, not {shapes}.")
    return vectors


def _check_gallery(gallery: ArrayLike) -> NDArray[np.float32]:
    vectors = _check_matrix(gallery, "gallery vectors")
    if not len(vectors):
        raise InputError("the gallery has no image.")
    return vectors


def _check_matrix(vectors: ArrayLike, what: str) -> NDArray[np.float32]:
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2:
        raise InputError(f"{what} must be rows of numbers, not of shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError(f"{what} must be finite.")
    return array


def _check_width(queries: NDArray[np.float32], gallery: NDArray[np.float32]) -> None:
    if queries.shape[1] != gallery.shape[1]:
        raise InputError(
            f"vectors of {queries.shape[1]} numbers do not fit a gallery of {gallery.shape[1]}."
        )
