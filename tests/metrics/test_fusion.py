"""Fusions against slow loops, and the properties that every fusion must have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics.fusion import (
    FUSIONS,
    BasicStatistics,
    _normal_ranks,
    basic_statistics,
    compose_queries,
    fuse,
    fuse_similarities,
)

Vectors = np.ndarray[Any, np.dtype[np.float32]]


def unit(rng: np.random.Generator, rows: int, width: int = 6) -> Vectors:
    vectors = rng.normal(size=(rows, width)) + 0.4
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def draw(seed: int, gallery: int, queries: int) -> tuple[Vectors, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    vectors = unit(rng, gallery)
    given = {name: unit(rng, queries) for name in ("image", "text", "source", "target")}
    statistics = basic_statistics(vectors, unit(rng, 9), unit(rng, 5), components=4, expansion=2)
    return vectors, {**given, "statistics": statistics}


def needed(name: str, given: dict[str, Any]) -> dict[str, Any]:
    names = {*FUSIONS[name].needs, *(["statistics"] if name == "basic" else [])}
    return {key: value for key, value in given.items() if key in names}


def cosine(a: Vectors, b: Vectors) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / math.sqrt(float(a @ a) * float(b @ b)))


def slow(name: str, gallery: Vectors, q: int, given: dict[str, Any]) -> list[float]:
    """Scores of one query, pair by pair."""
    image, text = given["image"][q], given["text"][q]
    if name == "weicom":
        rows = []
        for query in (image, text):
            values = [cosine(query, v) for v in gallery]
            mean = sum(values) / len(values)
            spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
            rows.append([0.5 * (1 + math.erf((v - mean) / spread / math.sqrt(2))) for v in values])
        return [0.5 * a + 0.5 * b for a, b in zip(*rows, strict=True)]
    if name == "basic":
        return slow_basic(gallery, image, text, given["statistics"])
    query = {
        "text": text,
        "image": image,
        "sum": image + text,
        "product": image,
        "delta": image + given["target"][q] - given["source"][q],
    }[name]
    if name == "product":
        return [max(0, cosine(image, v)) * max(0, cosine(text, v)) for v in gallery]
    return [cosine(query, v) for v in gallery]


def slow_basic(
    gallery: Vectors, image: Vectors, text: Vectors, statistics: BasicStatistics
) -> list[float]:
    projection = statistics.components.astype(np.float64) @ statistics.components.T
    centered = [v.astype(np.float64) - statistics.image_mean for v in gallery]
    query = image.astype(np.float64) - statistics.image_mean
    first = [float(query @ projection @ v) for v in centered]
    best = sorted(range(len(gallery)), key=lambda i: -first[i])[: statistics.expansion]
    weights = [math.exp(0.1), *(math.exp(0.1 * first[i]) for i in best)]
    parts = [query, *(centered[i] for i in best)]
    query = sum(w * p for w, p in zip(weights, parts, strict=True)) / sum(weights) @ projection
    words = text.astype(np.float64) - statistics.text_mean
    scores = []
    for v in centered:
        a = max(0.0, (float(query @ v) - statistics.image_minimum) / -statistics.image_minimum)
        b = max(0.0, (float(words @ v) - statistics.text_minimum) / -statistics.text_minimum)
        scores.append(a * b - 0.1 * (a + b) ** 2)
    return scores


@pytest.mark.parametrize("name", list(FUSIONS))
@settings(deadline=None, max_examples=25)
@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_fusion_against_a_slow_loop(name: str, gallery: int, queries: int, seed: int) -> None:
    vectors, given = draw(seed, gallery, queries)
    scores = fuse(name, vectors, **needed(name, given))
    assert scores.shape == (queries, gallery)
    for q in range(queries):
        assert scores[q] == pytest.approx(slow(name, vectors, q, given), abs=2e-5, rel=1e-4)


@pytest.mark.parametrize("name", list(FUSIONS))
@settings(deadline=None, max_examples=25)
@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_order_of_gallery_and_queries_does_not_matter(name: str, gallery: int, seed: int) -> None:
    vectors, given = draw(seed, gallery, 4)
    rng = np.random.default_rng(seed)
    columns, rows = rng.permutation(gallery), rng.permutation(4)
    arguments = needed(name, given)
    moved = {k: v if k == "statistics" else v[rows] for k, v in arguments.items()}
    expected = fuse(name, vectors, **arguments)[rows][:, columns]
    assert fuse(name, vectors[columns], **moved) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["sum", "delta", "weicom"])
def test_without_lambda_the_image_ranks_alone(name: str) -> None:
    vectors, given = draw(3, 40, 5)
    scores = fuse(name, vectors, **needed(name, given), scale=0.0)
    by_image = fuse("image", vectors, image=given["image"])
    if name != "weicom":
        assert scores == pytest.approx(by_image, abs=1e-6)
    assert (scores.argsort(axis=1) == by_image.argsort(axis=1)).all()


def test_weicom_with_lambda_one_ranks_by_the_text() -> None:
    vectors, given = draw(4, 40, 5)
    scores = fuse("weicom", vectors, image=given["image"], text=given["text"], scale=1.0)
    by_text = fuse("text", vectors, text=given["text"])
    assert (scores.argsort(axis=1) == by_text.argsort(axis=1)).all()


def test_a_change_of_a_word_into_itself_is_the_image() -> None:
    vectors, given = draw(5, 20, 3)
    same = {"image": given["image"], "source": given["source"], "target": given["source"]}
    expected = fuse("image", vectors, image=given["image"])
    assert fuse("delta", vectors, **same, scale=2.0) == pytest.approx(expected, abs=1e-6)


def test_query_vectors_are_the_scores_of_vector_fusions() -> None:
    vectors, given = draw(6, 20, 3)
    for name, fusion in FUSIONS.items():
        arguments = needed(name, given)
        if not fusion.vector:
            arguments.pop("statistics", None)
            with pytest.raises(InputError, match="no query vector"):
                compose_queries(name, **arguments)
            continue
        query = compose_queries(name, **arguments)
        assert np.linalg.norm(query, axis=1) == pytest.approx(1, abs=1e-6)
        assert (query @ vectors.T == fuse(name, vectors, **arguments)).all()


def test_the_normal_distribution_function_is_close_and_rises() -> None:
    wide = np.concatenate([np.linspace(-30, 30, 4001), np.linspace(-0.5, 0.5, 4001)])[None]
    values = _normal_ranks(np.sort(wide))
    standard = np.sort(wide)[0]
    standard = (standard - standard.mean()) / standard.std(ddof=1)
    exact = [0.5 * (1 + math.erf(z / math.sqrt(2))) for z in standard.tolist()]
    assert values[0] == pytest.approx(exact, abs=1e-8)
    assert (np.diff(values[0]) >= 0).all()
    far = _normal_ranks(np.array([[0.0] * 400 + [1.0]]))
    assert far[0, -1] == 1.0


def test_equal_similarities_have_no_rank_in_weicom() -> None:
    flat = np.full((1, 4), 0.3, dtype=np.float32)
    varied = np.array([[0.1, 0.4, 0.2, 0.3]], dtype=np.float32)
    scores = fuse_similarities("weicom", flat, varied)
    assert (scores.argsort(axis=1) == varied.argsort(axis=1)).all()
    assert fuse_similarities("weicom", flat, flat).tolist() == [[0.5] * 4]


def test_contrastive_directions_leave_out_what_negative_texts_vary_in() -> None:
    rng = np.random.default_rng(0)
    positive, negative = rng.normal(size=(200, 4)) * [3, 2, 1, 0.1], rng.normal(size=(200, 4))
    negative *= [0, 20, 0, 0]
    gallery = unit(rng, 10, 4)
    statistics = basic_statistics(gallery, positive, negative)
    weight = (statistics.components**2).sum(axis=1)
    assert weight[0] == pytest.approx(1, abs=0.05)
    assert weight[1] == pytest.approx(0, abs=0.05)
    # Orthonormal directions; without negative texts they are the plain principal components.
    gram = statistics.components.T @ statistics.components
    assert gram == pytest.approx(np.eye(len(gram)), abs=1e-5)
    plain = basic_statistics(gallery, positive, negative, contrast=0.0, components=2).components
    assert np.abs(plain).argmax(axis=0).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("nearest", {}, "no fusion"),
        ("sum", {"text": None}, "text"),
        ("sum", {"text": np.ones((2, 6))}, "shape"),
        ("sum", {"image": np.full((3, 6), np.nan)}, "finite"),
        ("sum", {"scale": -1.0}, "λ"),
        ("sum", {"scale": math.inf}, "λ"),
        ("weicom", {"scale": 1.5}, "from 0 to 1"),
        ("product", {"scale": 1.0}, "no λ"),
        ("basic", {"statistics": None}, "statistics"),
        ("image", {"image": np.ones((3, 5))}, "fit"),
    ],
)
def test_bad_queries_are_refused(name: str, change: dict[str, Any], words: str) -> None:
    vectors, given = draw(0, 5, 3)
    with pytest.raises(InputError, match=words):
        fuse(name, vectors, **{**given, **change})


def test_an_empty_gallery_and_too_few_texts_are_refused() -> None:
    vectors, given = draw(0, 5, 3)
    with pytest.raises(InputError, match="no image"):
        fuse("image", np.zeros((0, 6)), image=given["image"])
    with pytest.raises(InputError, match="two"):
        basic_statistics(vectors, vectors, vectors[:1])
