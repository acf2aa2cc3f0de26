"""A small evaluation in processes of its own, which are killed or run side by side.

    python -m tests.engine.killed FOLDER DELAY…

does one run in peace, one that is killed after each delay and then finished, one in three shards of
which one is killed, and two at once.
Everything is imported once and each evaluation forked, so that ten kills cost little.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image

from contrapose.data import registry
from contrapose.engine import AnswerStore, ScoringContext, parse_shard, part_writer, score_examples
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.results import write_run
from tests.fakes import Fake, pairs, patches


@dataclass
class Slow(Fake):
    """A slow model whose numbers depend slightly on the batch, as those of real models do."""

    def _tick(self) -> None:
        time.sleep(0.004)

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        return super().match(images, texts) + 1e-6 * len(texts)

    def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        result = super().embed_texts(texts)
        return torch.nn.functional.normalize(result + 1e-6 * len(texts), dim=1)


def evaluate(store: str, run: str, shard: tuple[int, int] | None = None) -> None:
    registry._plugins = lambda: {"patches": patches()}  # type: ignore[assignment]
    part_writer.WRITE_INTERVAL = 0.01
    request = EvalRequest(
        ("patches",), resamples=200, cache=store, batch_size=5, shard=parse_shard(shard)
    )
    runs = evaluate_models([Slow()], request)
    if shard is None:
        write_run(runs, Path(run))


def forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def killed(store: str, run: str, delays: Sequence[float]) -> None:
    hit = 0
    for i, delay in enumerate(delays):
        child = forked(lambda i=i: evaluate(store, f"{run}.{i}"))  # type: ignore[misc]
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        hit += os.waitpid(child, 0)[1] != 0
    child = forked(lambda: evaluate(store, run))
    assert os.waitpid(child, 0)[1] == 0
    print(hit)


def shards(store: str, run: str) -> None:
    """Run three shards at once, kill the second, and let an ordinary run do the rest."""

    def work(i: int) -> None:
        evaluate(store, run, (i, 3))
        if i == 2:  # on a fast machine it waits for its end
            signal.pause()

    children = [forked(lambda i=i: work(i)) for i in (1, 2, 3)]  # type: ignore[misc]
    time.sleep(0.06)
    os.kill(children[1], signal.SIGKILL)
    assert [os.waitpid(child, 0)[1] != 0 for child in children] == [False, True, False]
    child = forked(lambda: evaluate(store, run))
    assert os.waitpid(child, 0)[1] == 0


def both(store: str) -> None:
    def work(name: str) -> None:
        part_writer.WRITE_INTERVAL = 0.0
        for _ in range(3):
            for score in ("itc", "itm", "lm"):
                context = ScoringContext(
                    Slow(), AnswerStore(store), batch_size=3, cache_use="refresh"
                )
                score_examples(context, score, pairs(8 if name == "a" else 12))

    children = [forked(lambda name=name: work(name)) for name in ("a", "b")]  # type: ignore[misc]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]


if __name__ == "__main__":
    gc.freeze()  # forked processes copy no page to look for garbage
    folder = Path(sys.argv[1])
    killed(f"{folder}/calm", f"{folder}/run-calm", ())
    killed(f"{folder}/store", f"{folder}/run", [float(delay) for delay in sys.argv[2:]])
    shards(f"{folder}/sharded", f"{folder}/run-sharded")
    both(f"{folder}/both")
