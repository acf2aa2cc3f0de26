"""Oracles of edit queries: models with itm, vqa or itc, and files of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from contrapose.data import EditSet, in_memory_benchmark
from contrapose.engine import ALL_EDIT_SCORES, ScoringContext, score_gallery
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.oracle import add_oracle
from contrapose.evaluation.parts import EvalRequest
from contrapose.evaluation.selection import Selection, select
from contrapose.models import QuestionTemplate
from contrapose.results import compare_runs, write_run
from contrapose.results.runs import read_runs
from tests.engine.test_edits import DATA
from tests.fakes import Fake, Tower, gallery, pairs


class Yes:
    """Answers questions alone."""

    name, fingerprint, batch_size = "yes", "yes-1", 4

    def answer_logprobs(
        self, images: Sequence[Image.Image], texts: Sequence[str], question: QuestionTemplate
    ) -> torch.Tensor:
        return torch.tensor([float(np.log(0.7 if "cat" in text else 0.3)) for text in texts])

    def noise_images(self, count: int, seed: int) -> list[Image.Image]:
        return []


def judged(model: object) -> EditSet:
    chosen = add_oracle(select(DATA), model, ScoringContext(Tower()))  # type: ignore[arg-type]
    data = chosen.parts[""][1]
    assert isinstance(data, EditSet)
    assert data.oracle is not None
    return data


def test_a_matcher_judges_by_its_probability() -> None:
    data = judged(Fake())
    grid = replace(gallery(), images=DATA.images, texts=DATA.captions, pairs=())
    logits = score_gallery(ScoringContext(Fake()), "itm", grid).scores
    assert data.oracle is not None
    np.testing.assert_allclose(data.oracle, 1 / (1 + np.exp(-logits)), rtol=1e-5)
    assert np.array_equal(data.fits(), logits > 0)
    chosen = add_oracle(select(DATA, limit=2), Fake(), ScoringContext(Tower()))
    few = chosen.parts[""][1]
    assert isinstance(few, EditSet)
    assert few.oracle is not None
    targets = {query.target_caption for query in few.queries}
    assert set(np.flatnonzero(~np.isnan(few.oracle).any(axis=0)).tolist()) == targets
    assert "itm" in data.judge


def test_a_dual_encoder_judges_by_a_softmax() -> None:
    data = judged(Tower())
    assert data.oracle is not None
    np.testing.assert_allclose(data.oracle.sum(axis=1), 1)
    assert "itc" in data.judge


def test_a_model_that_answers_judges_by_its_yes() -> None:
    data = judged(Yes())
    assert data.fits().tolist() == [["cat" in text for text in DATA.captions]] * len(DATA.images)
    assert "vqa" in data.judge


def test_the_oracle_decides_what_is_right(tmp_path: Path) -> None:
    probabilities = np.zeros((len(DATA.images), len(DATA.captions)))
    np.save(tmp_path / "none.npy", probabilities)
    np.save(tmp_path / "all.npy", probabilities + 1)
    values = {}
    for name in ("none", "all"):
        request = EvalRequest(
            (in_memory_benchmark(DATA),), ("itc:delta",), resamples=100,
            oracle=str(tmp_path / f"{name}.npy"),
        )  # fmt: skip
        (run,) = evaluate_models([Tower()], request)
        values[name] = run.results.metrics["simat_n1"].value
        assert any(f"{name}.npy" in note for note in run.results.notes)
    assert values == {"none": 0.0, "all": 1.0}


def test_every_score_of_edit_queries_is_a_run(tmp_path: Path) -> None:
    request = EvalRequest((in_memory_benchmark(DATA, "some"),), ("itc",), resamples=100)
    runs = evaluate_models([Tower()], request)
    assert [run.results.score for run in runs] == list(ALL_EDIT_SCORES)
    for run in runs:
        metrics = run.results.metrics
        assert list(metrics) == ["simat_n1", "simat_n5", "simat_n1_dev", "simat_n5_dev"]
        assert metrics["simat_n1"].n == metrics["simat_n1_dev"].n == 6
    chosen = runs[1].spec["edits"]["all"]
    values = dict(map(tuple, chosen["dev_scores"]))
    dev = runs[1].results.metrics["simat_n1_dev"].value
    assert values[chosen["scale"]] == max(values.values()) == pytest.approx(dev)
    write_run(runs, tmp_path / "run")
    saved = read_runs(tmp_path / "run")
    assert saved[1].spec["edits"] == runs[1].spec["edits"]
    compare_runs(saved[0], saved[5])
    tests = replace(DATA, queries=DATA.queries[1::2])
    names = [run.results.score for run in evaluate_models([Tower()], replace(
        request, benchmarks=(in_memory_benchmark(tests, "some"),)
    ))]  # fmt: skip
    assert names == [score for score in ALL_EDIT_SCORES if "dev" not in score]


def test_oracles_that_cannot_judge(tmp_path: Path) -> None:
    context = ScoringContext(Tower())

    class Mute:
        name, fingerprint, batch_size = "mute", "mute-1", 4

    chosen: Selection = select(DATA)
    with pytest.raises(InputError, match="mute cannot be the oracle"):
        add_oracle(chosen, Mute(), context)
    with pytest.raises(InputError, match="has none"):
        add_oracle(select(pairs()), Fake(), context)
    np.save(tmp_path / "small.npy", np.zeros((2, 2)))
    with pytest.raises(InputError, match="expected"):
        add_oracle(chosen, str(tmp_path / "small.npy"), context)
