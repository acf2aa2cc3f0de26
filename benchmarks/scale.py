"""Cost of 10⁸ pairs: a table from the rates of the docs, and a simulated run of plan and store.

    python benchmarks/scale.py cost [--pairs 100000000]
    python benchmarks/scale.py run [--pairs 1000000 10000000] [--memory 8] [--folder DIR]

`cost` prints GPU hours, storage and requests. Rates are read from the tables of docs/hardware.md
and docs/likelihoods.md; bytes per row are those of a part that is encoded here.

`run` plans, writes and looks up so many pairs without a model. Every step is a process of its own,
whose memory is limited; prints its seconds of processor time and its peak memory, or where it
breaks.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import numpy as np
from scalejob import plans, stored_pairs, stored_vectors
from scalejob.costs import print_cost
from scalejob.made import GIB

STEPS = {
    "plan, √p × √p": plans.plan_grid,
    "plan, a caption each": plans.plan_pairs,
    "write": stored_pairs.write,
    "fill": stored_pairs.fill,
    "look up": stored_pairs.look_up,
    "look up all": stored_pairs.look_up_all,
    "look up a hundredth": stored_pairs.look_up_share,
    "write vectors": stored_vectors.write_vectors,
    "take vectors": stored_vectors.take_vectors,
    "cosines of vectors": stored_vectors.take_cosines,
}
LOOK_UPS = ("look up a hundredth", "look up", "look up all")
DEFAULT_STEPS = ("plan, √p × √p", "plan, a caption each", "write", *LOOK_UPS)


def run_steps(sizes: list[int], memory: float, folder: Path | None, only: list[str] | None) -> None:
    """Run every step at every size in processes of their own, and print a Markdown table."""
    print("| step | pairs | processor seconds | peak memory |")
    print("|---|---|---|---|")
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as store:
            for name in only or DEFAULT_STEPS:
                print(f"| {name} | {size:,} | {_run_step(name, size, memory, store)} |", flush=True)


def _run_step(name: str, size: int, memory: float, store: str) -> str:
    command = [sys.executable, __file__, "step", name, str(size), store]
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, text=True) as child,
    ):
        too_large = False
        while child.poll() is None:
            too_large = too_large or resident_bytes(child.pid) > memory * GIB
            if too_large:
                child.kill()
            time.sleep(0.05)
        output.seek(0)
        lines = output.read().splitlines()
    done = [json.loads(line) for line in lines if line.startswith("[")]
    spent: dict[str, list[float]] = {}
    for phase, some, _ in done:
        spent.setdefault(phase, []).append(some)
    seconds = ", ".join(f"{phase} {np.mean(some):.1f}" for phase, some in spent.items() if phase)
    if child.returncode == 0:
        return f"{seconds} | {done[-1][2] / GIB:.2f} GiB"
    reason = f"takes more than {memory:g} GiB" if too_large else f"fails: {lines[-1][:80]}"
    return f"{seconds} | {reason}"


def resident_bytes(pid: int) -> int:
    """Memory that a process holds; 0 when it has ended."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * resource.getpagesize()


def processor_seconds() -> float:
    """Seconds of this process, and of those that it waited for."""
    return sum(os.times()[:4])


def run_step(name: str, size: int, store: str) -> None:
    """Run one step in this process; print its phases, seconds and peak memory as JSON."""
    start = processor_seconds()

    def timer(phase: str) -> None:
        nonlocal start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps([phase, processor_seconds() - start, peak]), flush=True)
        start = processor_seconds()

    STEPS[name](size, Path(store), timer)


def main() -> None:
    if sys.argv[1:2] == ["step"]:
        name, size, store = sys.argv[2:]
        run_step(name, int(size), store)
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    cost = commands.add_parser("cost", help="GPU hours, storage and requests")
    cost.add_argument("--pairs", type=int, default=100_000_000)
    run = commands.add_parser("run", help="a simulated run of plan and store")
    run.add_argument("--pairs", type=int, nargs="+", default=[1_000_000, 10_000_000])
    run.add_argument("--memory", type=float, default=8.0, help="GiB of each step")
    run.add_argument("--folder", type=Path, help="where the store is made, and removed afterwards")
    run.add_argument("--step", nargs="+", choices=list(STEPS), help="these steps alone")
    options = parser.parse_args()
    if options.command == "cost":
        print_cost(options.pairs)
    else:
        run_steps(options.pairs, options.memory, options.folder, options.step)


if __name__ == "__main__":
    main()
