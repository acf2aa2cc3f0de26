"""Edit queries: delta vectors and the baselines of the SIMAT paper, by the score's name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from contrapose.data import EditQuery, EditSet, ImageRef, open_images
from contrapose.engine import ALL_EDIT_SCORES, ScoringContext, edit_vectors, score_edits
from contrapose.engine.score_names import (
    EDIT_SCORES,
    SCORES,
    EditScore,
    parse_edit_score,
    require_known_score,
)
from contrapose.errors import InputError
from contrapose.metrics.delta_scales import SCALES
from tests.engine.models import Reading
from tests.fakes import Fake, patch

COUNT = 12
WORDS = ("cat", "dog", "horse")
DATA = EditSet(
    images=tuple(patch(i) for i in range(COUNT)),
    captions=tuple(f"a {word} {place}" for word in WORDS for place in ("here", "there")),
    caption_of=tuple(i % 6 for i in range(COUNT)),
    queries=tuple(
        EditQuery(
            f"q{i}", i, WORDS[i % 6 // 2], WORDS[(i % 6 // 2 + 1) % 3], i % 6, (i % 6 + 2) % 6,
            1.0 + i, {"split": "test" if i % 2 else "dev"},
        )
        for i in range(COUNT)
    ),
)  # fmt: skip
Vector = NDArray[np.float64]


def unit(values: Vector) -> Vector:
    return np.asarray(values / np.linalg.norm(values, axis=-1, keepdims=True))


def embed(texts: tuple[str, ...]) -> Vector:
    return unit(np.asarray(Fake().embed_texts(list(texts)), dtype=np.float64))


IMAGES = unit(np.asarray(Fake().embed_images(open_images(DATA.images)), dtype=np.float64))


def slow_query(score: str, query: EditQuery, scale: float) -> Vector:
    """Query vector of one edit query, written down a second time."""
    captions = embed(DATA.captions)
    source, target = embed((query.source, query.target))
    image, delta = IMAGES[query.image], target - source
    if score == "itc:sentence":
        words = query.source, query.target
        pairs = {
            (q.caption, q.target_caption)
            for q in DATA.queries
            if (q.source, q.target) == words
        }  # fmt: skip
        delta = np.mean([captions[b] - captions[a] for a, b in pairs], axis=0)
    start = {
        "itc:caption": captions[int(np.argmax(captions @ image))],
        "itc:text": captions[query.target_caption],
        "itc:text-delta": captions[query.caption],
    }.get(score, image)
    if score in ("itc:text", "itc:image"):
        return np.asarray(start, dtype=np.float64)
    return unit(np.asarray(start + scale * delta, dtype=np.float64))


@pytest.mark.parametrize("score", [name for name in EDIT_SCORES if name != "itc:random"])
def test_every_score_is_a_query_vector(score: str) -> None:
    gallery = embed(DATA.captions) if score == "itc:text-delta" else IMAGES
    for name, scale in ((score, 1.0), (f"{score}:scale=0.4", 0.4)):
        if scale != 1 and score in ("itc:text", "itc:image"):
            continue
        scored = score_edits(ScoringContext(Fake()), name, DATA)
        expected = [gallery @ slow_query(score, query, scale) for query in DATA.queries]
        np.testing.assert_allclose(scored.matrix.scores, expected, atol=1e-5)
        assert scored.scale == (None if score in ("itc:text", "itc:image") else scale)


def test_captions_are_their_own_database() -> None:
    scored = score_edits(ScoringContext(Fake()), "itc:text-delta", DATA)
    assert len(scored.data.images) == len(DATA.captions)
    assert np.array_equal(scored.data.fits(), np.eye(6))
    assert [query.image for query in scored.data.queries] == [q.caption for q in DATA.queries]


def test_a_random_order_asks_the_model_nothing_about_texts() -> None:
    model = Fake()
    first = score_edits(ScoringContext(model), "itc:random", DATA).matrix.scores
    assert not model.texts
    again = score_edits(ScoringContext(Fake()), "itc:random", DATA).matrix.scores
    assert np.array_equal(first, again)
    assert len(np.unique(first)) == first.size


def test_the_scale_is_chosen_on_dev_queries_alone() -> None:
    scored = score_edits(ScoringContext(Fake()), "itc:delta:scale=dev", DATA)
    assert [scale for scale, _ in scored.curve] == list(SCALES)
    fits = DATA.fits()
    for scale, value in scored.curve[::17]:
        right = total = 0.0
        for query in DATA.queries[::2]:
            scores = IMAGES @ slow_query("itc:delta", query, scale)
            scores[query.image] = -np.inf
            right += query.weight * fits[int(np.argmax(scores)), query.target_caption]
            total += query.weight
        assert value == pytest.approx(right / total)
    values = dict(scored.curve)
    assert scored.scale is not None
    assert values[scored.scale] == max(values.values())
    turned = replace(DATA, queries=tuple(
        replace(q, target_caption=q.caption) if q.tags["split"] == "test" else q
        for q in DATA.queries
    ))  # fmt: skip
    again = score_edits(ScoringContext(Fake()), "itc:delta:scale=dev", turned)
    assert (again.scale, again.curve) == (scored.scale, scored.curve)
    assert f"λ = {scored.scale:g}" in scored.matrix.notes[0]
    tests = replace(DATA, queries=DATA.queries[1::2])
    with pytest.raises(InputError, match="dev queries"):
        score_edits(ScoringContext(Fake()), "itc:delta:scale=dev", tests)


def test_missing_images_and_captions(tmp_path: Path) -> None:
    lost = (*DATA.images[:3], ImageRef("lost", tmp_path / "lost.png"), *DATA.images[4:])
    data = replace(DATA, images=lost)
    for score in ALL_EDIT_SCORES:
        matrix = score_edits(ScoringContext(Fake()), score, data).matrix
        assert list(matrix.skipped_rows) == ([] if score == "itc:text-delta" else [3])
        kept = np.delete(matrix.scores, [*matrix.skipped_rows], axis=0)
        assert np.isfinite(np.delete(kept, [*matrix.skipped_columns], axis=1)).all()
    with pytest.raises(InputError, match="cannot be asked"):
        edit_vectors(ScoringContext(Fake()), data)
    unread = replace(DATA, captions=("a caption of far too many words", *DATA.captions[1:]))
    for score in ("itc:text", "itc:sentence", "itc:text-delta"):
        rows = score_edits(ScoringContext(Reading()), score, unread).matrix.skipped_rows
        assert {q for q, query in enumerate(DATA.queries) if query.target_caption == 0} <= set(rows)
    assert not score_edits(ScoringContext(Reading()), "itc:caption", unread).matrix.skipped_rows


def test_names_of_scores() -> None:
    assert parse_edit_score("itc") == EditScore("itc:delta")
    assert parse_edit_score("itc:sentence:scale=1.5") == EditScore("itc:sentence", 1.5)
    assert parse_edit_score("itc:delta:scale=dev") == EditScore("itc:delta", dev=True)
    assert set(EDIT_SCORES) <= set(SCORES)
    for score, why in (
        ("itc:text:scale=2", "has no λ"),
        ("itc:delta:scale=-1", "at least 0"),
        ("itc:delta:scale=x", "must be a number"),
        ("itc:detla", "itc:delta"),
    ):
        with pytest.raises(InputError, match=why):
            require_known_score(score)
