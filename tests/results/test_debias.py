"""Taking out a prior: exact against a grid, never moving the image score, honest about α."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.data import find_single_benchmark
from contrapose.errors import InputError
from contrapose.results import MeasureInput, measure, summarize_headline
from contrapose.results.debias import remove_prior
from contrapose.scores import Answers, build_frame_from_card
from tests.conftest import Cli

SIZE = 200


def captioner(seed: int = 0, benchmark: str = "winoground") -> tuple[MeasureInput, np.ndarray]:
    """Likelihoods made of what the image says, 0.7 of a language prior, and noise."""
    rng = np.random.default_rng(seed)
    card = find_single_benchmark(benchmark).card
    match = np.asarray(card.match, dtype=float)
    prior = -rng.gamma(4, 2, size=(SIZE, match.shape[1])) - 1
    noise = rng.normal(size=(SIZE, *match.shape))
    lm = np.minimum(0.9 * match + 0.7 * prior[:, None, :] + 0.5 * noise - 4, -1e-3)
    frame = build_frame_from_card(card, [str(i) for i in range(SIZE)], {})
    return MeasureInput(Answers(frame, lm), card), prior


def plain_text_score(lm: np.ndarray, prior: np.ndarray, alpha: float) -> float:
    """Winoground's text score of lm − α·log P(T), example by example."""
    won = 0
    for scores, p in zip(lm, prior, strict=True):
        s = scores - alpha * p
        won += bool(s[0, 0] > s[0, 1] and s[1, 1] > s[1, 0])
    return won / len(lm)


def test_sweep_is_never_below_a_grid() -> None:
    question, prior = captioner()
    _, report = remove_prior(question, prior)
    text = report.metrics["text"]
    lm = question.answers.scores
    grid = [plain_text_score(lm, prior, alpha) for alpha in np.linspace(0, 1, 1001)]
    assert text.oracle >= max(grid)
    assert text.oracle == plain_text_score(lm, prior, report.oracle_alpha)
    assert text.raw == grid[0]
    assert text.pmi == grid[-1]
    assert 0.5 < report.oracle_alpha < 0.9
    assert text.oracle > text.raw + 0.2
    low, high = report.oracle_segment
    assert low < report.oracle_alpha < high
    for alpha, value in report.curve:
        assert value == pytest.approx(plain_text_score(lm, prior, alpha))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, "auto"])
def test_image_score_does_not_move(alpha: Any) -> None:
    question, prior = captioner()
    measured, report = remove_prior(question, prior, alpha=alpha)
    plain = measure(question)
    values, _ = summarize_headline(measured, question.card, resamples=100)
    expected, _ = summarize_headline(plain, question.card, resamples=100)
    assert values["image"].value == expected["image"].value
    images = measured.measures["image"]
    np.testing.assert_array_equal(images.values, plain.measures["image"].values)
    assert images.where.all()
    assert images.weights is None
    moved = report.metrics["image"]
    assert moved.raw == moved.pmi == moved.oracle == moved.cross_validated


def test_fixed_alpha_is_what_it_says() -> None:
    question, prior = captioner()
    measured, report = remove_prior(question, prior, alpha=0.6)
    text = measured.measures["text"].values.mean()
    assert text == plain_text_score(question.answers.scores, prior, 0.6)
    assert report.applied == 0.6


def test_cross_validated_lies_between_raw_and_oracle_and_says_its_spread() -> None:
    question, prior = captioner()
    measured, report = remove_prior(question, prior)
    text = report.metrics["text"]
    assert report.applied == "cross-validated"
    assert len(report.alphas) == 10
    assert text.raw < text.cross_validated <= text.oracle + 1e-9
    assert 0 < text.std < 0.1
    values, _ = summarize_headline(measured, question.card, resamples=100)
    assert values["text"].value == pytest.approx(text.cross_validated)
    again, _ = remove_prior(question, prior)
    assert np.array_equal(again.measures["text"].values, measured.measures["text"].values)


@pytest.mark.parametrize("benchmark", ["winoground", "sugarcrepe", "hard-positives-replace"])
def test_own_images_are_refused(benchmark: str) -> None:
    question, _ = captioner(benchmark=benchmark)
    own = np.log(np.exp(question.answers.scores).mean(axis=1))
    for prior in (own, own.round(4), own.round(2)):
        with pytest.raises(InputError, match="own images"):
            remove_prior(question, prior)


def test_hard_positives_and_foils() -> None:
    for benchmark, name in (
        ("hard-positives-replace", "augmented_accuracy"),
        ("valse", "pairwise_accuracy"),
        ("sugarcrepe", "accuracy"),
    ):
        question, prior = captioner(benchmark=benchmark)
        _, report = remove_prior(question, prior)
        assert report.chosen_by == name
        assert report.metrics[name].oracle >= report.metrics[name].raw
    question, prior = captioner(benchmark="cola")
    with pytest.raises(InputError, match="no choice among captions"):
        remove_prior(question, prior)


def test_command_line(cli: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    prior = -rng.gamma(4, 2, size=(400, 2)) - 1
    lm = 0.8 * prior[:, None, :] + np.eye(2) * 0.6 + rng.normal(0, 0.4, (400, 2, 2)) - 4
    np.save(tmp_path / "lm.npy", np.exp(lm))
    np.save(tmp_path / "prior.npy", prior)
    arguments = (
        "metrics", "winoground", "--scores", tmp_path / "lm.npy", "--prior", tmp_path / "prior.npy",
        "--likelihood-as", "probability", "--prior-as", "log",
    )  # fmt: skip
    found = {
        alpha: json.loads(cli(*arguments, "--alpha", alpha, "--json").out)
        for alpha in ("0", "1", "auto")
    }
    for alpha, column in (("0", "raw"), ("1", "pmi"), ("auto", "cross_validated")):
        values = found[alpha]["alpha"]["metrics"]["text"]
        assert found[alpha]["metrics"]["text"]["value"] == pytest.approx(values[column])
    said = cli(*arguments)
    assert "oracle (tuned on test)" in said.out
    assert "log-likelihood is never above 0" in cli(*arguments[:6]).refused()


@pytest.mark.parametrize("benchmark", ["winoground", "sugarcrepe"])
def test_ties_in_decimals_are_no_wins(benchmark: str) -> None:
    question, _ = captioner(benchmark=benchmark)
    rng = np.random.default_rng(1)
    images, captions = np.asarray(question.card.match).shape
    tenths = rng.integers(-60, -20, size=(SIZE, captions))
    lm = np.array([[[float(f"{(p - 3) / 10:.1f}") for p in row]] * images for row in tenths])
    prior = np.array([[float(f"{p / 10:.1f}") for p in row] for row in tenths])
    question = replace(question, scores=replace(question.answers, scores=lm))
    measured, report = remove_prior(question, prior, alpha=1.0)
    first = next(iter(measured.measures.values()))
    assert not first.values.any()
    assert first.ties is not None
    assert first.ties.all()
    assert report.curve[-1] == (1.0, 0.0)
