"""Does a captioner's language prior help or hurt? Lin et al. (2024), on the built-in world.

    python studies/priors.py run --keep DIR [--device cuda] [--seeds 5] [--jobs 5] [--pack FILE]
    python studies/priors.py report [--kept FILE] [--docs DIR]

`run` trains captioners from scratch with weak evidence in their images: on the skewed world, whose
caption prior the tests share (scenario 1) or contradict (scenario 2), and on the balanced world as
a control. It keeps the log-likelihood margins of every test example and the estimates of the
captions' priors. `report` prints the tables and the claims from what was kept, and writes the
charts. Every (captioner, seed) is a process of its own; a run that broke off goes on where it was.
"""

from __future__ import annotations

import argparse
import io
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

import numpy as np
import torch

from contrapose.files import write_bytes
from contrapose.models.tiny.network import TinyNetwork
from contrapose.world.sample import World
from studies.kept import FOLDER, KeptAnswers
from studies.priors_captioners import train_captioner
from studies.priors_scores import (
    ARMS,
    PICTURE_SEED,
    SMOKE_PLAN,
    TEST_SEED,
    TINY,
    TRAIN_SEED,
    Plan,
    Scorer,
    compare_scores,
)
from studies.priors_tests import MAIN, PARTS, SWAPS, draw_gallery, draw_pairs, draw_scenes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study, or report it; gives the exit status."""
    options = _parse_arguments(arguments)
    if options.command == "report":
        from studies.priors_report import report

        print(report(KeptAnswers(options.kept), options.docs))
        return 0
    if options.only is not None:
        arm, _, seed = options.only.partition(":")
        run_job(arm, int(seed), options)
        return 0
    failed = run_all(options, [] if arguments is None else list(arguments))
    if options.pack is not None:
        count = KeptAnswers(options.keep).pack(options.pack)
        print(f"{count} answers in {options.pack} ({options.pack.stat().st_size:,} bytes)")
    return 1 if failed else 0


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train, score and keep")
    run.add_argument("--keep", type=Path, required=True, help="folder of the answers")
    run.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    run.add_argument("--seeds", type=int, default=5)
    run.add_argument("--jobs", type=int, default=1, help="captioners trained side by side")
    run.add_argument("--workers", type=int, default=3, help="processes per job that make captions")
    run.add_argument("--steps", type=int, help="training steps other than the recipe's")
    run.add_argument("--seconds", type=float, default=math.inf, help="most seconds of a training")
    run.add_argument("--smoke", action="store_true", help="tiny sizes: does everything run?")
    run.add_argument("--pack", type=Path, help="file that joins all answers")
    run.add_argument("--only", help="one job: ARM:SEED")
    told = commands.add_parser("report", help="print the tables, write the charts")
    told.add_argument("--kept", type=Path, default=FOLDER / "priors.npz")
    told.add_argument("--docs", type=Path, help="folder that the charts are written to")
    return parser.parse_args(arguments)


def run_all(options: argparse.Namespace, arguments: Sequence[str]) -> list[str]:
    """Run every (arm, seed) in a process of its own; gives the jobs that failed."""
    waiting = [f"{arm}:{seed}" for seed in range(options.seeds) for arm in ARMS]
    waiting += [f"{TINY}:{seed}" for seed in range(options.seeds)]
    given = list(arguments) or sys.argv[1:]
    running: dict[str, subprocess.Popen[bytes]] = {}
    failed: list[str] = []
    started = time.perf_counter()
    while waiting or running:
        while waiting and len(running) < max(1, options.jobs):
            job = waiting.pop(0)
            command = [sys.executable, str(Path(__file__).resolve()), *given, "--only", job]
            running[job] = subprocess.Popen(command)  # noqa: S603 - this very file
        time.sleep(0.2)
        for job, process in list(running.items()):
            status = process.poll()
            if status is None:
                continue
            del running[job]
            spent = time.perf_counter() - started
            if status:
                failed.append(job)
            print(f"{spent:6.0f} s  {job} {'FAILED' if status else 'done'}", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}; the same command runs them again", flush=True)
    return failed


def run_job(arm: str, seed: int, options: argparse.Namespace) -> None:
    """Train and score one captioner, or score the built-in model."""
    torch.set_float32_matmul_precision("high")
    plan = SMOKE_PLAN if options.smoke else Plan()
    if options.steps is not None:
        phase = replace(plan.recipe.phase, steps=options.steps)
        plan = replace(plan, recipe=replace(plan.recipe, phase=phase))
    kept = KeptAnswers(options.keep)
    started = time.perf_counter()
    key = {"arm": arm, "seed": seed}
    if arm == TINY:
        for part in SWAPS:
            kept.once(
                {**key, "part": part.title},
                lambda part=part: compare_scores(plan.part(part), seed, options.device),  # type: ignore[misc]
            )
        return
    key["steps"] = plan.recipe.phase.steps
    parts = [part for part in PARTS if arm == "skewed" or part.name in MAIN]
    waiting = [part for part in parts if kept.get({**key, "part": part.title}) is None]
    # Test examples are made beside the training.
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        tests: dict[str, Future[Any]] = {
            part.title: pool.submit(draw_pairs, plan.part(part), TEST_SEED + seed)
            for part in waiting
        }
        tests["gallery"] = pool.submit(draw_gallery, plan.galleries[1], TEST_SEED + seed)
        world = cast(World, arm)
        scenes = pool.submit(draw_scenes, plan.pool[0], PICTURE_SEED + seed, world)
        network = trained(world, seed, plan, options, kept, key)
        scorer = Scorer(network, options.device, seed, world, plan)
        scorer.take_pictures(scenes.result())
        for part in waiting:
            kept.once(
                {**key, "part": part.title},
                lambda part=part: scorer.score_pairs(part, tests[part.title].result()),  # type: ignore[misc]
            )
        kept.once(
            {**key, "part": "gallery"}, lambda: scorer.rank_gallery(tests["gallery"].result())
        )
    kept.once({**key, "part": "time"}, lambda: {"seconds": np.array(time.perf_counter() - started)})


def trained(
    world: World,
    seed: int,
    plan: Plan,
    options: argparse.Namespace,
    kept: KeptAnswers,
    key: dict[str, Any],
) -> TinyNetwork:
    """The captioner of an arm and seed: trained now, or read from the folder."""
    file = options.keep / f"{world}-{seed}-{plan.recipe.phase.steps}.pt"
    network = TinyNetwork(plan.recipe.config).to(options.device).eval()
    if file.is_file():
        network.load_state_dict(torch.load(file, map_location=options.device, weights_only=True))
        return network
    network, values = train_captioner(
        world, TRAIN_SEED + seed, plan.recipe, options.device, workers=options.workers,
        stop_after=options.seconds,
        log=lambda values: print(world, seed, _short(values), flush=True),
    )  # fmt: skip
    content = io.BytesIO()
    torch.save(network.state_dict(), content)
    options.keep.mkdir(parents=True, exist_ok=True)
    write_bytes(file, content.getvalue())
    kept.once(
        {**key, "part": "training"},
        lambda: {name: np.array(value) for name, value in values.items()},
    )
    return network


def _short(values: dict[str, float]) -> str:
    return " ".join(f"{name} {value:.4g}" for name, value in values.items())


if __name__ == "__main__":
    sys.exit(main())
