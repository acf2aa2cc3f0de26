"""Galleries, re-ranking, and images with several vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from contrapose.data import Example, Gallery, ImageRef, registry
from contrapose.data.examples import single_match
from contrapose.engine import (
    AnswerStore,
    ScoringContext,
    embeddings,
    galleries,
    score_edits,
    score_examples,
    score_gallery,
)
from contrapose.engine import galleries as grids_module
from contrapose.engine.galleries import select_nearest
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from tests.fakes import Fake, choices, edits, gallery, pairs, patches, seen, vector
from tests.models.hf import test_blip2
from tests.models.hf.small_fusion import CAPTIONS, bert_tokenizer, hf, opened, picture, saved


@given(
    st.integers(1, 6), st.integers(1, 6), st.integers(1, 8), st.sampled_from([0, 1]),
    st.integers(0, 1000),
)  # fmt: skip
def test_nearest_candidates_and_ties(rows: int, columns: int, k: int, axis: int, seed: int) -> None:
    scores = np.random.default_rng(seed).integers(0, 4, (rows, columns)) / 4
    chosen = select_nearest(scores, k, axis)
    lines = zip(scores, chosen, strict=True) if axis == 1 else zip(scores.T, chosen.T, strict=True)
    for line, picked in lines:
        best = sorted(range(len(line)), key=lambda i: (-line[i], i))[:k]
        assert np.flatnonzero(picked).tolist() == sorted(best)


@pytest.mark.parametrize("score", ["itm", "lm"])
@pytest.mark.parametrize("k", [1, 3, 11])
def test_reranking_as_albef(score: str, k: int) -> None:
    data = gallery()
    itc = score_gallery(ScoringContext(Fake()), "itc", data).scores
    full = score_gallery(ScoringContext(Fake()), score, data, rerank=0).scores
    model = Fake()
    grid = score_gallery(ScoringContext(model), score, data, rerank=k)
    assert grid.rerank == k
    assert grid.scored is not None
    assert len(model.pairs) == grid.scored.sum() < 144 or k == 11
    assert grid.from_text is not None
    for result, itc_, whole_ in (
        (grid.scores, itc, full),
        (grid.from_text.T, itc.T, full.T),
    ):
        for line, near, right in zip(result, itc_, whole_, strict=True):
            best = sorted(range(12), key=lambda i: -near[i])
            expected = sorted(best[:k], key=lambda i: -right[i]) + best[k:]
            assert sorted(range(12), key=lambda i: -line[i]) == expected
            assert line[best[:k]].tolist() == right[best[:k]].tolist()
    assert f"{score} orders the {k} of highest itc" in grid.notes[0]


def test_when_galleries_are_reranked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Only:
        """A matcher without vectors."""

        name, fingerprint, batch_size = "only", "only-1", 4

        def __init__(self) -> None:
            self.match = Fake().match

    data = gallery()
    assert score_gallery(ScoringContext(Fake()), "itm", data).rerank == 0
    assert score_gallery(ScoringContext(Fake()), "itm", data, rerank=100).rerank == 0
    monkeypatch.setattr(grids_module, "SMALL_GALLERY", 100)
    monkeypatch.setattr(grids_module, "DEFAULT_RERANK", 5)
    assert score_gallery(ScoringContext(Fake()), "itm", data).rerank == 5
    assert score_gallery(ScoringContext(Fake()), "itm", data, rerank=0).rerank == 0
    assert score_gallery(ScoringContext(Only()), "itm", data).rerank == 0
    with pytest.raises(InputError, match=r"nearest by itc, .*does not give"):
        score_gallery(ScoringContext(Only()), "itm", data, rerank=5)


def test_classes_are_ranked_for_images_alone() -> None:
    from dataclasses import replace

    data = replace(gallery(), templates=("{}", "see {}"))
    model = Fake()
    grid = score_gallery(ScoringContext(model), "itm", data, rerank=2)
    assert grid.from_text is None
    assert grid.scored is not None
    assert grid.scored.sum(axis=1).tolist() == [2] * 12
    assert len(model.pairs) == 12 * 2 * 2


QUERIES = 3


@dataclass
class Several(Fake):
    """Sees an image three times over."""

    name: str = "several"
    fingerprint: str = "several-1"
    pool: str = "max"

    def embed_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        super().embed_images(images)
        return torch.tensor([queries(seen(image)) for image in images])


def queries(image: str) -> list[list[float]]:
    return [vector(f"{image} {q}") for q in range(QUERIES)]


def expected(image: str, text: str) -> float:
    """The score of one pair, written down a second time."""
    return max(float(np.dot(item, vector(text))) for item in queries(image))


def shown(ref: ImageRef) -> str:
    assert ref.source is not None
    return seen(type(ref.source).open_many([ref.source])[0])


@pytest.mark.parametrize("cells", [1, 40, 1 << 20])
def test_the_nearest_vector_counts(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(galleries, "MAX_CELLS", cells)
    for name in ("CACHED_CELLS", "HELD_CELLS"):
        monkeypatch.setattr(embeddings, name, cells)
    examples = [*pairs(), *choices()]
    result = score_examples(ScoringContext(Several()), "itc", examples).scores
    for k, example in enumerate(examples):
        for i, ref in enumerate(example.images):
            for j, text in enumerate(example.texts):
                assert result[k, i, j] == pytest.approx(expected(shown(ref), text), abs=1e-6)
    data = gallery()
    grid = score_gallery(ScoringContext(Several()), "itc", data).scores
    wanted = [[expected(shown(ref), text) for text in data.texts] for ref in data.images]
    np.testing.assert_allclose(grid, wanted, atol=1e-6)


def test_classes_average_the_captions_alone() -> None:
    data = gallery()
    classes = Gallery("c", data.images, ("cat", "dog"), ((0, 0),), ("a {}", "the {}"))
    grid = score_gallery(ScoringContext(Several()), "itc", classes).scores
    for i, ref in enumerate(classes.images):
        for j, name in enumerate(classes.texts):
            mean = np.add(vector(f"a {name}"), vector(f"the {name}"))
            item = [np.dot(q, mean / np.linalg.norm(mean)) for q in queries(shown(ref))]
            assert grid[i, j] == pytest.approx(max(item), abs=1e-6)


def test_reranking_by_the_nearest_vector() -> None:
    data = gallery()
    grid = score_gallery(ScoringContext(Several()), "itm", data, rerank=2)
    itc = np.array([[expected(shown(ref), text) for text in data.texts] for ref in data.images])
    assert grid.scored is not None
    near = np.zeros(itc.shape, dtype=np.bool_)
    np.put_along_axis(near, np.argsort(-itc, axis=1)[:, :2], True, axis=1)
    np.put_along_axis(near, np.argsort(-itc, axis=0)[:2], True, axis=0)
    np.testing.assert_array_equal(grid.scored, near)


def test_pooled_vectors_have_their_own_store_key(tmp_path: Path) -> None:
    score_examples(ScoringContext(Several(), AnswerStore(tmp_path)), "itc", pairs())
    again = Several()
    score_examples(ScoringContext(again, AnswerStore(tmp_path)), "itc", pairs())
    assert not again.images
    shelves = sorted(item.name for item in (tmp_path / "answers" / "several-1").iterdir())
    assert [name.partition("-")[0] for name in shelves] == ["itc_max", "itc_max"]


def test_an_unreadable_image_is_skipped() -> None:
    lost = ImageRef("lost", Path("nowhere.png"))
    example = Example("e", (lost,), ("a", "b"), single_match(2, 0))
    answers = score_examples(ScoringContext(Several()), "itc", [example, *choices(2)])
    assert list(answers.skipped) == ["e"]
    alone = score_examples(ScoringContext(Several()), "itc", [example])
    assert np.isnan(alone.scores).all()


def test_edits_are_refused_and_the_suite_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"edit queries .*several"):
        score_edits(ScoringContext(Several()), "itc", edits())
    monkeypatch.setattr(registry, "_plugins", lambda: {"patches": patches()})
    (run,) = evaluate_models([Several()], EvalRequest(("patches",), ("itc",), resamples=100))
    assert any("with itc: edit queries" in note for note in run.results.notes)
    assert run.results.metrics


def test_invalid_poolings_and_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="pool 'mean'; 'max'"):
        score_examples(ScoringContext(Several(pool="mean")), "itc", pairs())
    flat = Fake()
    flat.pool = "max"  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"shape \(4, 6\) for 4 inputs"):
        score_examples(ScoringContext(flat), "itc", pairs())


def test_blip2_through_the_engine_is_the_librarys(tmp_path: Path) -> None:
    network = hf.Blip2ForImageTextRetrieval(test_blip2.config())
    folder = saved(tmp_path / "blip2", network, bert_tokenizer(), test_blip2.processor())
    images = [picture(50, 40, 0), picture(33, 70, 1), picture(28, 28, 2)]
    lines = []
    for i, image in enumerate(images):
        image.save(tmp_path / f"{i}.png")
        lines.append(f'{{"image": "{i}.png", "texts": {list(CAPTIONS)}, "right": {i}}}'
                     .replace("'", '"'))  # fmt: skip
    native = tmp_path / "own.jsonl"
    native.write_text("\n".join(lines))
    options = EvalRequest((str(native),), ("itc", "itm"), batch_size=2, device="cpu", resamples=100)
    itc, itm = evaluate_models([opened(folder)], options)
    assert itc.scores is not None
    assert itm.scores is not None
    k = 0
    for image in images:
        for text in CAPTIONS:
            cosine = test_blip2.direct(folder, image, text, itm=False)[0]
            assert itc.scores["value"][k] == pytest.approx(float(cosine), abs=1e-4)
            logits = test_blip2.direct(folder, image, text, itm=True)
            assert itm.scores["value"][k] == pytest.approx(float(logits[1] - logits[0]), abs=1e-4)
            k += 1
    assert k == len(itc.scores["value"])
