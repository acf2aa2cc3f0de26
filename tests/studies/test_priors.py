"""The study of priors: exact odds, evidence, scores, α in tempered worlds, and that it runs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from contrapose.models.tiny.network import PAD, TinyNetwork
from contrapose.world.captions import Caption, Mention
from studies import priors
from studies.priors_analysis import (
    GRID,
    Margins,
    best_log_loss_alpha,
    best_on_grid,
    untestable,
)
from studies.priors_captioners import SMALL_CONFIG, log_likelihoods, make_noise, seeded, weaken
from studies.priors_scores import ALPHAS, gallery_ranks, log_mean_exp, prior_odds
from studies.priors_tests import (
    HELD_OUT,
    Part,
    draw_gallery,
    draw_pairs,
    log_odds,
)


def test_exact_odds_are_the_worlds() -> None:
    red, cyan = (Caption("one", (Mention(0, "cube", color),)) for color in ("red", "cyan"))
    skewed, balanced = log_odds(red, cyan)
    # Colors fall by 0.75 each, and cyan is the fifth; "cyan" is said in three cases of four.
    assert skewed == pytest.approx(-4 * math.log(0.75) - math.log(0.75))
    assert balanced == pytest.approx(-math.log(0.75))
    favorite = Caption("one", (Mention(0, "cube", "blue"),))
    assert log_odds(favorite, red)[0] > 0.5
    assert log_odds(favorite, red)[1] == pytest.approx(0)
    never = Caption("one", (Mention(0, "cube", "purple"),))
    assert log_odds(never, red)[0] == -math.inf


def test_examples_have_two_equally_long_captions_and_own_seeds() -> None:
    part = Part("swap-attribute", "balanced", 6)
    tests, again, other = (draw_pairs(part, seed) for seed in (3, 3, 4))
    assert tests.tokens.shape[:2] == (6, 2)
    assert all(len(pair) == 2 for pair in tests.scenes)
    lengths = (tests.tokens != PAD).sum(axis=2)
    np.testing.assert_array_equal(lengths[:, 0], lengths[:, 1])
    assert tests.scenes == again.scenes != other.scenes
    np.testing.assert_array_equal(tests.tokens, again.tokens)
    assert np.isnan(draw_pairs(Part(HELD_OUT, "balanced", 2), 3).exact).all()


def test_captions_of_a_gallery_differ() -> None:
    gallery = draw_gallery(12, 5)
    assert len({tuple(row) for row in gallery.tokens.tolist()}) == 12
    assert len(set((gallery.tokens != PAD).sum(axis=1))) == 1


def test_evidence_is_pale_and_noisy() -> None:
    images = torch.zeros(2, 12, 12, 3, dtype=torch.uint8)
    images[..., 0] = 255
    pixels = weaken(images, torch.tensor([1.0, 0.0]), seeded(0, "cpu"))
    assert pixels.shape == (2, 3, 24, 24)
    red, gray = pixels.mean(dim=(2, 3))
    assert float(red[0] - red[1]) == pytest.approx(2, abs=0.05)
    assert gray.std() < 0.03
    assert float(pixels[1].std()) == pytest.approx(0.10, abs=0.02)
    noise = make_noise(4, pixels, seeded(1, "cpu"))
    assert float(noise.mean()) == pytest.approx(float(pixels.mean()), abs=0.1)
    assert float(noise.std()) == pytest.approx(float(pixels.std()), abs=0.1)


def test_blocks_of_captions_score_as_single_ones() -> None:
    torch.manual_seed(0)
    network = TinyNetwork(SMALL_CONFIG).eval()
    pixels = torch.randn(3, 3, 24, 24)
    tokens = torch.randint(260, 300, (3, 2, 9))
    tokens[:, :, 0] = 1
    tokens[1, 1, 6:] = PAD
    scores = log_likelihoods(network, pixels, tokens)
    fusion = network.fusion
    assert fusion is not None
    with torch.no_grad():
        states = network.image(pixels)
        for i in range(3):
            for c in range(2):
                row = tokens[i, c][tokens[i, c] != PAD][None]
                logs = fusion.logits(row, states[i : i + 1]).log_softmax(dim=-1)
                expected = logs[0, :-1].gather(1, row[0, 1:, None]).sum()
                assert scores[i, c] == pytest.approx(float(expected), abs=1e-3)
    shared = log_likelihoods(network, pixels, tokens[:1])
    np.testing.assert_allclose(shared[0], scores[0], atol=1e-3)


def test_priors_are_means_of_probabilities() -> None:
    values = np.log(np.array([[[0.2, 0.1]], [[0.4, 0.1]]]))
    np.testing.assert_allclose(np.exp(log_mean_exp(values)), [[0.3, 0.1]])
    per_token, joint = prior_odds(values, np.array([2]))[0]
    assert joint == pytest.approx(math.log(3), abs=1e-2)
    roots = (math.sqrt(0.2) + math.sqrt(0.4)) / 2
    assert per_token == pytest.approx(2 * math.log(roots / math.sqrt(0.1)), abs=1e-2)


def test_ranks_in_blocks_of_a_gallery() -> None:
    scores = np.array([[3.0, 2.0, 9.0, 9.0], [3.0, 2.0, 9.0, 9.0], [0.0, 0.0, 1.0, 1.0]])
    ranks = gallery_ranks(scores, np.array([2.0, 0.0, 0.0, 0.0]), 2)
    at = [ALPHAS.index(alpha) for alpha in (0.0, 1.0)]
    np.testing.assert_array_equal(ranks[:, at], [[0, 1], [1, 0], [1, 1]])


def bayes_margins(rng: np.random.Generator, size: int, evidence: float) -> Margins:
    """Margins of a captioner that reports the posterior of the training world exactly."""
    exact = rng.normal(0, 1.5, size)
    seen = rng.normal(evidence**2 / 2, evidence, (size, 2))
    margin = seen + exact[:, None] * np.array([1, -1])
    nothing = np.full(size, np.nan)
    return Margins(margin, exact, exact, np.zeros(size, np.uint8), nothing)


def test_equation_seven_holds_for_an_exact_captioner() -> None:
    margins = bayes_margins(np.random.default_rng(0), 10_000, 2.0)
    for a in (0.0, 0.5, 1.0):
        best = best_log_loss_alpha(margins.margin, margins.prior, margins.exact, a)
        assert best == pytest.approx(a, abs=0.05)
        assert best_on_grid(margins.curve(a)) == pytest.approx(a, abs=0.2)
    assert margins.right(1.0).mean() > margins.right(0.0).mean() + 0.02
    assert margins.curve()[int(np.abs(GRID - 1).argmin())] == pytest.approx(
        margins.right(1.0).mean()
    )
    chosen, alpha = margins.cross_validated()
    assert alpha > 0.7
    assert np.nanmean(chosen) == pytest.approx(margins.right(1.0).mean(), abs=0.01)


def test_a_test_without_room_is_not_testable() -> None:
    rng = np.random.default_rng(1)
    assert untestable([bayes_margins(rng, 500, 2.0) for _ in range(5)]) is None
    strong = untestable([bayes_margins(rng, 500, 9.0) for _ in range(5)])
    assert strong is not None
    assert "95 %" in strong
    flat = [bayes_margins(rng, 500, 1.0) for _ in range(5)]
    unrelated = [Margins(m.margin, rng.normal(0, 1, 500), m.exact, m.level, m.image) for m in flat]
    reason = untestable(unrelated)
    assert reason is not None
    assert "prior" in reason


def test_jobs_that_fail_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Process:
        def __init__(self, command: list[str]):
            self.status = int(command[-1] == "skewed:0")

        def poll(self) -> int:
            return self.status

    monkeypatch.setattr("studies.priors.subprocess.Popen", Process)
    monkeypatch.setattr("studies.priors.time.sleep", lambda _: None)
    assert priors.main(["run", "--keep", str(tmp_path), "--seeds", "2", "--jobs", "3"]) == 1
    said = capsys.readouterr().out
    assert said.count("done") == 5
    assert "failed: skewed:0;" in said
