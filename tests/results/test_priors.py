"""Priors taken out of `lm` and `vqa`, end to end: names, tables, notes, galleries, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from contrapose.data import registry
from contrapose.engine import (
    FolderImages,
    NoiseImages,
    OtherImages,
    ScoringContext,
    parse_shard,
    score_examples,
    score_gallery,
    score_priors,
    score_tokens,
)
from contrapose.engine.columns import ModelError
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.metrics import log_prior, recalls
from contrapose.models import QuestionTemplate
from contrapose.results import write_run
from contrapose.scores import build_frame
from tests.engine.models import Reader, Seeing
from tests.fakes import Fake, Tower, choices, gallery, made, pairs, patches


@pytest.fixture(autouse=True)
def _plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "patches": patches(),
        "plain": made("plain", "pairs", "2 × 2", pairs()),
        "foils": made("foils", "foil", "1 × 2", foils()),
        "rooms": made("rooms", "retrieval", "N × M", gallery()),
        "few": made("few", "retrieval", "N × M", gallery(5)),
        "one": made("one", "pairs", "2 × 2", pairs(1)),
    }
    monkeypatch.setattr(registry, "_plugins", lambda: found)


def foils() -> list:  # type: ignore[type-arg]
    from dataclasses import replace

    from contrapose.data.examples import single_match

    return [replace(e, texts=e.texts[:2], match=single_match(2, 0)) for e in choices()]


def request(*benchmarks: str, **options: object) -> EvalRequest:
    return EvalRequest(benchmarks, resamples=200, **options)  # type: ignore[arg-type]


def test_names_and_what_is_said_of_them() -> None:
    runs = evaluate_models([Seeing()], request("plain", scores=("lm", "vqa"), prior=NoiseImages(2)))
    assert [run.results.score for run in runs] == ["lm", "lm-alpha", "vqa", "vqa-alpha"]
    words = "2 noise images, seed 0, mean 0.5, standard deviation 2"
    lm, lm_alpha, vqa, vqa_alpha = runs
    assert lm.spec["stored_as"] == "lm:mean:caption+end"
    assert "prior" not in lm.spec
    assert lm_alpha.spec["prior"] == words
    assert lm_alpha.results.alpha is not None
    assert lm_alpha.results.alpha.prior == words
    assert any(words in note for note in vqa_alpha.results.notes)
    assert any("log P('Yes') after the question 'Does this" in n for n in vqa.results.notes)
    assert '"Yes"' in vqa.spec["stored_as"]


@pytest.mark.parametrize("score", ["lm", "vqa"])
@pytest.mark.parametrize("prior", [NoiseImages(2), OtherImages(4)])
def test_at_a_fixed_alpha(score: str, prior: NoiseImages | OtherImages) -> None:
    asked = request("plain", scores=(score,), prior=prior, alpha=0.5)
    _, run = evaluate_models([Seeing()], asked)
    context = ScoringContext(Seeing(), prior=prior)
    scores = score_examples(context, score, pairs()).scores
    log = score_priors(context, build_frame(pairs()), score, pairs())
    won = 0
    for s, p in zip(scores, log, strict=True):
        t = s - 0.5 * p
        won += bool(t[0, 0] > t[0, 1] and t[1, 1] > t[1, 0])
    assert run.results.metrics["text"].value == pytest.approx(won / 12)
    raw = evaluate_models([Seeing()], request("plain", scores=(score,)))[0].results
    assert run.results.metrics["image"].value == raw.metrics["image"].value
    report = run.results.alpha
    assert report is not None
    assert report.metrics["text"].raw == raw.metrics["text"].value
    assert run.scores is not None
    assert run.scores["prior"][:4] == pytest.approx(log[0, [0, 1, 0, 1]])
    assert run.scores["value"][:4] == pytest.approx(scores[0].reshape(-1))


def test_thresholds_of_a_yes() -> None:
    (run,) = evaluate_models([Seeing()], request("foils", scores=("vqa",)))
    scores = score_examples(ScoringContext(Seeing()), "vqa", foils()).scores
    assert run.results.metrics["p_c"].value == pytest.approx((np.exp(scores[:, 0, 0]) > 0.5).mean())
    _, debiased = evaluate_models(
        [Seeing()], request("foils", scores=("vqa",), prior=NoiseImages(2))
    )
    assert "p_c" not in debiased.results.metrics


def test_tokens_in_the_run_folder(tmp_path: Path) -> None:
    runs = evaluate_models(
        [Seeing()], request("patches", scores=("itm", "lm"), prior=NoiseImages(2), tokens=True)
    )
    write_run(runs, tmp_path / "run", beside=lambda: {"report.html": "page"})
    assert (tmp_path / "run" / "report.html").read_text() == "page"
    table = pq.read_table(tmp_path / "run" / "scores.parquet").to_pylist()
    lists, places = score_tokens(ScoringContext(Seeing()), "lm", pairs())
    counted = 0
    for row in table:
        assert (row["logprobs"] is not None) == (row["score"] == "lm")
        assert (row["prior"] is not None) == (row["score"] == "lm-alpha")
        if row["score"] == "lm" and row["example"].startswith("pairs/"):
            k = int(row["example"].removeprefix("pairs/p"))
            tokens = lists[places[k, row["image"], row["text"]]]
            assert row["logprobs"] == tokens.tolist()
            counted += 1
    assert counted == 48
    spec = json.loads((tmp_path / "run" / "spec.json").read_text())
    assert spec["runs"][2]["prior"].startswith("2 noise images")
    (plain,) = evaluate_models([Seeing()], request("plain", scores=("lm",)))
    assert plain.scores is not None
    assert "logprobs" not in plain.scores
    (read,) = evaluate_models([Reader()], request("plain", tokens=True))
    assert read.results.score == "blind"
    assert read.scores is not None
    assert len(read.scores["logprobs"]) == 48


@pytest.mark.parametrize("prior", [NoiseImages(2), OtherImages(), OtherImages(11)])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_galleries(prior: NoiseImages | OtherImages, alpha: float) -> None:
    raw, run = evaluate_models(
        [Seeing()], request("rooms", scores=("lm",), prior=prior, alpha=alpha)
    )
    data = gallery()
    context = ScoringContext(Seeing(), prior=prior)
    matrix = score_gallery(context, "lm", data).scores
    if isinstance(prior, NoiseImages):
        blank = Seeing().noise_images(2, 0)
        each = [[float(Seeing().token_logprobs([b], [t]).values.double().mean())
                 for t in data.texts] for b in blank]  # fmt: skip
        log = log_prior(each)
    else:
        rows = np.random.default_rng(0).permutation(12)[: prior.count]
        log = np.log(np.exp(matrix[rows]).mean(axis=0))
    expected = recalls(matrix - alpha * log, data.pairs)
    for k in (1, 5):
        name = f"image_to_text_r{k}"
        assert run.results.metrics[name].value == pytest.approx(expected[name].mean())
        name = f"text_to_image_r{k}"
        assert run.results.metrics[name].value == raw.results.metrics[name].value
    report = run.results.alpha
    assert report is not None
    assert report.chosen_by == "image_to_text_r1"
    if isinstance(prior, OtherImages):
        named = (
            "all 12 images of the gallery" if prior.count is None else "11 images of the gallery"
        )
        assert report.prior.startswith(named)
        assert any(named in note for note in run.results.notes)
    for at, value in report.curve[::10]:
        again = recalls(matrix - at * log, data.pairs, (1,))["image_to_text_r1"].mean()
        assert value == pytest.approx(again)
    grid = [
        recalls(matrix - at * log, data.pairs, (1,))["image_to_text_r1"].mean()
        for at in np.linspace(0, 1, 201)
    ]
    assert report.metrics["image_to_text_r1"].oracle >= max(grid) - 1e-12
    assert len(report.alphas) == 10


def test_galleries_that_are_refused() -> None:
    for name, options, message in (
        ("rooms", {"rerank": 3, "prior": NoiseImages(2)}, "leave out .*rerank"),
        ("few", {"prior": OtherImages()}, "needs 10 images, and gallery has 5"),
        ("rooms", {"prior": OtherImages(40)}, "needs 40 images"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_models([Seeing()], request(name, scores=("lm",), **options))


def test_refusals(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4), (1, 2, 3)).save(tmp_path / "a.png")
    for benchmark, options, message in (
        ("one", {"prior": OtherImages()}, "needs some images of other examples"),
        ("plain", {"prior": NoiseImages(2), "scores": ("itc",)}, "neither is asked"),
        ("plain", {"prior": FolderImages(tmp_path / "x")}, "is no folder of images"),
    ):
        asked = {"scores": ("lm",), **options}
        with pytest.raises(InputError, match=message):
            evaluate_models([Seeing()], request(benchmark, **asked))
    with pytest.raises(InputError, match="neither is asked"):
        evaluate_models([Tower()], request("plain", prior=NoiseImages(2)))
    runs = evaluate_models([Fake(), Tower()], request("plain", prior=NoiseImages(2)))
    assert [run.results.score for run in runs] == ["itc", "itm", "lm", "lm-alpha", "itc"]


def test_a_part_without_a_prior_is_named() -> None:
    asked = request("patches", scores=("lm",), prior=OtherImages(2))
    _, run = evaluate_models([Fake()], asked)
    assert list(run.results.part_alphas) == ["pairs"]
    assert any("choices has no lm-alpha: prior='gallery' needs 2" in n for n in run.results.notes)
    with pytest.raises(InputError, match="choices has no lm-alpha"):
        evaluate_models(
            [Fake()],
            request("patches", scores=("lm",), prior=OtherImages(), subsets=("choices",)),
        )


def test_the_question_is_part_of_the_request() -> None:
    question = QuestionTemplate("Is it {}?", "no")
    (run,) = evaluate_models([Seeing()], request("plain", scores=("vqa",), question=question))
    expected = score_examples(ScoringContext(Seeing(), question=question), "vqa", pairs()).scores
    assert run.scores is not None
    assert np.array_equal(run.scores["value"], expected.reshape(-1))


class Silent(Seeing):
    """A model that fails under noise."""

    def noise_images(self, count: int, seed: int) -> list[torch.Tensor]:
        raise ModelError("the model is gone.")


def test_a_fault_under_the_prior_ends_the_run_of_a_suite(tmp_path: Path) -> None:
    asked = request("patches", scores=("vqa",), prior=NoiseImages(2), cache=tmp_path)
    for shard in (None, parse_shard((1, 1))):
        with pytest.raises(ModelError, match="the model is gone"):
            evaluate_models([Silent()], replace(asked, shard=shard))
    with pytest.raises(InputError, match=r"prior of vqa: pairs\) are not in the cache"):
        evaluate_models([Silent()], replace(asked, cache_use="only"))
