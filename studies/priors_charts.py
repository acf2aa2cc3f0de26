"""Charts of the study of priors, from the kept answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from studies.charts import Point, write_chart
from studies.priors_analysis import GRID, PER_TOKEN, PRIOR, FloatArray, Margins, StudyAnswers
from studies.priors_claims import BALANCED, SKEWED, TEMPERED, gain
from studies.priors_report import SOURCES, only_level, tempered_alphas
from studies.priors_tests import LEVELS
from studies.verdict import Effect, mean_effect


def write_charts(answers: StudyAnswers, docs: Path) -> None:
    """Write the four charts of the page into a folder."""
    docs.mkdir(parents=True, exist_ok=True)
    _write_curves(answers, docs / "priors-alpha.svg")
    _write_tempered(answers, docs / "priors-tempered.svg")
    _write_levels(answers, docs / "priors-evidence.svg")
    _write_sources(answers, docs / "priors-sources.svg")


def _write_curves(answers: StudyAnswers, path: Path) -> None:
    """Accuracy less raw accuracy as a function of α, mean over seeds."""
    shown = (GRID >= -0.25) & (GRID <= 1.25)
    raw = int(np.abs(GRID).argmin())
    series = {}
    for title, arm, names in (
        ("balanced test", "skewed", BALANCED),
        ("skewed test", "skewed", SKEWED),
        ("control, balanced test", "balanced", BALANCED),
        ("control, skewed test", "balanced", SKEWED),
    ):
        curve = np.mean([m.curve() for m in answers.margins(arm, names)], axis=0)
        series[title] = [
            Point(float(a), 100 * float(value - curve[raw]))
            for a, value in zip(GRID[shown], curve[shown], strict=True)
        ]
    write_chart(
        path, "Accuracy against raw, by how much of the prior is taken out", series,
        x_label="α", y_label="points above raw", zero=True,
    )  # fmt: skip


def _write_tempered(answers: StudyAnswers, path: Path) -> None:
    """Best α against the one that equation 7 predicts."""
    series: dict[str, list[Point]] = {}
    for title, prior in (("exact prior", "exact"), ("prior of 100 training images", PRIOR)):
        series[title] = []
        for a, best, _ in tempered_alphas(answers, prior):
            spread = best.std(ddof=1)
            mean = float(best.mean())
            series[title].append(Point(a, mean, mean - spread, mean + spread))
    series["predicted"] = [Point(a, a) for a in TEMPERED]
    write_chart(
        path, "Best α (least log loss) in tempered test worlds", series,
        x_label="α that equation 7 predicts", y_label="best α",
    )  # fmt: skip


def _write_levels(answers: StudyAnswers, path: Path) -> None:
    """Effect of α = 1 by the strength of the evidence."""
    series = {}
    for title, names in (("balanced test", BALANCED), ("skewed test", SKEWED)):
        margins = answers.margins("skewed", names)
        series[title] = [
            _point(np.log2(level), gain([only_level(m, i) for m in margins]))
            for i, level in enumerate(LEVELS)
        ]  # fmt: skip
    write_chart(
        path, "α = 1 less raw, by the share of color that images keep", series,
        x_label="share of color that images keep", y_label="points above raw", zero=True,
        x_names={float(np.log2(level)): f"{level:g}" for level in LEVELS},
    )  # fmt: skip


def _write_sources(answers: StudyAnswers, path: Path) -> None:
    """Effect of α = 1 on balanced tests by source and number of images."""
    series: dict[str, list[Point]] = {"noise": [], "training images": []}
    for source in SOURCES:
        name, _, count = source.partition(":")
        title = "noise" if name == "noise" else "training images"
        draws = answers.draws(BALANCED, source, PER_TOKEN)
        effect = mean_effect(
            [_mean_right(seed, 1.0) for seed in draws], [_mean_right(seed, 0.0) for seed in draws]
        )
        # A little apart, so that intervals of one number of images do not cover one another.
        apart = -0.02 if name == "noise" else 0.02
        series[title].append(_point(np.log10(int(count)) + apart, effect))
    write_chart(
        path, "Balanced tests: α = 1 less raw, by the images of the prior", series,
        x_label="images that the prior is a mean of", y_label="points above raw", zero=True,
        x_names={float(np.log10(count)): f"{count:,}" for count in (3, 10, 100, 1000)},
    )  # fmt: skip


def _mean_right(draws: list[Margins], alpha: float) -> FloatArray:
    return np.asarray(np.mean([margins.right(alpha) for margins in draws], axis=0), np.float64)


def _point(x: float, effect: Effect, name: str = "") -> Point:
    low, high = effect.interval
    return Point(float(x), 100 * effect.mean, 100 * low, 100 * high, name)
