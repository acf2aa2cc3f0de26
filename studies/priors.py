"""Does a captioner's language prior help or hurt? Lin et al. (2024), on the built-in world.

    python studies/priors.py [--examples 200] [--pixels 96 16] [--images 8] [--cache DIR]

The paper's claims, with `tiny` in the part of the captioner:

1. A likelihood beats a cosine where words change places.
2. Scenario 1, test captions drawn as the training captions were (`scenes-skewed`): the raw
   likelihood is near its best, and taking the whole prior out (α = 1) costs.
3. Scenario 2, captions without that skew (`scenes`): the raw likelihood is held back (α chosen on
   other examples does better), and α = 1 helps.
4. α chosen on one half of the examples does as well on the other as the better of the two.

`tiny` sees nearly every change at full size, which leaves a prior little to decide, so pictures are
also shown at a few pixels across: the same model with weaker evidence. The prior is taken under
noise, and under pictures of the training world. Not every change is one that the skew of the world
decides: shuffled words are unlikely in either, so that the attributes stand by themselves beside
all parts. α is one for all parts, as a user would have it; a part counts by the metric that a
choice among captions decides, and every part alike. "Prior alone" is how often that would be right.

A claim on a difference is confirmed when its 95 % interval lies on the claimed side of 0, refuted
when it lies on the other, and open when it holds 0. "Near" and "as well as" mean within a point.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from PIL import Image

from contrapose import metrics
from contrapose.data import Example, Gallery, open_images
from contrapose.data.images import ImageSource
from contrapose.engine import (
    AnswerStore,
    FolderImages,
    ImageCache,
    NoiseImages,
    Prior,
    ScoringContext,
    default_store_folder,
    describe_prior,
    score_examples,
    score_priors,
)
from contrapose.evaluation.selection import Selection, select
from contrapose.metrics import AlphaIntervals, FloatArray, IntArray
from contrapose.models import Model, load_model

WORLDS = {"scenes-skewed": "scenario 1, skewed", "scenes": "scenario 2, balanced"}
SWAPS = ("swap-attribute", "swap-relation")
ATTRIBUTES = (
    "replace-color",
    "replace-shape",
    "replace-size",
    "replace-material",
    "swap-attribute",
)
HEADER = (
    "world", "parts", "pixels", "prior", "prior alone", "raw", "α = 1", "α = 1 − raw",
    "cross-validated", "its α", "its gain on raw", "oracle",
)  # fmt: skip
FULL = 96
POINT = 0.01


@dataclass(frozen=True)
class Coarse:
    """A picture shown at a few pixels across.

    Attributes:
        whole: what makes it.
        pixels: how many.
    """

    whole: ImageSource
    pixels: int

    @property
    def content(self) -> str:
        """A name for what it shows."""
        return f"{self.whole.content} at {self.pixels} pixels"

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> list[Image.Image]:
        """Make them whole, and take the detail away."""
        whole = type(sources[0].whole).open_many([source.whole for source in sources])
        return [
            image.resize((source.pixels,) * 2, Image.Resampling.BOX).resize(
                image.size, Image.Resampling.BICUBIC
            )
            for image, source in zip(whole, sources, strict=True)
        ]


@dataclass(frozen=True)
class Pool:
    """All examples of a world: where on the α axis each is right.

    Attributes:
        intervals: of each example.
        blind: whether each is right by the prior alone.
        part: the number of its part.
        clusters: examples that share an image.
    """

    intervals: AlphaIntervals
    blind: FloatArray
    part: IntArray
    clusters: IntArray

    @classmethod
    def of(cls, parts: Sequence[Pool]) -> Pool:
        """Several parts as one."""
        sizes = np.cumsum([0, *(len(part.part) for part in parts)])
        return cls(
            AlphaIntervals(
                np.concatenate([part.intervals.lower for part in parts]),
                np.concatenate([part.intervals.upper for part in parts]),
            ),
            np.concatenate([part.blind for part in parts]),
            np.repeat(np.arange(len(parts)), np.diff(sizes)),
            np.concatenate(
                [part.clusters + start for part, start in zip(parts, sizes, strict=False)]
            ),
        )

    def right(self, alpha: float) -> FloatArray:
        """Which are right at an α, as numbers."""
        return self.intervals.right_at(alpha).astype(np.float64)

    def mean(self, values: FloatArray) -> float:
        """The mean over parts of their means."""
        return float(metrics.macro_mean(values, self.part).value())

    def difference(self, values: FloatArray, others: FloatArray) -> Difference:
        """Of two outcomes of the same examples, with its paired interval."""
        statistic = metrics.macro_mean(values - others, self.part)
        low, high = metrics.interval(statistic, clusters=self.clusters)
        return Difference(float(statistic.value()), low, high)


@dataclass(frozen=True)
class Difference:
    """A paired difference with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.value:+.1f} ({low:+.1f} to {high:+.1f})"

    def says(self, side: int) -> str:
        """What it says of a claim that it is above (1) or below (−1) zero."""
        if self.low > 0 or self.high < 0:
            return "confirmed" if (self.value > 0) == (side > 0) else "refuted"
        return "open"


