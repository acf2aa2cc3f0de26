"""Analysis of the study of priors: accuracy as a function of α, from kept margins and priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose import metrics
from contrapose.metrics import AlphaIntervals
from studies.kept import Answer, KeptAnswers
from studies.priors_scores import ALPHAS
from studies.verdict import Effect, effect_of

FloatArray = NDArray[np.float64]

PER_TOKEN, JOINT = 0, 1
"""Forms of an estimated prior: per token as `lm` is computed, and of joint probabilities."""
PRIOR = "train:100"
"""Prior of all tables that name no other: 100 training images, per token."""
CEILING = 0.95
"""Raw accuracy above which a prior has nothing to decide."""
GRID = np.round(np.arange(-0.5, 1.5001, 0.05), 2)


@dataclass(frozen=True, eq=False)
class Margins:
    """Margins of the examples of one seed, with one prior.

    Attributes:
        margin: (n, m) log-likelihood of the right caption less that of the wrong one, by image.
        prior: (n,) log P(c0) − log P(c1); image i shows what caption i says.
        exact: (n,) the same in the skewed world, as its odds give it.
        level: (n,) index of the level of evidence.
        image: (n,) whether both captions prefer their image; nan for single images.
    """

    margin: FloatArray
    prior: FloatArray
    exact: FloatArray
    level: NDArray[np.uint8]
    image: FloatArray

    @cached_property
    def favor(self) -> FloatArray:
        """(n, m) how far the prior favors the right caption."""
        signs = np.array([1.0, -1.0])[: self.margin.shape[1]]
        return np.asarray(self.prior[:, None] * signs, np.float64)

    @cached_property
    def intervals(self) -> AlphaIntervals:
        """Intervals of α on which each image's caption is chosen, images after examples."""
        zeros = np.zeros(self.margin.size)
        lm = np.stack([self.margin.ravel(), zeros], axis=1)[:, None]
        prior = np.stack([self.favor.ravel(), zeros], axis=1)
        return metrics.text_intervals(lm, prior, [[True, False]])

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """Example of each image."""
        return np.repeat(np.arange(len(self.margin)), self.margin.shape[1])

    @cached_property
    def text(self) -> AlphaIntervals:
        """Intervals of α on which both captions of a 2 × 2 example are chosen."""
        zeros = np.zeros(len(self.prior))
        first, second = self.margin.T
        lm = np.stack([np.stack([first, zeros], 1), np.stack([zeros, second], 1)], axis=1)
        return metrics.text_intervals(lm, np.stack([self.prior, zeros], 1), np.eye(2, dtype=bool))

    def right(self, alpha: float) -> FloatArray:
        """(n,) share of each example's images whose caption is chosen at an α."""
        return np.asarray(self.images_right(alpha).mean(axis=1), np.float64)

    def images_right(self, alpha: float) -> FloatArray:
        """(n, m) whether each image's caption is chosen at an α."""
        return np.asarray(self.intervals.right_at(alpha), np.float64).reshape(self.margin.shape)

    def cross_validated(self) -> tuple[FloatArray, float]:
        """The same at an α that was chosen on the other half of the examples; and the mean α.

        An example that was in no half that was judged is nan.
        """
        halves = metrics.cross_validate(self.intervals, self.clusters)
        return self._by_example(halves.held_out.mean), float(halves.alphas.mean())

    def pair_right(self, alpha: float) -> FloatArray:
        """(n,) text score of 2 × 2 examples at an α."""
        return self.text.right_at(alpha).astype(np.float64)

    def pairs_cross_validated(self) -> FloatArray:
        """(n,) the same at an α that was chosen on the other half."""
        return np.asarray(metrics.cross_validate(self.text).held_out.mean, np.float64)

    def curve(self, a: float | None = None) -> FloatArray:
        """Accuracy on `GRID`; in the tempered world of exponent 1 − a where a is given."""
        weights = None if a is None else self.odds(a).ravel()
        swept = metrics.sweep(self.intervals.lower, self.intervals.upper, weights)
        return np.asarray(swept.points(GRID), np.float64)

    def odds(self, a: float) -> FloatArray:
        """(n, 2) share of each image in the world whose odds are P_train^(1 − a)."""
        first = 1 / (1 + np.exp(-(1 - a) * self.exact))
        return np.stack([first, 1 - first], axis=1)

    def _by_example(self, values: NDArray[Any]) -> FloatArray:
        return np.asarray(values.reshape(self.margin.shape).mean(axis=1), np.float64)


def join(parts: Sequence[Margins]) -> Margins:
    """Several parts of one seed as one."""
    return Margins(
        np.concatenate([part.margin for part in parts]),
        np.concatenate([part.prior for part in parts]),
        np.concatenate([part.exact for part in parts]),
        np.concatenate([part.level for part in parts]),
        np.concatenate([part.image for part in parts]),
    )


