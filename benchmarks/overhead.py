"""What the engine costs beside the bare model: the same batches, the same prepared inputs.

    python benchmarks/overhead.py [--examples 32] [--rounds 7] [--batch-size 64] [--score itc]

`tiny` is asked about scenes. The bare way has every image drawn and preprocessed, every batch cut,
and calls the model's methods one after another; the other way is `score_examples` with the same
prepared images and an empty store in memory: planning, batches, threads, checks, keeping and
looking up. Both run in every round; the median of each counts. Prints time a pair, and the ratio
both by the clock and by processor time, which other work on the machine disturbs less.
Single-threaded unless OMP_NUM_THREADS says otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import numpy as np

from contrapose.data import Example, open_images
from contrapose.engine import ImageCache, ScoringContext, plan_examples, score_examples
from contrapose.engine.batch_cuts import cut_batches, sort_pairs
from contrapose.engine.plan import count_tokens, text_only_pairs
from contrapose.evaluation.selection import select
from contrapose.models import ImagePreparer, load_model


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--examples", type=int, default=32, help="of each part")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--batch-size", type=int, default=64)
    arguments.add_argument("--score", choices=("itc", "itm", "lm"), default="itc")
    options = arguments.parse_args()
    model: Any = load_model("tiny")
    examples = scenes(options.examples)
    plan = plan_examples(examples)
    bare, cache, prepared = ready(model, options.score, examples, options.batch_size)
    asked = Prepared(model, prepared)
    rounds = []
    for _ in range(options.rounds + 1):
        one = timed(lambda: [call() for call in bare])
        context = ScoringContext(asked, batch_size=options.batch_size, images=cache)
        two = timed(lambda context=context: score_examples(context, options.score, examples))
        rounds.append((one, two))
    alone, engine = np.median(rounds[1:], axis=0)  # the first round warms up
    print(
        f"{options.score}: {len(plan.pairs):,} pairs, {len(plan.images):,} images, "
        f"{len(plan.texts):,} captions, batches of {options.batch_size}"
    )
    for name, (wall, used) in (("bare model", alone), ("engine", engine)):
        each = 1e6 * used / len(plan.pairs)
        print(
            f"    {name:10} {wall:7.3f} s, {used:7.3f} s of processor time, {each:7.1f} µs a pair"
        )
    wall, used = engine / alone
    print(f"    engine : bare model = {wall:.3f} by the clock, {used:.3f} by processor time")


class Prepared:
    """The model, with images that are preprocessed already."""

    def __init__(self, model: Any, prepared: dict[int, Any]):
        self._model, self._prepared = model, prepared
        for name in ("name", "fingerprint", "batch_size", "lm_tokens", "noise_images"):
            setattr(self, name, getattr(model, name))
        self.embed_images, self.embed_texts = model.embed_images, model.embed_texts
        self.match, self.token_logprobs = model.match, model.token_logprobs

    def prepare_image(self, image: Any) -> Any:
        """What was prepared before."""
        return self._prepared[id(image)]


def scenes(count: int) -> list[Example]:
    """Examples of all parts of the built-in benchmark that have pairs."""
    found: list[Example] = []
    for part, (_, data) in select("scenes", limit=count).parts.items():
        if isinstance(data, list):
            found += [Example(f"{part}/{e.id}", e.images, e.texts, e.match, e.tags) for e in data]
    return found


def ready(
    model: Any, score: str, examples: Sequence[Example], size: int
) -> tuple[list[Callable[[], object]], ImageCache, dict[int, Any]]:
    """The calls that must be made, their inputs prepared; the drawn images, open and prepared."""
    plan = plan_examples(examples)
    images = open_images(plan.images)
    cache = ImageCache(budget=1 << 33)
    for name, image in zip(plan.image_ids, images, strict=True):
        cache._add(name, image)
    shown: list[Any] = list(images)
    if isinstance(model, ImagePreparer):
        shown = [model.prepare_image(image) for image in images]
    prepared = {id(image): made for image, made in zip(images, shown, strict=True)}
    lengths = count_tokens(ScoringContext(model), plan.texts)
    if score == "itc":
        seen = cut_batches(np.arange(len(shown)), size)
        order = sort_pairs(text_only_pairs(len(plan.texts)), lengths)
        read = [order[places] for places in cut_batches(np.arange(len(order)), size)]
        looks = [[shown[i] for i in some] for some in seen]
        texts = [[plan.texts[j] for j in some] for some in read]
        return (
            [
                *(lambda some=some: model.embed_images(some) for some in looks),
                *(lambda some=some: model.embed_texts(some) for some in texts),
            ],
            cache,
            prepared,
        )
    order = sort_pairs(plan.pairs, lengths)
    batches = [order[places] for places in cut_batches(plan.pairs[order, 0], size)]
    method = model.match if score == "itm" else model.token_logprobs
    given = [
        ([shown[i] for i, _ in plan.pairs[some]], [plan.texts[j] for _, j in plan.pairs[some]])
        for some in batches
    ]
    return [lambda some=some: method(*some) for some in given], cache, prepared


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of processor time in all threads."""
    clock, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - used


if __name__ == "__main__":
    main()
