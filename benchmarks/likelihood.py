"""How fast captions' likelihoods are, beside a plain loop over pairs and plain batches of them.

    python benchmarks/likelihood.py --size small                       # on the CPU, a minute
    python benchmarks/likelihood.py --device cuda --size 7b            # LLaVA-1.5-7B, BLIP-large

Architectures of random weights; captions of 12 tokens and an end, LLaVA with a prompt of 30 tokens.
The ways take turns on the same numbers, each has done the whole job once before the clock runs, and
plain batches have the best of a few sizes. The table has seconds, pairs a second, how many times as
long each plain way takes as Contrapose (median over rounds, and the range), and the share of what
the device's matrix products can do. The comparison is void unless all ways give the same scores to
their precision. `prior` asks many captions under the same three images: the plain loop is timed on
some of them and compared pair by pair.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from likelihoodjob.job import Asked, Job, make_job
from scorejob.roofline import matrix_rate

KINDS = {"llava": "Llava", "blip": "Blip"}
"""Architectures: module and class of each."""
CLOSE = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
"""How far mean log-probabilities may lie from those of the plain loop."""
SIZES = {"cuda": (8, 16, 32), "cpu": (8, 32)}
"""Plain batches that are tried."""
PRIOR = {"7b": (1536, 48), "small": (128, 12)}
"""Captions under every noise image: for Contrapose, and for the plain loop."""


@dataclass
class Way:
    """One of those compared.

    Attributes:
        name: for the table.
        ask: does the job.
        job: it.
        flops: operations of it.
        seconds: what it took in each round.
        scores: what it gave.
    """

    name: str
    ask: Callable[[Job], Tensor]
    job: Job
    flops: float
    seconds: list[float] = field(default_factory=list)
    scores: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def each(self) -> float:
        """Seconds a pair, the median over rounds."""
        return statistics.median(self.seconds) / self.job.pairs


def main() -> None:
    asked = _arguments()
    asked.images = asked.images or {"7b": 32, "small": 8}[asked.size]
    dtype = torch.bfloat16 if asked.device.startswith("cuda") else torch.float32
    rate = matrix_rate(asked.device, dtype)
    print(f"{_machine(asked.device)}, {dtype}; matrix products {rate / 1e12:.2f} TFLOP/s")
    agree = True
    with torch.inference_mode():
        for name, kind in KINDS.items():
            if asked.only and name not in asked.only and asked.only != ["prior"]:
                continue
            start = time.perf_counter()
            module = import_module(f"likelihoodjob.{name}")
            model: Asked = getattr(module, kind)(asked.size, asked.device, dtype)
            print(f"\n{name} ({asked.size}), built in {time.perf_counter() - start:.1f} s")
            if asked.only != ["prior"]:
                for captions in asked.captions:
                    agree &= _pairs(model, captions, asked, dtype, rate)
            agree &= _prior(model, asked, dtype, rate)
            del model
    if not agree:
        raise SystemExit("\nThe ways disagree: the comparison is void.")


def _pairs(
    model: Asked, captions: int, asked: argparse.Namespace, dtype: torch.dtype, rate: float
) -> bool:
    """Images with a few captions each."""
    job = make_job(model, asked.images, captions, asked.device, dtype)
    plain, ours = model.plain_flops(job), model.packed_flops(job)
    size = _best_size(model, job, asked.device)
    ways = [
        Way("one by one", model.one_by_one, job, plain),
        Way(f"batches of {size}", lambda job: model.batched(job, size), job, plain),
        Way("contrapose", model.packed, job, ours),
    ]
    _rounds(ways, asked.rounds, asked.device)
    print(f"\n{asked.images} images, {captions} captions each")
    _table(ways, rate)
    return _agree(ways, dtype)


def _prior(model: Asked, asked: argparse.Namespace, dtype: torch.dtype, rate: float) -> bool:
    """Three images under which every caption is asked."""
    many, few = PRIOR[asked.size]
    whole = make_job(model, 3, many, asked.device, dtype)
    same = whole.captions[:1].expand(3, -1, -1)
    job, some = Job(whole.pixels, same), Job(whole.pixels, same[:, :few])
    ways = [
        Way("one by one", model.one_by_one, some, model.plain_flops(some)),
        Way("contrapose", model.prior, job, model.packed_flops(job)),
    ]
    _rounds(ways, asked.rounds, asked.device)
    print(f"\nprior: 3 images, {many} captions under each; the plain loop {few} of them")
    _table(ways, rate)
    ways[1].scores = ways[1].scores[:, :few]
    return _agree(ways, dtype)


def _best_size(model: Asked, job: Job, device: str) -> int:
    """The fastest batch size, each tried twice."""
    sizes = SIZES[torch.device(device).type]
    tried = {
        size: min(_timed(partial(model.batched, job, size), device)[0] for _ in range(2))
        for size in sizes
    }
    return min(tried, key=lambda size: tried[size])


def _rounds(ways: list[Way], rounds: int, device: str) -> None:
    for number in range(rounds + 1):
        for way in ways:
            took, way.scores = _timed(partial(way.ask, way.job), device)
            if number:
                way.seconds.append(took)


def _timed(work: Callable[[], Tensor], device: str) -> tuple[float, Tensor]:
    start = time.perf_counter()
    found = work().cpu()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def _table(ways: list[Way], rate: float) -> None:
    ours = ways[-1]
    print(f"{'':18}{'seconds':>9}{'pairs/s':>10}{'roofline':>10}   times as long as contrapose")
    for way in ways:
        ratios = [
            (a / way.job.pairs) / (b / ours.job.pairs)
            for a, b in zip(way.seconds, ours.seconds, strict=True)
        ]
        part = way.flops / statistics.median(way.seconds) / rate
        print(
            f"{way.name:18}{statistics.median(way.seconds):9.3f}{1 / way.each:10.1f}{part:10.0%}   "
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        )


def _agree(ways: list[Way], dtype: torch.dtype) -> bool:
    first = ways[0].scores
    agree = True
    for way in ways[1:]:
        apart = float((way.scores - first).abs().max())
        agree &= apart <= CLOSE[dtype]
        print(f"{way.name}: at most {apart:.2g} from {ways[0].name} (spread {first.std():.2g})")
    return agree


def _machine(device: str) -> str:
    if device.startswith("cuda"):
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"{torch.get_num_threads()} CPU threads, torch {torch.__version__}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", choices=("7b", "small"), default="small")
    parser.add_argument("--captions", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--images", type=int, help="32, or 8 small ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=("llava", "blip", "prior"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