class StudyAnswers:
    """Kept answers of the study, by arm and part, a list over seeds each."""

    def __init__(self, kept: KeptAnswers):
        self.answers: dict[tuple[str, str], list[Answer]] = {}
        for key, answer in sorted(kept.items(), key=lambda item: int(item[0]["seed"])):
            self.answers.setdefault((key["arm"], key["part"]), []).append(answer)

    def get(self, arm: str, part: str) -> list[Answer]:
        """Answers of a part by seed."""
        return self.answers[arm, part]

    def margins(
        self, arm: str, names: Sequence[str], prior: str = PRIOR, form: int = PER_TOKEN
    ) -> list[Margins]:
        """Margins of each seed, several parts joined, with a prior that every example has."""
        by_part = [[_margins(a, prior, form) for a in self.get(arm, name)] for name in names]
        return [join(seeds) for seeds in zip(*by_part, strict=True)]

    def draws(self, names: Sequence[str], prior: str, form: int) -> list[list[Margins]]:
        """For each seed and draw the margins of the examples for which all priors are known."""
        seeds = []
        for answers in zip(*(self.get("skewed", name) for name in names), strict=True):
            count = answers[0][f"draws {prior}"].shape[1]
            seeds.append(
                [
                    join([_drawn_margins(answer, prior, form, draw) for answer in answers])
                    for draw in range(count)
                ]
            )
        return seeds


def _margins(answer: Answer, prior: str, form: int) -> Margins:
    exact = answer["exact"][:, 0].astype(np.float64)
    values = exact if prior == "exact" else answer[prior][:, form].astype(np.float64)
    size = len(exact)
    image = answer.get("image", np.full(size, np.nan)).astype(np.float64)
    level = answer["level"].astype(np.uint8)
    return Margins(answer["margin"].astype(np.float64), values, exact, level, image)


def _drawn_margins(answer: Answer, prior: str, form: int, draw: int) -> Margins:
    values = answer[f"draws {prior}"][:, draw, form].astype(np.float64)
    first = _margins(answer, "exact", PER_TOKEN)
    some = slice(0, len(values))
    return Margins(
        first.margin[some], values, first.exact[some], first.level[some], first.image[some]
    )


def best_log_loss_alpha(
    margin: FloatArray, prior: FloatArray, exact: FloatArray, a: float, steps: int = 12
) -> float:
    """The α of the least log loss in a tempered world, by Newton's method.

    Equation 7 says that log P(c | image) − α log P(c) are the log-odds of the test at α = a. The
    loss is convex in α.
    """
    first = 1 / (1 + np.exp(-(1 - a) * exact))
    alpha = 0.5
    for _ in range(steps):
        miss = 1 / (1 + np.exp(margin[:, 0] - alpha * prior))
        other = 1 / (1 + np.exp(margin[:, 1] + alpha * prior))
        slope = (prior * (first * miss - (1 - first) * other)).sum()
        bend = (prior**2 * (first * miss * (1 - miss) + (1 - first) * other * (1 - other))).sum()
        step = float(np.clip(slope / max(bend, 1e-9), -0.5, 0.5))
        alpha -= step
        if abs(step) < 1e-5:
            break
    return alpha


def best_on_grid(curve: FloatArray) -> float:
    """The α of `GRID` with the best accuracy; the mean of equals."""
    return float(GRID[curve == curve.max()].mean())


def prior_gap(margins: Sequence[Margins]) -> Effect:
    """Raw accuracy where the prior favors the right caption less where it favors the wrong one."""
    seeds = [(m.margin.ravel() > 0, m.favor.ravel() > 0) for m in margins]

    def gap(right: NDArray[np.bool_], favored: NDArray[np.bool_]) -> float:
        if favored.all() or not favored.any():
            return 0.0
        return float(right[favored].mean() - right[~favored].mean())

    return effect_of(seeds, gap, resamples=100)


def untestable(margins: Sequence[Margins]) -> str | None:
    """Reason why a prior cannot help or hurt here; None where it can."""
    raw = float(np.mean([m.right(0.0).mean() for m in margins]))
    if raw > CEILING:
        return f"raw is {100 * raw:.1f} %, above {100 * CEILING:.0f} %"
    if prior_gap(margins).interval[0] <= 0:
        return "raw does not differ by what the prior favors"
    return None


def hits(answers: Sequence[Answer], column: str, alpha: float, most: int = 1) -> list[FloatArray]:
    """Recall at `most` of each query of a gallery, by seed."""
    at = ALPHAS.index(alpha)
    return [
        (answer[column][:, at].astype(np.int64) < most).astype(np.float64) for answer in answers
    ]
