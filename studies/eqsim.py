"""Study of EqSim (Wang et al. 2023): what it gains and what it costs, on the built-in world.

    python studies/eqsim.py run --keep DIR [--seeds 5] [--jobs 5] [--device cuda] [--pack FILE]
    python studies/eqsim.py report [--kept FILE] [--charts DIR]

`run` trains every arm of `studies/eqsim_arms.py` with every seed and keeps the scores of each
judging example; what is kept is not trained again. `report` prints the tables of
`docs/studies/eqsim.md` from what is kept and draws its charts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose import metrics
from studies.eqsim_arms import ARMS, CLAIMS, COMPARED
from studies.kept import FOLDER, Answer, KeptAnswers
from studies.verdict import Effect, claims_table, effect_of, judge, mean_effect

PAIRS = ("location", "counting", "attribute")
SWAPS = ("swap-attribute", "swap-relation")
DIGITS = (1, 1, 1, 1, 3, 1, 1, 1)
"""Decimals of the columns of the tables of arms."""
PACKED = FOLDER / "eqsim.npz"
Answers = Mapping[str, Mapping[int, Answer]]
"""By arm and seed."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run or report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("--keep", type=Path, required=True, help="Folder of what is kept.")
    run.add_argument("--seeds", type=int, default=5)
    run.add_argument("--jobs", type=int, default=1, help="Seeds that run side by side.")
    run.add_argument("--device", default="cpu")
    run.add_argument("--workers", type=int, default=2, help="Processes of a seed for captions.")
    run.add_argument("--stop-after", type=float, default=1e9, help="Seconds; no arm begins later.")
    run.add_argument("--smoke", action="store_true", help="Tiny sizes, to try the code.")
    run.add_argument("--arms", nargs="*", help="These alone.")
    run.add_argument("--pack", type=Path, help="Write all answers into this file at the end.")
    report = verbs.add_parser("report")
    report.add_argument("--kept", type=Path, default=PACKED)
    report.add_argument("--charts", type=Path, help="Folder to draw the charts in.")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "run":
        run_study(chosen)
    else:
        print(report_study(chosen.kept, chosen.charts))


def run_study(chosen: argparse.Namespace) -> None:
    """Train and judge; print what failed, and exit with 1 if anything did."""
    from studies.eqsim_training import Sizes, run_seed

    sizes = Sizes.smoke() if chosen.smoke else Sizes()
    arms = {name: arm for name, arm in ARMS.items() if not chosen.arms or name in chosen.arms}
    job = partial(
        run_seed, arms=arms, sizes=sizes, keep=chosen.keep, device=chosen.device,
        workers=chosen.workers, stop_at=time.time() + chosen.stop_after,
    )  # fmt: skip
    failures: list[str] = []
    if chosen.jobs < 2:
        failures = [line for seed in range(chosen.seeds) for line in job(seed)]
    else:
        with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) as pool:
            futures = [pool.submit(job, seed) for seed in range(chosen.seeds)]
            for seed, future in enumerate(futures):
                error = future.exception()
                failures += [f"seed {seed}: {error}"] if error else future.result()
    if chosen.pack is not None:
        print(f"{KeptAnswers(chosen.keep).pack(chosen.pack)} answers in {chosen.pack}")
    if failures:
        print("\n".join(failures))
        sys.exit(1)


def load_answers(place: Path) -> dict[str, dict[int, Answer]]:
    """Kept answers by arm and seed."""
    answers: dict[str, dict[int, Answer]] = {}
    for key, answer in KeptAnswers(place).items():
        answers.setdefault(key["arm"], {})[key["seed"]] = answer
    return answers


def report_study(place: Path, charts: Path | None = None) -> str:
    """All tables of the page, from kept answers; draws the charts where a folder is given."""
    answers = load_answers(place)
    findings = judge([(CLAIMS[name], _effect(answers, name)) for name in CLAIMS])
    sections = ["## Claims\n", claims_table(findings)]
    for start, title in (
        ("tuned", "Fine-tuning of `tiny-clip`, judged by cosines"),
        ("match", "Fine-tuning of `tiny`, judged by its match head"),
        ("scratch", "The network of `tiny-clip` from scratch, judged by cosines"),
    ):
        sections += [f"\n## {title}\n", _arms_table(answers, start)]
    if charts is not None:
        draw_charts(answers, charts)
    return "\n".join(sections)


def _effect(answers: Answers, name: str) -> Effect | str:
    first, second = (answers.get(arm, {}) for arm in COMPARED[name])
    seeds = sorted(first.keys() & second.keys())
    if len(seeds) < 2:
        return "not run"
    if name.startswith("spread"):
        return effect_of(
            [(*_grids(first[seed]), *_grids(second[seed])) for seed in seeds], _spread_difference,
            resamples=200,
        )  # fmt: skip
    measure = _recall if name == "recall" else _group
    return mean_effect(
        [measure(first[seed]) for seed in seeds], [measure(second[seed]) for seed in seeds]
    )


def _grids(answer: Answer) -> tuple[NDArray[Any], ...]:
    return tuple(answer[part].astype(np.float64) for part in PAIRS)


def _spread_difference(*grids: NDArray[Any]) -> float:
    half = len(grids) // 2
    return _spread(grids[:half]) - _spread(grids[half:])