@dataclass(frozen=True)
class Found:
    """What one prior does in one world, as fractions."""

    blind: float
    raw: float
    pmi: float
    cost: Difference
    tuned: float
    gain: Difference
    spread: float
    alpha: float
    oracle: float
    oracle_alpha: float

    @property
    def row(self) -> tuple[str, ...]:
        """The same for the table."""
        return (
            f"{100 * self.blind:.1f}",
            f"{100 * self.raw:.1f}",
            f"{100 * self.pmi:.1f}",
            str(self.cost),
            f"{100 * self.tuned:.1f} ± {100 * self.spread:.1f}",
            f"{self.alpha:.2f}",
            str(self.gain),
            f"{100 * self.oracle:.1f} at {self.oracle_alpha:.2f}",
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask, and print the tables and what they say of the claims."""
    given = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    given.add_argument("--examples", type=int, default=200, help="of each part")
    given.add_argument("--pixels", type=int, nargs="+", default=[FULL, 16], help="across")
    given.add_argument("--images", type=int, default=8, help="of the training world, as a prior")
    given.add_argument("--parts", nargs="+", default=[], help="only these parts")
    given.add_argument("--cache", default=str(default_store_folder()))
    options = given.parse_args(arguments)
    model = load_model("tiny")
    context = ScoringContext(model, AnswerStore(options.cache), images=ImageCache(1 << 29))
    worlds = {name: select(name, subsets=options.parts, limit=options.examples) for name in WORLDS}
    _swaps(context, worlds["scenes"])
    with tempfile.TemporaryDirectory() as folder:
        priors = (NoiseImages(), FolderImages(_training_pictures(Path(folder), options.images)))
        _priors(context, worlds, options.pixels, priors, model)


def _swaps(context: ScoringContext, world: Selection) -> None:
    parts = {name: world.parts[name][1] for name in SWAPS if name in world.parts}
    rows, verdicts = [], []
    for name, data in parts.items():
        examples = _listed(data)
        scored = {score: score_examples(context, score, examples) for score in ("itc", "itm", "lm")}
        frame = scored["lm"].frame
        right = {
            score: metrics.text_score(answers.scores, frame.match, frame.present).values
            for score, answers in scored.items()
        }
        none = np.zeros(len(frame))
        whole = Pool(AlphaIntervals(none, none), none, none.astype(int), _codes(frame))
        difference = whole.difference(right["lm"], right["itc"])
        rows.append(
            (name, *(f"{100 * right[score].mean():.1f}" for score in right), str(difference))
        )
        verdicts.append(f"1. lm beats itc on {name}: {difference.says(1)}, {difference}")
    _table(("balanced world", "itc", "itm", "lm", "lm − itc"), rows)
    print("\n".join(verdicts), end="\n\n")


def _priors(
    context: ScoringContext,
    worlds: dict[str, Selection],
    pixels: Sequence[int],
    priors: Sequence[Prior],
    model: Model,
) -> None:
    rows: list[tuple[str, ...]] = []
    verdicts: list[str] = []
    for size in pixels:
        for prior in priors:
            named = "noise" if isinstance(prior, NoiseImages) else "training pictures"
            for world, words in WORLDS.items():
                parts = answered(context, worlds[world], size, prior)
                some = [part for name, part in parts.items() if name in ATTRIBUTES]
                for what, chosen in (("attributes", some), ("all parts", list(parts.values()))):
                    if not chosen:
                        continue
                    found = study(Pool.of(chosen))
                    rows.append((words, what, str(size), named, *found.row))
                    where = f"{what}, {size} pixels, prior under {named}"
                    verdicts += _verdicts(found, world, where)
    _table(HEADER, sorted(rows, key=lambda row: (row[1] != "attributes", -int(row[2]), row[3])))
    print("\n".join(sorted(verdicts)), end="\n\n")
    for prior in priors:
        if isinstance(prior, NoiseImages):
            print(f"Noise: {describe_prior(prior, model)}.")


def _verdicts(found: Found, world: str, where: str) -> list[str]:
    best = max(found.raw, found.pmi)
    as_well = "confirmed" if found.tuned >= best - POINT else "refuted"
    said = [
        f"4. {WORLDS[world]}, {where}: cross-validated α does as well as the better: {as_well}, "
        f"{100 * (found.tuned - best):+.1f}"
    ]
    if world == "scenes":
        return [
            f"3. balanced, {where}: raw is held back: {found.gain.says(1)}, {found.gain}",
            f"3. balanced, {where}: α = 1 helps: {found.cost.says(1)}, {found.cost}",
            *said,
        ]
    near = "confirmed" if found.oracle - found.raw <= POINT else "refuted"
    return [
        f"2. skewed, {where}: raw is near its best: {near}, "
        f"{100 * (found.raw - found.oracle):+.1f}",
        f"2. skewed, {where}: α = 1 costs: {found.cost.says(-1)}, {found.cost}",
        *said,
    ]


def answered(
    context: ScoringContext, world: Selection, pixels: int, prior: Prior
) -> dict[str, Pool]:
    """Where each example of a world's parts is right, pictures shown at so many pixels."""
    found: dict[str, Pool] = {}
    for name, (benchmark, data) in world.parts.items():
        if not isinstance(data, list) or benchmark.card.family not in ("choice", "pairs", "triple"):
            continue
        answers = score_examples(context, "lm", [_coarse(example, pixels) for example in data])
        frame, lm = answers.frame, answers.scores
        log = score_priors(replace(context, prior=prior), frame)
        alone = np.broadcast_to(log[:, None, :], lm.shape)
        if benchmark.card.family == "triple":
            intervals = metrics.augmented_intervals(lm[:, 0], log)
        else:
            intervals = metrics.text_intervals(lm, log, frame.match, frame.present)
        blind = metrics.text_score(alone, frame.match, frame.present).values
        none = np.zeros(len(frame), dtype=np.int64)
        found[name] = Pool(intervals, blind, none, _codes(frame))
    return found


def study(pool: Pool) -> Found:
    """What α does."""
    sizes = np.bincount(pool.part)
    weights = 1 / (len(sizes) * sizes[pool.part])
    best = metrics.sweep(pool.intervals.lower, pool.intervals.upper, weights).best()
    halves = metrics.cross_validate(pool.intervals, pool.clusters, weights=weights)
    raw, pmi = pool.right(0.0), pool.right(1.0)
    held_out = np.where(halves.held_out.count > 0, halves.held_out.mean, raw)
    return Found(
        blind=pool.mean(pool.blind),
        raw=pool.mean(raw),
        pmi=pool.mean(pmi),
        cost=pool.difference(pmi, raw),
        tuned=halves.mean,
        gain=pool.difference(held_out, raw),
        spread=halves.std,
        alpha=float(halves.alphas.mean()),
        oracle=best.accuracy,
        oracle_alpha=best.alpha,
    )


def _coarse(example: Example, pixels: int) -> Example:
    if pixels >= FULL:
        return example
    shown = tuple(
        replace(ref, source=Coarse(ref.source, pixels))
        for ref in example.images
        if ref.source is not None
    )
    return replace(example, images=shown)


def _training_pictures(folder: Path, count: int) -> Path:
    """Pictures of the skewed world that no part asks about."""
    data = select("scenes-skewed", subsets=("gallery",), limit=count).parts["gallery"][1]
    if not isinstance(data, Gallery):
        raise TypeError("the gallery is none")
    for i, image in enumerate(open_images(data.images)):
        image.save(folder / f"{i}.png")
    return folder


def _codes(frame: Any) -> IntArray:
    codes: IntArray = np.unique(frame.clusters, return_inverse=True)[1].reshape(-1)
    return codes


def _listed(data: Any) -> list[Example]:
    return list(data)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


if __name__ == "__main__":
    main()
