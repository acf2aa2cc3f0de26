"""An audit flags what can be solved without looking, and only that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from contrapose.data import images
from contrapose.errors import InputError
from contrapose.evaluation.audit import AuditRequest, audit_benchmark
from contrapose.results.schema import WHOLE
from tests.evaluation.audit import benchmarks
from tests.models import small_language as small

FEW = 400
"""Resamples."""


@pytest.fixture(autouse=True)
def _no_image_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object) -> bytes:
        raise AssertionError("an image was opened")

    monkeypatch.setattr(images, "read_bytes", opened)


def test_a_set_whose_longer_caption_is_wrong_is_flagged(tmp_path: Path) -> None:
    file = str(benchmarks.longer_is_wrong(tmp_path / "longer.jsonl"))
    report = audit_benchmark(AuditRequest(file, resamples=FEW))
    whole = report.parts[0]
    assert whole.name == WHOLE
    assert "length (fewer words)" in whole.solved_by
    length = next(score for score in report.scores if score.score == "length")
    assert length.metrics["accuracy"].value == 1
    assert length.metrics["accuracy"].chance == 0.5
    assert length.reversed[WHOLE].value == 0
    assert report.verdict[0].startswith("A score that never looks solves 100.0 %")
    assert sum(length.spread.right) == sum(length.spread.wrong) == report.examples == 60


def test_a_balanced_set_is_not(tmp_path: Path) -> None:
    file = str(benchmarks.balanced(tmp_path / "balanced.jsonl"))
    report = audit_benchmark(AuditRequest(file, resamples=FEW))
    assert report.parts[0].solved_by == ()
    assert report.parts[0].reversed_by == ()
    assert report.verdict[0].startswith("No score here that never looks does better")
    length = next(score for score in report.scores if score.score == "length")
    assert length.metrics["accuracy"].value == 0  # all of one length: ties are never wins
    assert length.metrics["accuracy"].ties == 1


def test_what_is_solved_the_other_way_round_is_said(tmp_path: Path) -> None:
    file = tmp_path / "shorter.jsonl"
    benchmarks.longer_is_wrong(file)
    rows = [{**json.loads(line), "right": 1} for line in file.read_text().splitlines()]
    report = audit_benchmark(AuditRequest(str(benchmarks.write(file, rows)), resamples=FEW))
    assert "length (fewer words)" not in report.parts[0].solved_by
    assert "length (fewer words)" in report.parts[0].reversed_by


def test_two_by_two_sets_cannot_be_solved_blind(tmp_path: Path) -> None:
    file = str(benchmarks.winograd(tmp_path / "w.jsonl"))
    report = audit_benchmark(AuditRequest(file, lm="lm:no/such-model", resamples=FEW))
    assert report.scores == ()
    assert "a blind score cannot solve it" in report.verdict[0]


def test_a_language_model_and_a_captioners_prior(tmp_path: Path) -> None:
    file = str(benchmarks.balanced(tmp_path / "b.jsonl", 12))
    folder = small.gpt2(tmp_path / "lm")
    report = audit_benchmark(
        AuditRequest(file, models=("tiny",), lm=f"lm:{folder}", device="cpu", resamples=FEW)
    )
    assert [score.score for score in report.scores] == [
        "blind", "blind-sum", "prior", "ngram", "length",
    ]  # fmt: skip
    assert "3 noise images" in report.scores[2].meaning
    assert "caption after <|endoftext|>" in report.scores[0].meaning


def test_triples_have_their_own_metrics(shared: Path, tmp_path: Path) -> None:
    benchmarks.copy_first(shared / "hard_positives", tmp_path, 60)
    report = audit_benchmark(
        AuditRequest("hard-positives-replace", root=tmp_path, limit=40, resamples=FEW)
    )
    length = report.scores[-1]
    assert {"original_accuracy", "augmented_accuracy", "brittleness"} <= set(length.metrics)
    assert {"relations", "attributes"} <= set(length.subsets)
    assert report.parts[0].metric == "augmented_accuracy"
    assert report.parts[0].chance == pytest.approx(1 / 3)


def test_a_sample_is_of_each_subset_and_always_the_same(shared: Path, tmp_path: Path) -> None:
    benchmarks.copy_first(shared / "sugarcrepe", tmp_path, 100)
    request = AuditRequest("sugarcrepe", root=tmp_path, sample=20, resamples=FEW)
    report = audit_benchmark(request)
    assert report.examples == 7 * 20
    assert {part.n for part in report.parts[1:]} == {20}
    assert set(report.scores[0].metrics) == {"accuracy"}  # of equal subsets, one mean
    assert audit_benchmark(request) == report
    first = audit_benchmark(replace(request, sample=None, limit=20))
    assert first.scores != report.scores


def test_a_suite_is_audited_part_by_part() -> None:
    parts = ("replace-color", "swap-relation", "gallery")
    report = audit_benchmark(AuditRequest("scenes", subsets=parts, limit=12, resamples=FEW))
    assert report.scores
    assert {part.name for part in report.parts} >= {WHOLE, *parts[:2]}
    assert report.parts[0].metric == "average"
    assert any("is not audited" in note for note in report.notes)


def test_real_likelihoods_that_win_by_prior_alone_are_named(shared: Path) -> None:
    """ClipCap counts no better than words that come back often do."""
    report = audit_benchmark(
        AuditRequest(
            "valse",
            root=shared / "valse",
            likelihoods=shared / "valse" / "scores" / "clipcap_coco.jsonl",
            resamples=FEW,
        )
    )
    found = {part.part: part for part in report.likelihoods}
    assert found["foil-it"].likelihood.value == pytest.approx(0.971, abs=0.001)
    assert found["counting-hard"].verdict == "won by prior alone"
    assert found["coreference-standard"].verdict == "not above chance"
    assert "plurality" not in found  # the same examples as plurals
    assert any("by prior alone on counting-hard" in sentence for sentence in report.verdict)
    for part in found.values():
        assert part.p_holm >= part.p


def test_likelihoods_of_some_examples(tmp_path: Path) -> None:
    file = benchmarks.longer_is_wrong(tmp_path / "longer.jsonl", 20)
    scores = tmp_path / "scores.jsonl"
    rows = [
        {"example": str(i), "text": j, "score": -float(j if i else 1 - j)}
        for i in range(10)
        for j in range(2)
    ]
    benchmarks.write(scores, rows)
    report = audit_benchmark(AuditRequest(str(file), likelihoods=scores, resamples=FEW))
    (part,) = [each for each in report.likelihoods if each.part == WHOLE]
    assert part.likelihood.n == 10
    assert part.likelihood.value == pytest.approx(0.9)
    assert part.blind.value == 1
    assert part.verdict == "won by prior alone"
    assert part.where_wrong is None
    assert "likelihoods are there for 10 of 20 examples" in report.notes


def lengths_right_in(path: Path, share: float, count: int = 200) -> Path:
    """A set whose shorter caption is right in a share of the examples."""
    rows = [
        {
            "id": str(i),
            "images": [f"{i}.png"],
            "texts": [text, f"{text} over there"],
            "right": int(i >= share * count),
        }
        for i, text in enumerate(benchmarks.captions(count))
    ]
    return benchmarks.write(path, rows)


@pytest.mark.parametrize(
    ("right", "verdict"), [(160, "beyond blind"), (124, "won by prior alone"), (100, "not above")]
)
def test_the_paired_test_decides_what_is_won_by_prior_alone(
    tmp_path: Path, right: int, verdict: str
) -> None:
    """Length is right in the first 120 of 200 examples, the likelihood in the first `right`.

    With 160 it is right in half of those that length has wrong, which were selected against it.
    """
    file = lengths_right_in(tmp_path / "some.jsonl", 0.6)
    scores = benchmarks.write(
        tmp_path / "scores.jsonl",
        [
            {"example": str(i), "text": j, "score": -float(j != int((i < 120) != (i < right)))}
            for i in range(200)
            for j in range(2)
        ],
    )
    report = audit_benchmark(AuditRequest(str(file), likelihoods=scores, resamples=FEW))
    (part,) = [part for part in report.likelihoods if part.part == WHOLE]
    assert part.by == "length (fewer words)"
    assert part.likelihood.value == pytest.approx(right / 200)
    assert part.verdict.startswith(verdict)
    assert part.where_wrong is not None
    assert part.where_wrong.value == pytest.approx(max(right - 120, 0) / 80)
    assert part.where_wrong.chance is None


def test_the_own_ngram_model_is_fitted_to_all_captions_whatever_is_selected(
    shared: Path, tmp_path: Path
) -> None:
    benchmarks.copy_first(shared / "sugarcrepe", tmp_path, 100)
    request = AuditRequest("sugarcrepe", root=tmp_path, resamples=FEW)
    every = _ngram_by_part(request)
    alone = _ngram_by_part(replace(request, subsets=("swap_obj",)))
    sampled = _ngram_by_part(replace(request, sample=10_000, subsets=("swap_obj", "add_obj")))
    assert alone["swap_obj"] == sampled["swap_obj"] == every["swap_obj"]
    assert sampled["add_obj"] == every["add_obj"]


def _ngram_by_part(request: AuditRequest) -> dict[str, float]:
    (score,) = [score for score in audit_benchmark(request).scores if score.score == "ngram"]
    return {name: values["accuracy"].value for name, values in score.subsets.items()}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"benchmark": "sugarcrep"}, "did you mean"),
        ({"models": ("tiny-clip",)}, "model.*tiny-clip cannot give 'prior'"),
        ({"lm": "tiny"}, "lm.*tiny cannot give 'blind'"),
        ({"lm": "lm:smolm"}, "there is no language model"),
        ({"ngram_corpus": Path("nowhere.txt")}, "cannot be read as a corpus"),
        ({"likelihoods": Path("nowhere.jsonl")}, "does not exist"),
        ({"limit": 0}, "limit"),
        ({"sample": 0}, "sample"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, change: dict[str, object], says: str) -> None:
    file = str(benchmarks.longer_is_wrong(tmp_path / "longer.jsonl", 6))
    arguments = {"benchmark": file, "device": "cpu", "resamples": FEW, **change}
    with pytest.raises(InputError, match=says):
        audit_benchmark(AuditRequest(**arguments))  # type: ignore[arg-type]


def test_a_language_model_that_was_not_asked_for_may_be_missing(tmp_path: Path) -> None:
    file = str(benchmarks.longer_is_wrong(tmp_path / "longer.jsonl", 6))
    report = audit_benchmark(
        AuditRequest(file, lm=f"lm:{tmp_path}", lm_needed=False, device="cpu", resamples=FEW)
    )
    assert [score.score for score in report.scores] == ["ngram", "length"]
    assert any("no language model was asked" in note for note in report.notes)
