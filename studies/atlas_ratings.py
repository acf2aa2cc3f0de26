"""Section of the atlas on human ratings: ten metrics of TIFA160 against people."""

from __future__ import annotations

import json
from pathlib import Path

import contrapose as cp
from contrapose.files import write_text
from contrapose.report.html.rankings import ranking_plot
from contrapose.report.html.svg import extract_svg
from contrapose.results import MetricValue
from contrapose.results.rankings import BenchmarkRanking
from studies.atlas_tables import RESAMPLES, TEST_RESAMPLES, cell, table

NAMES = {"pearson": "Pearson", "spearman": "Spearman", "kendall": "Kendall τ-b"}


def report_ratings(data: Path, charts: Path | None) -> str:
    """TIFA160: correlation of ten metrics with human ratings, in tiers."""
    file = data / "ratings" / "tifa160.json"
    runs = {
        name: cp.measure(f"{file}@{name}", "tifa160", resamples=RESAMPLES)
        for name in _list_scores(file)
    }
    ranking = cp.rank(runs, metric="kendall", resamples=TEST_RESAMPLES).rankings[0]
    if charts is not None:
        charts.mkdir(parents=True, exist_ok=True)
        write_text(charts / "ratings.svg", extract_svg(ranking_plot(ranking)) + "\n")
    rows = [
        [
            f"`{model.name}`",
            *(_correlation(runs[model.name].metrics[one]) for one in NAMES),
            cell(runs[model.name].metrics["pairwise_accuracy"]),
            str(model.tier),
        ]
        for model in ranking.models
    ]
    best, clip, meteor = ranking.models[0], "clipscore_vitb32", "meteor"
    like = [f"`{model.name}`" for model in ranking.models[1:] if model.tier == best.tier]
    printed = {name: runs[name].metrics for name in (clip, best.name)}
    return "\n\n".join(
        [
            "## Ratings of generated images",
            "TIFA160: 800 images, two people each, and ten metrics that the authors scored them "
            "by. Intervals "
            "are over the 160 prompts. Chance is 0 for correlations, and "
            f"{100 * (printed[clip]['pairwise_accuracy'].chance or 0):.2f} for the share of pairs "
            "of images in "
            "the people's order.",
            table(["metric", *NAMES.values(), "pairwise accuracy", "tier (τ-b)"], rows),
            "![Ratings of generated images](atlas/ratings.svg)",
            "- **The printed “Spearman” is Pearson's**: the authors' notebook correlates the "
            "scores "
            "themselves. It prints "
            + ", ".join(f"{one['pearson'].value:.3f} (`{name}`)" for name, one in printed.items())
            + "; Spearman's are "
            + " and ".join(f"{one['spearman'].value:.3f}" for one in printed.values())
            + ".",
            f"- **The winner is {'one of several' if like else 'alone'}**: `{best.name}` is "
            + (f"not told from {' and '.join(like)}." if like else "told from all others."),
            "- **CLIPScore sees the image and METEOR does not**, only a caption of it; their τ-b "
            "are "
            f"{runs[clip].metrics['kendall'].value:.3f} and "
            f"{runs[meteor].metrics['kendall'].value:.3f}, "
            + (
                "within noise."
                if _is_noise(ranking, clip, meteor)
                else "and a test tells them apart."
            ),
        ]
    )


def _list_scores(file: Path) -> list[str]:
    """Names of the scores of the first image; texts and the ratings are none."""
    content = json.loads(file.read_text(encoding="utf-8"))
    first = next(iter(content.values())) if isinstance(content, dict) else content[0]
    return [n for n, value in first.items() if isinstance(value, float) and n != "human_avg"]


def _correlation(value: MetricValue) -> str:
    bounds = "–" if value.ci95 is None else "–".join(f"{bound:.3f}" for bound in value.ci95)
    return f"{value.value:.3f} ({bounds})"


def _is_noise(ranking: BenchmarkRanking, one: str, other: str) -> bool:
    return next(pair.noise for pair in ranking.pairs if {pair.a, pair.b} == {one, other})
