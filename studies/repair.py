"""What fine-tuning repairs and what it costs, on the built-in world.

    python studies/repair.py [--seeds 3] [--steps 2000 …] [--rate 1e-3 …] [--batch 256]
                             [--world balanced …] [--scenes 40000] [--examples 200]
                             [--eqsim eqsim …] [--also hp …]
                             [--device auto] [--jobs 1] [--workers 8] [--keep DIR] [--out FILE]

Starting from `tiny-clip`: plain fine-tuning, hard negatives (HN), hard positives and negatives
(HP+HN), EqSim, EqSim+HN, on the same scenes and with the same steps. The claims are those of Kamath
et al. (2024) and Wang et al. (2023):

1. HN raises accuracy on swaps over plain fine-tuning,
2. and brittleness with it.
3. HP+HN keeps most of HN's gain on swaps (half of it or more),
4. with lower brittleness than HN,
5. and leaves the score of the right caption closer to what it was.
6. EqSim raises the group score over plain fine-tuning,
7. and tightens the distribution of the equivariance score.

Each seed has scenes, order and choice of captions of its own; the panel is the same for all. A
claim is confirmed when the difference, averaged over the seeds, has a 95 % interval on the claimed
side of 0 (paired bootstrap over examples) and no seed disagrees in sign; refuted when the interval
lies on the other side; open otherwise. Numbers are means over seeds ± their standard deviation.

Scenes come from the balanced world, where a caption and its swap are equally likely, or from the
skewed one that `tiny-clip` grew up in, where most false changes can be told without the picture.
Several worlds, rates and numbers of steps give a table each, several forms of EqSim two columns
each and claims of their own. `--jobs` runs go on side by side on one device and do not change each
other; with `--keep` what was taught is kept, and a run that broke off goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import torch

from contrapose.tune.data.rows import TrainingSet, filter_kinds
from contrapose.tune.data.scenes import make_scene_set
from contrapose.tune.objective import parse_objective
from contrapose.tune.panels import make_scene_panel
from contrapose.tune.report import Evaluator
from contrapose.tune.settings import Settings
from contrapose.tune.students import load_student
from contrapose.tune.trainer import train
from contrapose.world.sample import World
from studies.repair_claims import BASE, TOLD, Judged, Line, Lines, judge, lines_of, table
from studies.repair_kept import once

Point = tuple[World, float, int]
"""A world, a learning rate and a number of steps."""


@dataclass(frozen=True)
class Course:
    """All methods, taught from the same scenes with the same rate and steps."""

    model: str
    methods: tuple[str, ...]
    kinds: tuple[str, ...]
    hn: float
    scenes: int
    workers: int
    examples: int
    device: str
    keep: Path | None
    world: World
    settings: Settings

    @property
    def name(self) -> str:
        """As it stands in the log."""
        how = self.settings
        return f"{self.world}, rate {how.rate:g}, {how.steps} steps, seed {how.seed}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Teach, measure, judge, print."""
    chosen = _arguments(arguments)
    begun = time.perf_counter()
    device = chosen.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    forms = [it for form in chosen.eqsim for it in (form, f"{form}+hn")]
    methods = tuple(chosen.only or (*BASE, *forms, *chosen.also))
    points: list[Point] = list(product(chosen.world, chosen.rate, chosen.steps))
    seeds = range(chosen.seeds)
    # Where there are more processes than points and seeds, they share the methods of each.
    share = -(-len(methods) // max(1, chosen.jobs // (len(points) * len(seeds))))
    lists = [methods[start : start + share] for start in range(0, len(methods), share)]
    courses = [
        Course(
            chosen.model, some, chosen.kinds, chosen.hn, chosen.scenes,
            max(1, chosen.workers // chosen.jobs), chosen.examples, device, chosen.keep, world,
            Settings(
                steps=steps, batch=chosen.batch, rate=rate, seed=seed, save_every=0,
                log_every=max(1, steps // 4), dtype="bf16" if device == "cuda" else "fp32",
            ),
        )
        for (world, rate, steps), seed, some in product(points, seeds, lists)
    ]  # fmt: skip
    with ProcessPoolExecutor(chosen.jobs, get_context("spawn")) as pool:
        taught = partial(teach, begun=time.time())
        done = list((map if chosen.jobs < 2 else pool.map)(taught, courses))
    before = done[0][0]
    found: dict[Point, dict[str, list[Lines]]] = {
        point: {method: [] for method in methods} for point in points
    }
    for (point, _, some), (_, after) in zip(product(points, seeds, lists), done, strict=True):
        for method in some:
            found[point][method].append(after[method])
    written = []
    for point, runs in found.items():
        world, rate, steps = point
        print(f"\n{world} world, rate {rate:g}, {steps:,} steps of {chosen.batch}\n")
        print(table(before, runs) + "\n")
        judged = [] if chosen.only else judge(before, runs, chosen.eqsim)
        print("\n".join(each.said() for each in judged))
        written.append(_as_json(point, runs, judged))
    if chosen.out is not None:
        every = {"before": {name: line.value for name, line in before.items()}, "points": written}
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(every, indent=2) + "\n")
    print(f"\nin all {time.perf_counter() - begun:.1f} s", flush=True)


def teach(course: Course, begun: float) -> tuple[Lines, dict[str, Lines]]:
    """What the panel says of the model before, and of it after each method."""
    device, keep = course.device, course.keep
    evaluator = Evaluator(make_scene_panel(course.examples))
    made: list[TrainingSet] = []

    def asked(method: str) -> Lines:
        how = course.settings.as_dict()
        key = (course.model, course.world, course.kinds, course.hn, course.scenes, how)
        return once(keep, (course.examples, key, method), lambda: after(method))

    def after(method: str) -> dict[str, Line]:
        if not made:
            made.append(
                make_scene_set(
                    course.scenes, course.settings.seed, device=device, workers=course.workers,
                    world=course.world,
                )
            )  # fmt: skip
            print(f"{course.name}: scenes: {time.time() - begun:.1f} s", flush=True)
            made[0] = filter_kinds(made[0], course.kinds)
        student = load_student(course.model, device=device)
        torch.set_float32_matmul_precision("high")  # TF32 to learn, float32 to measure
        parts = [f"hn={course.hn}" if it == "hn" else it for it in method.split("+")]
        objective = parse_objective("+".join(parts))
        trained = train(student, made[0], objective, course.settings, device=device)
        torch.set_float32_matmul_precision("highest")
        print(f"{course.name}, {method}: {_told(trained.losses)}", flush=True)
        return lines_of(evaluator.measure(student.model))

    def untouched() -> dict[str, Line]:
        return lines_of(evaluator.measure(load_student(course.model, device=device).model))

    before = once(keep, (course.examples, course.model), untouched)
    print(f"before; {_told({name: before[name].value for name in TOLD})}", flush=True)
    found = {}
    for method in course.methods:
        found[method] = asked(method)
        values = {name: found[method][name].value for name in TOLD}
        print(f"{course.name}, {method}; {_told(values)}: {time.time() - begun:.1f} s", flush=True)
    return before, found


def _told(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


def _as_json(
    point: Point, found: Mapping[str, Sequence[Lines]], judged: Sequence[Judged]
) -> dict[str, object]:
    return {
        **dict(zip(("world", "rate", "steps"), point, strict=True)),
        "after": {
            method: [{name: line.value for name, line in lines.items()} for lines in runs]
            for method, runs in found.items()
        },
        "claims": [asdict(each) for each in judged],
    }


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="tiny-clip")
    parser.add_argument(
        "--eqsim", nargs="+", default=["eqsim"], help="Its forms: eqsim, eqsim-paper, eqsim=1, …"
    )
    parser.add_argument("--also", nargs="*", default=[], help="Further objectives, to look at.")
    parser.add_argument("--only", nargs="*", help="These objectives alone; no claims then.")
    parser.add_argument("--kinds", nargs="+", default=("swap",), help="Of changes to learn from.")
    parser.add_argument("--hn", type=float, default=4.0, help="The weight of HN, wherever it is.")
    parser.add_argument("--seeds", type=int, default=3)
    worlds = ["balanced", "skewed"]
    parser.add_argument("--world", nargs="+", choices=worlds, default=worlds[:1])
    parser.add_argument("--steps", type=int, nargs="+", default=[2000])
    parser.add_argument("--rate", type=float, nargs="+", default=[1e-3], help="The highest.")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--scenes", type=int, default=40_000, help="To learn from, of each seed.")
    parser.add_argument("--examples", type=int, default=200, help="Of each part of the panel.")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1, help="Courses that go on side by side.")
    parser.add_argument("--workers", type=int, default=8, help="Processes that make captions.")
    parser.add_argument("--keep", type=Path, help="Kept here, and not taught again.")
    parser.add_argument("--out", type=Path, help="Write all numbers here as JSON.")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
