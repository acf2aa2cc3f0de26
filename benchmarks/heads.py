"""Heads on the Flickr8k features, 30 epochs at batch 4096, against a plain loop of PyTorch.

    python benchmarks/heads.py --features DIR [--device cpu|cuda] [--epochs 30] [--tau 0.1]
        [--sweep 0.1 0.05 0.03 0.02 0.01]

DIR has `train_images.npy`, `train_texts.npy`, `train_image_of_text.npy` and the same for `test`;
without it, features of the same shape are drawn, which is enough for times. Both sides learn linear
heads to 512 numbers with AdamW at the same rate and see each caption once an epoch. The plain loop
is what one would write: standardised features, two `nn.Linear`, cosines, captions of one image
masked, two cross-entropies. Ours includes the closed-form start. The two take turns, an epoch at a
time, so that a busy machine slows both. Prints seconds, their ratio, and test recalls of both.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from contrapose.metrics import recalls
from contrapose.metrics.retrieval import WAYS
from contrapose.tune.heads.features import Features, read_features
from contrapose.tune.heads.sweep import KS, sweep
from contrapose.tune.heads.training import HeadTrainer
from contrapose.tune.heads.vectors import embed_features
from contrapose.tune.settings import HeadSettings

T = TypeVar("T")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--features", type=Path, help="without it, random ones")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--epochs", type=int, default=30)
    arguments.add_argument("--batch-size", type=int, default=4096)
    arguments.add_argument("--tau", type=float, default=0.1)
    arguments.add_argument("--sweep", type=float, nargs="*", help="also sweep these temperatures")
    arguments.add_argument("--threads", type=int, default=2, help="of the CPU")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    if options.features is None:
        train, test = drawn(6000, 5), drawn(1000, 5)
    else:
        train, test = (read_features(options.features, part) for part in ("train", "test"))
    settings = HeadSettings(tau=options.tau, epochs=options.epochs, batch_size=options.batch_size)
    warm = HeadSettings(epochs=1, batch_size=64, width=32)
    few = train.of_images(np.arange(64))
    for way in (Ours, Plain):
        way(few, warm, options.device).run(1)
    seconds = {"plain": 0.0, "ours": 0.0}
    plain = timed(seconds, "plain", partial(Plain, train, settings, options.device))
    ours = timed(seconds, "ours", partial(Ours, train, settings, options.device))
    for epoch in range(options.epochs):
        timed(seconds, "plain", partial(plain.run, epoch + 1))
        timed(seconds, "ours", partial(ours.run, epoch + 1))
    print(f"{options.epochs} epochs, batch {options.batch_size}, τ {options.tau}, {options.device}")
    for name, embed in (("plain", plain.vectors), ("ours", ours.vectors)):
        images, texts = embed(test)
        found = recalls((images @ texts.T).cpu().numpy(), test.pairs)
        shares = " ".join(f"{100 * each.mean():.1f}" for each in found.values())
        print(f"{name:>6}: {seconds[name]:8.2f} s, image → text and text → image R@1/5/10 {shares}")
    print(f"ours takes {seconds['ours'] / seconds['plain']:.2f}× the time of the plain loop")
    if options.sweep:
        swept(train, test, options)


def swept(train: Features, test: Features, options: argparse.Namespace) -> None:
    """The τ × λ sweep, in lines: R@1/5/10 with their intervals."""
    settings = HeadSettings(epochs=options.epochs, batch_size=options.batch_size)
    scales = (0.5, 1.0, 1.5, 2.0)
    for run in sweep(train, test, options.sweep, scales, settings, device=options.device):
        assert run.measured is not None  # noqa: S101 - there are test features
        rows = {way: {k: run.measured.retrieval[f"{way}_r{k}"] for k in KS} for way in WAYS}
        rows |= {
            f"delta λ={scale:g}": {k: values[f"r{k}"] for k in KS}
            for scale, values in run.measured.deltas.items()
        }
        for name, row in rows.items():
            cells = " ".join(
                f"{100 * it.value:5.1f} ({100 * it.low:.1f}–{100 * it.high:.1f})"
                for it in row.values()
            )
            print(f"τ={run.tau:<5g} {name:<14} {cells}  {run.seconds:.1f} s")


class Ours:
    """What `train_heads` does, a part at a time."""

    def __init__(self, features: Features, settings: HeadSettings, device: str):
        self.training = HeadTrainer(features, settings, torch.device(device))
        self.captions, self.batch = len(features.texts), settings.batch_size
        self.steps: Iterator[Tensor] = self.training.steps()

    def run(self, epoch: int) -> None:
        """Up to the end of an epoch."""
        while self.training.seen < epoch * self.captions:
            if next(self.steps, None) is None:
                return

    def vectors(self, test: Features) -> tuple[Tensor, Tensor]:
        """Of test features."""
        return embed_features(self.training.trained(), test)


class Plain:
    """A loop as one would write it."""

    def __init__(self, features: Features, settings: HeadSettings, device: str):
        torch.manual_seed(settings.seed)
        self.images, self.texts = (
            torch.from_numpy(np.array(rows)).float().to(device)
            for rows in (features.images, features.texts)
        )
        self.mean, self.spread = self.images.mean(0), self.images.std(0) + 1e-6
        self.images = (self.images - self.mean) / self.spread
        self.owners = torch.from_numpy(features.image_of_text.astype(np.int64)).to(device)
        self.heads = nn.ModuleList(
            nn.Linear(rows.shape[1], settings.width) for rows in (self.images, self.texts)
        ).to(device)
        self.optimizer = torch.optim.AdamW(self.heads.parameters(), lr=settings.lr)
        self.settings, self.device = settings, device

    def run(self, _: int) -> None:
        """One epoch."""
        order = torch.randperm(len(self.texts)).to(self.device)
        for rows in torch.split(order, self.settings.batch_size):
            own = self.owners[rows]
            image = normalize(self.heads[0](self.images[own]), dim=1)
            text = normalize(self.heads[1](self.texts[rows]), dim=1)
            logits = image @ text.T / self.settings.tau
            same = own[:, None] == own[None]
            same.fill_diagonal_(False)
            logits = logits.masked_fill(same, -torch.inf)
            right = torch.arange(len(rows), device=self.device)
            loss = (cross_entropy(logits, right) + cross_entropy(logits.T, right)) / 2
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    @torch.no_grad()
    def vectors(self, test: Features) -> tuple[Tensor, Tensor]:
        """Of test features."""
        images, texts = (
            torch.from_numpy(np.array(rows)).float().to(self.device)
            for rows in (test.images, test.texts)
        )
        images = (images - self.mean) / self.spread
        return normalize(self.heads[0](images), dim=1), normalize(self.heads[1](texts), dim=1)


def drawn(images: int, each: int) -> Features:
    """Random features of Flickr8k's shape, in which captions tell something of their images."""
    draw = np.random.default_rng(images)
    scenes = draw.normal(size=(images, 64))
    owners = np.repeat(np.arange(images), each)
    maps = np.random.default_rng(0).normal(size=(64, 1280 + 384)) / 8
    rows = scenes @ maps[:, :1280] + draw.normal(size=(images, 1280))
    texts = scenes[owners] @ maps[:, 1280:] + draw.normal(size=(len(owners), 384))
    return Features(rows.astype(np.float32), texts.astype(np.float32), owners)


def timed(seconds: dict[str, float], name: str, work: Callable[[], T]) -> T:
    """What the work gives; its time is added to the others of its name."""
    start = time.perf_counter()
    found = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    seconds[name] += time.perf_counter() - start
    return found


if __name__ == "__main__":
    main()
