"""How fast a SugarCrepe-sized job is done, beside mteb and CLIP_benchmark on the same weights.

    python benchmarks/score.py                                       # a twentieth, on the CPU
    python benchmarks/score.py --rows 7511 --rounds 1                # all of it: about 50 minutes
    python benchmarks/score.py --device cuda --model vit-l-14 --dtype fp32 bf16 --rows 1500

Everybody opens the same JPEG files and scores the same rows with the same random CLIP; the ways
take turns; loading the weights is not counted, nor a first job of a tenth of the rows. The table
has seconds, pairs a second, how many times as long each way takes as Contrapose: the median over
rounds, and the range. The comparison is void unless all give every row the same scores to their
precision. On a GPU float32 is float32 for everybody: convolutions may not round to TF32.

`--rows` keeps rows, images and captions in SugarCrepe's proportions; `--annotations DIR` takes
SugarCrepe's own captions. Needs torch, transformers, CLIP's merges (open_clip_torch ships them, or
--bpe), and mteb and clip-benchmark as far as they are to be compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from scorejob.bare import DTYPES, Bare, bare_way
from scorejob.clip_benchmark_way import clip_benchmark_way
from scorejob.job import Job, make_job
from scorejob.mteb_way import mteb_way
from scorejob.roofline import image_flops, matrix_rate, token_flops, tower_rate
from scorejob.ways import Asked, Scores, Way, contrapose_way
from scorejob.weights import SHAPES, make_weights

SMALL = 10, 200
"""Rows of the job that everybody does once before the clock runs: a tenth, within these bounds."""
CLOSE = {"fp32": 5e-5, "bf16": 2e-2, "fp16": 5e-3}
"""How far scores of one dtype may lie from those of the first way; choices among captions that are
further apart than twice that are then the same."""


@dataclass
class Timed:
    """What a way took in each round, and the scores it gave."""

    way: Way
    ask: Asked
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    scores: Scores = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which rows it chooses the true caption of; a tie is no choice."""
        return np.asarray(self.scores[:, 0] > self.scores[:, 1])


