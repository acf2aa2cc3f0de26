"""Composed queries: fusions by the score's name, galleries in blocks, missing images and texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from contrapose.data import ComposedQuery, ComposedSet, ImageRef, open_images
from contrapose.engine import ScoringContext, score_composed
from contrapose.engine.score_names import FUSION_SCORES, describe_fusion, require_known_score
from contrapose.errors import InputError
from contrapose.scores import rankings as rankings_module
from contrapose.scores.rankings import ComposedRankings
from tests.engine.models import Reading
from tests.fakes import Fake, patch

COUNT = 14
IMAGES = tuple(patch(i) for i in range(COUNT))
DATA = ComposedSet(
    images=IMAGES,
    galleries=(tuple(range(9)), tuple(range(5, COUNT))),
    queries=tuple(
        ComposedQuery(
            f"q{q}",
            q,
            (f"text {q}", f"{q} text") if q % 3 == 0 else (f"text {q}",),
            ((q + 3) % 9 if q < 6 else 5 + (q + 1) % 9,),
            gallery=int(q >= 6),
            subset=(5, 6, 7, 8),
        )
        for q in range(10)
    ),
    recall_at=(1, 5),
    subset_recall_at=(1,),
)


def unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(values / np.linalg.norm(values))


def slow_values(score: str, query: ComposedQuery, scale: float = 1.0) -> dict[int, float]:
    """Score of each image of a query's gallery but its own, one image at a time."""
    model = Fake()
    vectors = [unit(v) for v in np.asarray(model.embed_images(open_images(IMAGES)), dtype=float)]
    words = [unit(v) for v in np.asarray(model.embed_texts(list(query.texts)), dtype=float)]
    image, text = vectors[query.image], unit(np.mean(words, axis=0))
    query_vector = {"itc:text": text, "itc:image": image, "itc:sum": unit(image + scale * text)}

    def value(vector: NDArray[np.float64]) -> float:
        if score == "itc:product":
            return max(0.0, float(vector @ image)) * max(0.0, float(vector @ text))
        return float(vector @ query_vector[score])

    return {i: value(vectors[i]) for i in DATA.galleries[query.gallery] if i != query.image}


def slow_order(score: str, query: ComposedQuery, scale: float) -> list[int]:
    """Ranking of one query."""
    values = slow_values(score, query, scale)
    return sorted(values, key=lambda i: -values[i])


def test_the_values_of_a_product() -> None:
    rankings, _ = score_composed(ScoringContext(Fake()), "itc:product", DATA)
    assert rankings.gallery is not None
    for query, row in zip(DATA.queries, rankings.gallery.values, strict=True):
        expected = sorted(slow_values("itc:product", query).values(), reverse=True)
        assert row[~np.isnan(row)] == pytest.approx(expected, abs=1e-6)


def lists(rankings: ComposedRankings) -> list[list[int]]:
    assert rankings.gallery is not None
    return [[i for i in row if i >= 0] for row in rankings.gallery.positions.tolist()]


@pytest.mark.parametrize(
    ("score", "scale"),
    [("itc:text", 1), ("itc:image", 1), ("itc:sum", 1), ("itc:sum:scale=0.25", 0.25)],
)
def test_a_ranking_is_that_of_a_slow_loop(score: str, scale: float) -> None:
    rankings, skipped = score_composed(ScoringContext(Fake()), score, DATA)
    assert not skipped
    assert "the vectors of a query's texts are averaged" in rankings.notes
    expected = [slow_order(score.partition(":scale")[0], query, scale) for query in DATA.queries]
    assert lists(rankings) == expected
    assert rankings.subset is not None
    for query, order, row in zip(
        DATA.queries, expected, rankings.subset.positions.tolist(), strict=True
    ):
        assert [i for i in row if i >= 0] == [i for i in order if i in query.subset]


@pytest.mark.parametrize("score", FUSION_SCORES)
def test_blocks_change_nothing(score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_run, _ = score_composed(ScoringContext(Fake()), score, DATA)
    monkeypatch.setattr(rankings_module, "BLOCK", 10)
    blocks, _ = score_composed(ScoringContext(Fake()), score, DATA)
    assert lists(blocks) == lists(whole_run)


def test_the_reference_may_stay() -> None:
    rankings, _ = score_composed(
        ScoringContext(Fake()), "itc:image", replace(DATA, keep_reference=True)
    )
    assert [row[0] for row in lists(rankings)[:6]] == [query.image for query in DATA.queries[:6]]


def test_a_query_without_text_is_its_image() -> None:
    bare = replace(DATA, queries=tuple(replace(query, texts=()) for query in DATA.queries))
    by_sum, _ = score_composed(ScoringContext(Fake()), "itc:sum", bare)
    by_image, _ = score_composed(ScoringContext(Fake()), "itc:image", DATA)
    assert lists(by_sum) == lists(by_image)


def test_missing_images_leave_galleries_and_queries(tmp_path: Path) -> None:
    images = list(IMAGES)
    images[3] = ImageRef("gone", tmp_path / "gone.png")
    data = replace(DATA, images=tuple(images))
    rankings, skipped = score_composed(ScoringContext(Fake()), "itc:sum", data)
    assert set(skipped) == {"q0", "q3"}  # its only target, and its own image
    assert all(3 not in row for row in lists(rankings))
    assert rankings.data.galleries[0] == (0, 1, 2, 4, 5, 6, 7, 8)
    assert any("1 of 14 images cannot be read" in note for note in rankings.notes)


def test_a_right_image_may_be_missing_beside_others(tmp_path: Path) -> None:
    images = list(IMAGES)
    images[3] = ImageRef("gone", tmp_path / "gone.png")
    first = replace(DATA.queries[0], relevant=(3, 4))
    data = replace(DATA, images=tuple(images), queries=(first, *DATA.queries[1:]))
    rankings, skipped = score_composed(ScoringContext(Fake()), "itc:sum", data)
    assert set(skipped) == {"q3"}
    assert rankings.data.queries[0].relevant == (4,)
    assert any("from 1 queries" in note for note in rankings.notes)


def test_a_text_that_is_too_long_is_skipped() -> None:
    long = replace(DATA.queries[1], texts=("one two three four five six seven",))
    data = replace(DATA, queries=(DATA.queries[0], long))
    rankings, skipped = score_composed(ScoringContext(Reading()), "itc:sum", data)
    assert set(skipped) == {"q1"}
    assert len(rankings.data.queries) == 1


@pytest.mark.parametrize(
    ("score", "words"),
    [
        ("itc:sun", "itc:sum"),
        ("itc:sum:scale=much", "number"),
        ("itc:weicom:scale=2", "from 0 to 1"),
        ("itc:product:scale=1", "no λ"),
        ("itm:scale=1", "fusion"),
    ],
)
def test_unknown_fusions_are_refused(score: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        require_known_score(score)


def test_a_plain_score_names_no_fusion() -> None:
    with pytest.raises(InputError, match="need a fusion"):
        score_composed(ScoringContext(Fake()), "itc", DATA)
    assert describe_fusion("itc:sum:scale=0.5").endswith("λ = 0.5")
    assert "λ =" not in describe_fusion("itc:text")
