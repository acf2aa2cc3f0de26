"""EqSim (v1 over all pairs, v2 over the 8 closest) beside InfoNCE, forwards and backwards.

    python benchmarks/eqsim.py [--device cuda] [--sizes 256 1024 …] [--width 512] [--rounds 20]

All ways get the same features in float32 and give the gradients of both sides and of the scale:

- plain: InfoNCE as people write it, two `cross_entropy` of the matrix and its transpose;
- ours: `InfoNCE`;
- eqsim: `EqSim` alone;
- both: `pairwise` with `InfoNCE` and `EqSim`, from one pass over the cosines;
- naive: plain plus EqSim on whole matrices by autograd, where that fits;
- paper: both with EqSim as the paper writes it (softmaxed scores, each pair hinged).

Times are medians, the ways taking turns; memory is the peak above the features. Columns are ratios
to plain, or to ours where plain does not fit into memory. On CUDA a whole training step of a CLIP
ViT-B/32 with random weights (transformers, bfloat16, AdamW) is timed too, with plain InfoNCE and
with both.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from contrapose.losses import EqSim, InfoNCE, LossBatch, pairwise

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]

SIZES = {"cpu": [256, 512, 1024, 2048, 4096, 8192], "cuda": [2**n for n in range(8, 16)]}
CLOSE = 8
BETA = 0.5
MATRICES = {"plain": 5, "naive": 14}
"""Whole matrices that a way holds at once, about."""
SECONDS = {"cpu": 20.0, "cuda": 3.0}
"""About how long all rounds of one size may take."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--device", choices=["cpu", "cuda"])
    arguments.add_argument("--sizes", type=int, nargs="+", help="pairs in a batch")
    arguments.add_argument("--width", type=int, default=512)
    arguments.add_argument("--rounds", type=int, default=20, help="at most so many")
    arguments.add_argument("--step-batch", type=int, nargs="+", default=[256, 1024])
    options = arguments.parse_args()
    kind = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(kind)
    name = torch.cuda.get_device_name() if kind == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"{kind}: {name}, torch {torch.__version__}, width {options.width}")
    ways: dict[str, Loss] = {
        "plain": plain,
        "ours": ours,
        "eqsim": eqsim,
        "both": both,
        "naive": naive,
        "paper": paper,
    }
    print(f"{'':>7} {'plain':>18} | time over plain's {'':>18} | memory over plain's")
    others = list(ways)[1:]
    heads = " ".join(f"{it:>6}" for it in others)
    print(f"{'B':>7} {'ms':>9} {'MB':>8} | {heads} | {heads}")
    for size in options.sizes or SIZES[kind]:
        chosen = {it: way for it, way in ways.items() if fits(it, size, device)}
        spent, peak = measured(chosen, size, options.width, device, options.rounds)
        base = "plain" if "plain" in chosen else "ours"
        mark = "" if base == "plain" else "  (plain does not fit: over ours)"
        times, memories = (
            " ".join(
                f"{found[it] / found[base]:>6.2f}" if it in found else f"{'–':>6}" for it in others
            )
            for found in (spent, peak)
        )
        line = f"{size:>7} {1e3 * spent[base]:>9.2f} {peak[base] / 1e6:>8.1f}"
        print(f"{line} | {times} | {memories}{mark}", flush=True)
    if kind == "cuda":
        if find_spec("transformers") is None:
            print("transformers is not installed: no training step.")
            return
        for batch in options.step_batch:
            step(batch, options.rounds)


def plain(image: Tensor, text: Tensor, scale: Tensor) -> Tensor:
    logits = scale * (image @ text.T)
    aim = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, aim) + F.cross_entropy(logits.T, aim)) / 2


def ours(image: Tensor, text: Tensor, scale: Tensor) -> Tensor:
    return InfoNCE()(LossBatch(image, text, scale=scale))


def eqsim(image: Tensor, text: Tensor, _: Tensor) -> Tensor:
    return EqSim(close=CLOSE)(LossBatch(image, text))


def both(image: Tensor, text: Tensor, scale: Tensor) -> Tensor:
    nce, eq = pairwise(LossBatch(image, text, scale=scale), [InfoNCE(), EqSim(close=CLOSE)])
    return nce + BETA * eq


def paper(image: Tensor, text: Tensor, scale: Tensor) -> Tensor:
    nce, eq = pairwise(LossBatch(image, text, scale=scale), [InfoNCE(), EqSim.paper()])
    return nce + BETA * eq