def main() -> None:
    asked = _arguments()
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    folder = asked.folder / ("written" if asked.annotations is None else "published")
    job = make_job(folder / str(asked.rows), asked.rows, asked.annotations, asked.device)
    few = min(max(asked.rows // 10, SMALL[0]), SMALL[1])
    small = make_job(asked.folder / f"small-{few}", few, device=asked.device)
    weights = make_weights(asked.folder, asked.model, asked.bpe, asked.device)
    torch.backends.cudnn.allow_tf32 = False
    print(f"{asked.model}, {_machine(asked.device)}\n{job}\n")
    bare = {dtype: Bare(job, weights, asked.device, dtype) for dtype in asked.dtype}
    found = _rounds(_ways(weights, bare, asked), job, small, asked.rounds)
    _print_table(job, found)
    agree = _print_agreement(found)
    _print_parts(weights, bare, asked.device, found)
    if not agree:
        raise SystemExit("\nThe ways disagree: the comparison is void.")


def _ways(weights: Path, bare: dict[str, Bare], asked: argparse.Namespace) -> list[Way]:
    """The first one is what all others are compared with: Contrapose in float32, if asked for."""
    ways: list[Way | None] = [contrapose_way(weights, asked.device, dtype) for dtype in asked.dtype]
    ways += [bare_way(bare[dtype], dtype) for dtype in asked.dtype]
    if not asked.alone:
        ways.append(mteb_way(weights, asked.device))
        ways.append(clip_benchmark_way(weights, asked.device, amp=False))
        if asked.amp:
            ways.append(clip_benchmark_way(weights, asked.device, amp=True))
        if None in ways:
            print("mteb or clip-benchmark is not installed: left out\n")
    return [way for way in ways if way is not None]


def _rounds(ways: list[Way], job: Job, small: Job, rounds: int) -> list[Timed]:
    """Every way in every round, one after the other."""
    found = []
    for way in ways:
        start = time.perf_counter()
        ask = way.load()
        print(f"loaded {_name(way)} in {time.perf_counter() - start:.1f} s", flush=True)
        ask(small)
        found.append(Timed(way, ask))
    for number in range(rounds):
        for timed in found:
            start, used = time.perf_counter(), _cpu()
            timed.scores = timed.ask(job)
            timed.seconds.append(time.perf_counter() - start)
            timed.cpu.append(_cpu() - used)
            took = f"{timed.seconds[-1]:.2f} s, {timed.cpu[-1]:.2f} s of CPU"
            print(f"round {number + 1}: {_name(timed.way)}: {took}", flush=True)
    return found


def _cpu() -> float:
    """CPU seconds of this process and of the workers that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _print_table(job: Job, found: list[Timed]) -> None:
    ours = {each.way.dtype: each for each in found if _is_ours(each.way)}
    print(f"\n{'':26}{'seconds':>9}{'CPU s':>9}{'pairs/s':>9}   times as long as contrapose")
    print(f"{'':53}   " + "".join(f"{dtype:20}" for dtype in ours))
    for each in found:
        took = statistics.median(each.seconds)
        ratios = [
            [a / b for a, b in zip(each.seconds, mine.seconds, strict=True)]
            for mine in ours.values()
        ]
        shown = "".join(
            f"{f'{statistics.median(some):.2f} ({min(some):.2f}–{max(some):.2f})':20}"
            for some in ratios
        )
        cpu, rate = statistics.median(each.cpu), 2 * len(job.rows) / took
        print(f"{_name(each.way):26}{took:9.2f}{cpu:9.2f}{rate:9.0f}   {shown}")
    for each in found:
        print(f"  {_name(each.way)}: {each.way.note}")


def _print_agreement(found: list[Timed]) -> bool:
    """Whether all ways give the same scores to their precision."""
    print()
    first, good = found[0], True
    margin = np.abs(first.scores[:, 0] - first.scores[:, 1])
    for each in found:
        limit = max(CLOSE[each.way.dtype], CLOSE[first.way.dtype])
        apart = float(np.abs(each.scores - first.scores).max())
        other = each.right != first.right
        near = f", all of captions within {margin[other].max():.1e}" if other.any() else ""
        good &= apart <= limit
        print(
            f"{_name(each.way)}: {each.right.mean():.4f} right, scores within {apart:.1e} of the "
            f"first way's, {int(other.sum())} of {len(other)} choices differ{near}"
            + ("" if apart <= limit else f"; more than {limit:.0e} apart: VOID")
        )
    return good


def _print_parts(weights: Path, bare: dict[str, Bare], device: str, found: list[Timed]) -> None:
    """Where the time goes, and how much of the device it uses."""
    flops = image_flops(weights)
    print()
    for each in found:
        if not _is_ours(each.way):
            continue
        alone, dtype = bare[each.way.dtype], DTYPES[each.way.dtype]
        parts = ", ".join(f"{name} {took:.2f} s" for name, took in alone.seconds.items())
        rate = matrix_rate(device, dtype)
        tower = tower_rate(alone.model, flops, device, dtype)
        images, texts = len(alone.job.names), len(alone.job.captions)
        whole = images * flops + alone.tokens * token_flops(weights, alone.tokens // texts)
        share = whole / statistics.median(each.seconds) / rate
        print(
            f"{each.way.dtype}: {parts}; "
            f"decoding and preprocessing {alone.decoding:.2f} s in one thread\n"
            f"  matrix products {rate / 1e12:.2f} TFLOP/s; the image tower "
            f"({flops / 1e9:.1f} GFLOP an image) reaches {tower / rate:.0%} of them in large "
            f"batches, contrapose's whole job {share:.0%}"
        )


def _is_ours(way: Way) -> bool:
    return way.name == "contrapose"


def _name(way: Way) -> str:
    return f"{way.name}, {way.dtype}"


def _machine(device: str) -> str:
    if device.startswith("cuda"):
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"{torch.get_num_threads()} CPU threads, torch {torch.__version__}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=375)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--model", choices=list(SHAPES), default="vit-b-32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", nargs="+", choices=list(DTYPES), default=["fp32"])
    parser.add_argument("--amp", action="store_true", help="also CLIP_benchmark's own default")
    parser.add_argument("--alone", action="store_true", help="without the others")
    parser.add_argument("--annotations", type=Path, help="SugarCrepe's folder of JSON files")
    parser.add_argument("--bpe", type=Path, help="CLIP's merges, where open_clip is not there")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "contrapose-score"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
