"""Tables and charts of the study of delta vectors, from its kept answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studies.charts import Point, write_chart
from studies.delta_claims import (
    PAPER_SCALE,
    PAPER_TAU,
    SET_NAMES,
    SETS,
    START_NAMES,
    DeltaAnswers,
    effects,
    scales_of,
)
from studies.delta_heads import STARTS, TAUS
from studies.delta_photos import PART as PHOTOS
from studies.delta_scenes import FROZEN, MODELS
from studies.kept import KeptAnswers
from studies.verdict import claims_table, judge

ROWS = (
    ("no delta", "delta", 0.0),
    ("delta, λ = 1", "delta", 1.0),
    ("delta, λ = 3", "delta", 3.0),
    ("delta, λ chosen", "delta", None),
    ("sentence average, λ = 1", "sentence", 1.0),
    ("sentence average, λ chosen", "sentence", None),
    ("image → text → image, λ = 1", "caption", 1.0),
    ("image → text → image, λ chosen", "caption", None),
    ("text → image", "text", 1.0),
)
"""Rows of the table of baselines: name, score and λ."""
SHOWN_SCALES = {PHOTOS: (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)}
SCENE_SHOWN = (0.0, 0.4, 0.8, 1.0, 1.2, 1.6, 2.0, 3.0, 5.0)


def report_study(kept: KeptAnswers, docs: Path | None = None) -> str:
    """All tables of the page, from kept answers; draws the charts where a folder is given."""
    answers = DeltaAnswers(kept)
    sections = ["## Claims\n", claims_table(judge(list(effects(answers))))]
    models = [name for name in MODELS if answers.has(name, FROZEN)]
    if models:
        sections += ["\n## Frozen models on `simat-scenes` (%)\n", _baseline_table(answers, models)]
    for name in SETS:
        arms = [arm for arm in _arms() if answers.has(name, arm)]
        if not arms:
            continue
        title = {PHOTOS: "R@10 of caption deltas on photographs"}.get(
            name, f"SIMAT score of heads on {SET_NAMES[name]}"
        )
        sections += [f"\n## {title}, by τ and λ (%)\n", _surface_table(answers, name)]
        sections += [f"\n## {SET_NAMES[name]}: deltas and retrieval by τ (%)\n",
                     _tau_table(answers, name)]  # fmt: skip
    if docs is not None:
        draw_charts(answers, docs)
    return "\n".join(sections)


def _arms() -> list[str]:
    return [FROZEN, *(f"{start} {tau:g}" for start in STARTS for tau in sorted(TAUS, reverse=True))]


def _arm_name(arm: str) -> str:
    start, _, tau = arm.partition(" ")
    return "no heads" if arm == FROZEN else f"{START_NAMES[start]}, τ = {tau}"


def _mean_and_deviation(seeds: Sequence[NDArray[np.float64]]) -> str:
    values = [100 * float(it.mean()) for it in seeds]
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"


def _chosen_scales(answers: DeltaAnswers, name: str, arm: str, base: str = "delta") -> str:
    chosen = {answers.chosen_scale(name, arm, seed, base) for seed in answers.seeds(name, arm)}
    low, high = min(chosen), max(chosen)
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def _baseline_table(answers: DeltaAnswers, models: Sequence[str]) -> str:
    columns = [(name, n) for name in models for n in (1, 5)]
    header = [f"{SET_NAMES[name]}, n = {n}" for name, n in columns]
    lines = ["| query | " + " | ".join(header) + " |", "|---" * (len(columns) + 1) + "|"]
    for label, base, scale in ROWS:
        cells = []
        for name, n in columns:
            cell = _mean_and_deviation(answers.at(name, FROZEN, scale, base=base, n=n))
            if scale is None and n == 1:
                cell += f" (λ = {_chosen_scales(answers, name, FROZEN, base)})"
            cells.append(cell)
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    chance = [
        f"{100 * np.mean([it[f'chance_n{n}'].mean() for it in answers.queries.values()]):.2f}"
        for _, n in columns
    ]
    lines.append("| chance | " + " | ".join(chance) + " |")
    cells = [
        _mean_and_deviation(answers.at(name, FROZEN, 1.0, base="text-delta", n=n))
        for name, n in columns
    ]
    lines.append("| caption + delta → captions, λ = 1 | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _surface_table(answers: DeltaAnswers, name: str) -> str:
    """Mean test score over seeds; the highest of a row is bold."""
    scales = scales_of(name)
    shown = SHOWN_SCALES.get(name, SCENE_SHOWN)
    lines = ["| heads | " + " | ".join(f"λ = {it:g}" for it in shown) + " | highest at λ |",
             "|---" * (len(shown) + 2) + "|"]  # fmt: skip
    for arm in _arms():
        if not answers.has(name, arm):
            continue
        curve = _mean_curve(answers, name, arm)
        values = [100 * curve[scales.index(scale)] for scale in shown]
        cells = [f"**{it:.1f}**" if it == max(values) else f"{it:.1f}" for it in values]
        peak = f"{scales[int(curve.argmax())]:g} ({100 * curve.max():.1f})"
        lines.append(f"| {_arm_name(arm)} | " + " | ".join(cells) + f" | {peak} |")
    return "\n".join(lines)


def _mean_curve(answers: DeltaAnswers, name: str, arm: str) -> NDArray[np.float64]:
    curves = [answers.curve(name, arm, seed).mean(0) for seed in answers.seeds(name, arm)]
    return np.asarray(np.mean(curves, axis=0))


def _tau_table(answers: DeltaAnswers, name: str) -> str:
    """Table 2 of the paper, by temperature."""
    scenes = name != PHOTOS
    header = ["heads", "λ = 1", "λ chosen", "λ", "text → image", "R@1"]
    if scenes:
        header[4:4] = ["sentence average, λ = 1", "the same, λ chosen", "text delta"]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for arm in _arms():
        if not answers.has(name, arm):
            continue
        cells = [
            _mean_and_deviation(answers.at(name, arm, PAPER_SCALE)),
            _mean_and_deviation(answers.at(name, arm, None)),
            _chosen_scales(answers, name, arm),
        ]
        if scenes:
            cells += [
                _mean_and_deviation(answers.at(name, arm, PAPER_SCALE, base="sentence")),
                _mean_and_deviation(answers.at(name, arm, None, base="sentence")),
                _mean_and_deviation(answers.at(name, arm, PAPER_SCALE, base="text-delta")),
            ]
        cells += [
            _mean_and_deviation(answers.at(name, arm, PAPER_SCALE, base="text")),
            _mean_and_deviation(
                [answers.recall(name, arm, seed) for seed in answers.seeds(name, arm)]
            ),
        ]
        lines.append(f"| {_arm_name(arm)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw_charts(answers: DeltaAnswers, folder: Path) -> None:
    """Score by λ for every temperature, and the trade-off of deltas and retrieval."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SETS:
        for start in STARTS:
            arms = [*(arm for arm in _arms() if arm.startswith(start)), FROZEN]
            series = {
                _arm_name(arm).rpartition(", ")[2]: [
                    Point(scale, 100 * float(value))
                    for scale, value in zip(
                        scales_of(name), _mean_curve(answers, name, arm), strict=True
                    )
                ]
                for arm in arms
                if answers.has(name, arm)
            }
            if len(series) > 1:
                what = "R@10 of caption deltas, %" if name == PHOTOS else "SIMAT score, %"
                write_chart(
                    folder / f"delta-{name}-{start}.svg",
                    f"{SET_NAMES[name].strip('`')}, {START_NAMES[start]}", series,
                    x_label="λ", y_label=what,
                )  # fmt: skip
    for start in STARTS:
        trade = {
            SET_NAMES[name].strip("`"): points
            for name in SETS
            if (points := _trade_points(answers, name, start))
        }
        if trade:
            write_chart(
                folder / f"delta-trade-off-{start}.svg",
                f"Deltas against retrieval by temperature, {START_NAMES[start]}", trade,
                x_label="R@1 less that at τ = 0.1, points",
                y_label="delta score at the chosen λ less that at τ = 0.1, points",
                zero=True,
            )  # fmt: skip


def _trade_points(answers: DeltaAnswers, name: str, start: str) -> list[Point]:
    arms = {tau: f"{start} {tau:g}" for tau in sorted(TAUS, reverse=True)}
    if not answers.has(name, *arms.values()):
        return []

    def measure(arm: str) -> tuple[float, float]:
        seeds = answers.seeds(name, arm)
        recall = np.mean([answers.recall(name, arm, seed).mean() for seed in seeds])
        delta = np.mean([it.mean() for it in answers.at(name, arm, None)])
        return 100 * float(recall), 100 * float(delta)

    origin = measure(arms[PAPER_TAU])
    points = []
    for tau, arm in arms.items():
        recall, delta = measure(arm)
        label = f"{tau:g}" if tau != PAPER_TAU else ""
        points.append(Point(recall - origin[0], delta - origin[1], name=label))
    return points