def naive(image: Tensor, text: Tensor, scale: Tensor) -> Tensor:
    """Whole matrices: d and e of all pairs, and how often each is close."""
    s = image @ text.T
    size = len(s)
    with torch.no_grad():
        away = s.clone().fill_diagonal_(-torch.inf)
        close = torch.zeros_like(s)
        one = torch.ones(size, CLOSE, device=s.device)
        close.scatter_add_(1, away.topk(CLOSE, dim=1).indices, one)
        close.scatter_add_(1, away.T.topk(CLOSE, dim=1).indices, one)
    d, e = s - s.T, s.diagonal()[:, None] - s.diagonal()
    v1 = d.square().sum() / (size * (size - 1))
    v2 = (close * ((e - d).square() + (e + d).square())).sum() / (2 * CLOSE * size)
    return plain(image, text, scale) + BETA * (v1 + v2)


def fits(way: str, size: int, device: torch.device) -> bool:
    """Whether a way has room."""
    needed = MATRICES.get(way, 0) * 4 * size**2
    if device.type == "cuda":
        return needed < torch.cuda.get_device_properties(device).total_memory * 0.9
    return needed < available()


def available() -> int:
    """Bytes that may be taken without swapping; 4 GB where nobody tells."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(it.split()[1]) * 1024 for it in lines if it.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 4 * 10**9


def features(size: int, width: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Unit vectors with a common part, and right pairs somewhat alike, as a model's are."""
    make = torch.Generator().manual_seed(size)
    image = torch.randn(size, width, generator=make)
    text = 0.5 * image + torch.randn(size, width, generator=make)
    found = (F.normalize(it + 0.5, dim=1).to(device).requires_grad_() for it in (image, text))
    return *found, torch.tensor(14.3, device=device, requires_grad=True)  # type: ignore[return-value]


def measured(
    ways: dict[str, Loss], size: int, width: int, device: torch.device, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds and peak bytes of each way."""
    inputs = features(size, width, device)
    spent: dict[str, list[float]] = {way: [] for way in ways}
    peak = {}
    for way, loss in ways.items():  # the first time warms up
        peak[way] = peak_of(loss, inputs, device)
    start = time.perf_counter()
    for done in range(rounds):
        if done >= 2 and time.perf_counter() - start > SECONDS[device.type]:
            break
        for way, loss in ways.items():
            spent[way].append(timed(loss, inputs, device))
    return {way: statistics.median(it) for way, it in spent.items()}, peak


def timed(loss: Loss, inputs: tuple[Tensor, Tensor, Tensor], device: torch.device) -> float:
    for it in inputs:
        it.grad = None
    wait(device)
    start = time.perf_counter()
    torch.autograd.backward(loss(*inputs))
    wait(device)
    return time.perf_counter() - start


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def peak_of(loss: Loss, inputs: tuple[Tensor, Tensor, Tensor], device: torch.device) -> float:
    """The most bytes that the device's allocator has out at once, above what it had before."""
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        timed(loss, inputs, device)
        return float(torch.cuda.max_memory_allocated() - before)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        timed(loss, inputs, device)
    events = profiler.profiler.kineto_results.events() if profiler.profiler else []
    changes = sorted(
        (event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"
    )
    return float(max(accumulate(change for _, change in changes), default=0))


def step(batch: int, rounds: int) -> None:
    """A training step of CLIP ViT-B/32 with plain InfoNCE, and what both add to it."""
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(0)
    model = CLIPModel(CLIPConfig()).cuda().train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    pixels = torch.randn(batch, 3, 224, 224, device="cuda")
    tokens = torch.randint(1, 49_000, (batch, 77), device="cuda")
    tokens[:, -1] = 49_407

    def one(loss: Loss) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(input_ids=tokens, pixel_values=pixels)
        image, text = out.image_embeds.float(), out.text_embeds.float()
        torch.autograd.backward(loss(image, text, model.logit_scale.exp()))
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return time.perf_counter() - start

    ways = {"plain": plain, "ours": ours, "both": both}
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(3 + rounds):
        for way, loss in ways.items():
            seconds = one(loss)
            if turn >= 3:
                spent[way].append(seconds)
    base = statistics.median(spent["plain"])
    shares = ", ".join(f"{way} {statistics.median(it) / base:.3f}" for way, it in spent.items())
    print(f"step of CLIP ViT-B/32, B = {batch}: {1e3 * base:.1f} ms; time over plain's: {shares}")


if __name__ == "__main__":
    main()
