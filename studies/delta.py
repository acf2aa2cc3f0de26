"""Study of delta vectors (Couairon et al. 2022): does a difference of words move an image?

    python studies/delta.py run --keep DIR [--features DIR] [--device cuda] [--jobs 8] [--pack FILE]
    python studies/delta.py report [--kept FILE] [--docs DIR]

`run` judges the built-in models and heads on their vectors on `simat-scenes`, and heads between two
encoders on features of photographs; it keeps the hits of every test query. A seed is a process of
its own; what is kept is not made again. `report` prints the tables and the claims from what was
kept, and writes the charts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from studies.kept import FOLDER, KeptAnswers

SEEDS = 8
PACKED = FOLDER / "delta.npz"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study, or report it; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="train, judge and keep")
    run.add_argument("--keep", type=Path, required=True, help="folder of the answers")
    run.add_argument("--features", type=Path, help="folder of photographs' features")
    run.add_argument("--parts", nargs="+", default=["scenes", "photos"])
    run.add_argument("--device", default="cpu")
    run.add_argument("--seeds", type=int, default=SEEDS)
    run.add_argument("--jobs", type=int, default=1, help="seeds that run side by side")
    run.add_argument("--workers", type=int, default=1, help="processes of a seed for captions")
    run.add_argument("--threads", type=int, help="threads of a seed; default: torch's own")
    run.add_argument("--stop-after", type=float, default=1e9, help="seconds; no arm begins later")
    run.add_argument("--smoke", action="store_true", help="tiny sizes, to try the code")
    run.add_argument("--pack", type=Path, help="write all answers into this file at the end")
    report = verbs.add_parser("report", help="print the tables")
    report.add_argument("--kept", type=Path, default=PACKED)
    report.add_argument("--docs", type=Path, help="folder to draw the charts in")
    options = parser.parse_args(arguments)
    if options.verb == "report":
        from studies.delta_report import report_study

        print(report_study(KeptAnswers(options.kept), options.docs))
        return 0
    failures = run_all(options)
    if options.pack is not None:
        count = KeptAnswers(options.keep).pack(options.pack)
        print(f"{count} answers in {options.pack} ({options.pack.stat().st_size:,} bytes)")
    if failures:
        print("\n".join(failures))
    return 1 if failures else 0


def run_all(options: argparse.Namespace) -> list[str]:
    """Run all seeds, side by side where there are several jobs; gives what went wrong."""
    job = partial(run_seed, options=options, stop_at=time.time() + options.stop_after)
    if options.jobs < 2:
        return [line for seed in range(options.seeds) for line in job(seed)]
    failures: list[str] = []
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        futures = [pool.submit(job, seed) for seed in range(options.seeds)]
        for seed, future in enumerate(futures):
            error = future.exception()
            failures += [f"seed {seed}: {error}"] if error else future.result()
    return failures


def run_seed(seed: int, options: argparse.Namespace, stop_at: float) -> list[str]:
    """Run the parts of one seed; gives what went wrong."""
    import torch

    from studies.delta_photos import run_photos
    from studies.delta_scenes import Sizes, run_scenes

    if options.threads:
        torch.set_num_threads(options.threads)
    kept, failures = KeptAnswers(options.keep), []
    if "photos" in options.parts and options.features is not None:
        failures += run_photos(
            kept, seed, options.seeds, options.features, device=options.device, stop_at=stop_at,
            smoke=options.smoke,
        )  # fmt: skip
    if "scenes" in options.parts:
        sizes = Sizes.smoke() if options.smoke else Sizes()
        failures += run_scenes(
            kept, seed, sizes, device=options.device, workers=options.workers, stop_at=stop_at
        )
    return failures


if __name__ == "__main__":
    sys.exit(main())