def _spread(grids: Sequence[NDArray[Any]]) -> float:
    """Spread of the equivariance scores: mean over parts and both sides of the deviations."""
    values = []
    for grid in grids:
        scores = metrics.equivariance(grid)
        values += [scores.text.std(), scores.image.std()]
    return float(np.mean(values))


def _group(answer: Answer) -> NDArray[np.float64]:
    """Whether each 2 × 2 example is right as a group, all parts after one another."""
    return np.concatenate([_group_outcomes(answer, part) for part in PAIRS])


def _group_outcomes(answer: Answer, part: str) -> NDArray[np.float64]:
    scores = answer[part].astype(np.float64)
    return np.asarray(metrics.group_score(scores, np.eye(2, dtype=bool)).values, np.float64)


def _recall(answer: Answer) -> NDArray[np.float64]:
    """Whether each caption, and then each image, is first of its gallery."""
    return np.concatenate([answer["text_rank"] == 1, answer["image_rank"] == 1]).astype(np.float64)


def _accuracy(answer: Answer, parts: Sequence[str]) -> float:
    return float(np.mean([(answer[part][:, 0] > answer[part][:, 1]).mean() for part in parts]))


def _measures(answer: Answer) -> list[float]:
    groups = [float(_group_outcomes(answer, part).mean()) for part in PAIRS]
    return [
        *(100 * group for group in groups),
        100 * float(np.mean(groups)),
        _spread(_grids(answer)),
        100 * _accuracy(answer, SWAPS),
        100 * _accuracy(answer, ("replace-color", "replace-relation")),
        100 * float(_recall(answer).mean()),
    ]


def _arms_table(answers: Answers, start: str) -> str:
    """Mean over seeds ± standard deviation of every measure of every arm."""
    header = (
        "arm", *(f"group: {part}" for part in PAIRS), "group, mean", "equivariance, sd", "swaps",
        "replacements", "R@1",
    )  # fmt: skip
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for name in (f"{start}/before", *ARMS):
        if not name.startswith(f"{start}/") or name not in answers:
            continue
        rows = np.array([_measures(answer) for answer in answers[name].values()])
        spread = rows.std(axis=0, ddof=1) if len(rows) > 1 else np.zeros(rows.shape[1])
        cells = [
            f"{mean:.{digits}f} ± {sd:.{digits}f}"
            for mean, sd, digits in zip(rows.mean(axis=0), spread, DIGITS, strict=True)
        ]
        lines.append(f"| {name.partition('/')[2]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw_charts(answers: Answers, folder: Path) -> None:
    """Frontier of group score and equivariance, and the equivariance before and after."""
    from studies.charts import Point, write_chart

    folder.mkdir(parents=True, exist_ok=True)

    def point(name: str, label: str) -> Point:
        rows = np.array([_measures(answer) for answer in answers[name].values()])
        group = rows[:, 3]
        error = 2.78 * group.std(ddof=1) / np.sqrt(len(group)) if len(group) > 1 else 0.0
        mean = float(group.mean())
        return Point(float(rows[:, 4].mean()), mean, mean - error, mean + error, label)

    for start, forms in (
        ("scratch", {"cosines": "cosines ", "scaled logits": "logits ", "softmax": "softmax "}),
        ("tuned", {"cosines": "eqsim ", "hard negatives": "hn", "CyCLIP": "cyclip"}),
    ):
        series = {"plain": [point(f"{start}/plain", "")]}
        for form, prefix in forms.items():
            names = [
                name for name in ARMS
                if name.startswith(f"{start}/{prefix}") and name in answers
                and "paper" not in name and "%" not in name and "k =" not in name
            ]  # fmt: skip
            some = [point(name, _beta(name)) for name in names]
            if some:
                series[form] = sorted(some, key=lambda it: it.x)
        if start == "tuned":
            names = [n for n in ARMS if n.endswith("paper") and n in answers]
            series["softmax, the paper's"] = [point(name, _beta(name)) for name in names]
        write_chart(
            folder / f"eqsim-{start}.svg",
            {"scratch": "From scratch", "tuned": "Fine-tuning"}[start],
            series,
            x_label="equivariance, standard deviation (less is tighter)",
            y_label="group score, % (mean of parts); numbers beside points are β",
            joined=False,
        )
    for part in PAIRS:
        series = {}
        for name, label in (
            ("tuned/before", "before"), ("tuned/plain", "plain"),
            ("tuned/eqsim 20, cosines", "EqSim, β = 20"),
        ):  # fmt: skip
            if name in answers:
                scores = [
                    metrics.equivariance(answer[part].astype(np.float64)).text
                    for answer in answers[name].values()
                ]
                counts, edges = np.histogram(np.concatenate(scores), 24, (-3, 3), density=True)
                series[label] = [
                    Point(float(x), float(y))
                    for x, y in zip((edges[1:] + edges[:-1]) / 2, counts, strict=True)
                ]
        if series:
            write_chart(
                folder / f"eqsim-equivariance-{part}.svg", f"Equivariance scores: {part}", series,
                x_label="equivariance score of captions", y_label="density",
            )  # fmt: skip


def _beta(name: str) -> str:
    words = name.partition("/")[2].split(",")[0].split()
    return words[-1] if words[-1].replace(".", "").isdigit() else ""


if __name__ == "__main__":
    main()
