"""Scores of the study of priors: margins of test examples, and estimates of caption priors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from contrapose.arrays import Ragged
from contrapose.models.tiny import load
from contrapose.models.tiny.model import Tiny, scale_pixels
from contrapose.models.tiny.network import PAD, TinyNetwork
from contrapose.world.render import pack, render_packed
from contrapose.world.sample import World
from contrapose.world.scene import Scene
from studies.kept import Answer
from studies.priors_captioners import (
    SMOKE,
    STUDY,
    Recipe,
    log_likelihoods,
    make_noise,
    render_small,
    seeded,
    weaken,
)
from studies.priors_tests import HELD_OUT, LEVELS, MAIN, GallerySet, PairSet, Part, draw_pairs

ARMS: tuple[World, ...] = ("skewed", "balanced")
"""Worlds that captioners are trained on; the balanced one is the control."""
TINY = "tiny"
"""Arm of the built-in model, whose three scores are compared on swaps."""
TRAIN_SEED, TEST_SEED, PICTURE_SEED = 1_000, 50_000, 90_000
"""Added to a seed: training scenes, test scenes and prior images have nothing in common."""
DRAWS = 5
SIZES = {"train": (3, 10, 100), "noise": (3, 10, 100)}
"""Numbers of images of a prior, each drawn `DRAWS` times."""
POOL = {"train": 1000, "noise": 500}
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
"""Grid of α on which ranks in galleries are kept."""
GALLERIES = (100, 1000)


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a run.

    Attributes:
        recipe: training of the captioners.
        share: share of the examples of each part; 1 for the study.
        pool: images of each source of priors.
        detailed: examples of the main parts for which every prior is estimated.
        galleries: captions of the small and of the large gallery.
        queries: images that are asked about in the galleries.
    """

    recipe: Recipe = STUDY
    share: float = 1.0
    pool: tuple[int, int] = (POOL["train"], POOL["noise"])
    detailed: int = 300
    galleries: tuple[int, int] = GALLERIES
    queries: int = 500

    def part(self, part: Part) -> Part:
        """A part with its number of examples."""
        return replace(part, count=max(8, round(self.share * part.count)))


SMOKE_PLAN = Plan(SMOKE, 0.02, (20, 20), 8, (10, 20), 20)


class Scorer:
    """Scores of a captioner on the test examples, and estimates of the captions' priors."""

    def __init__(
        self, network: TinyNetwork, device: str, seed: int, world: World, plan: Plan
    ) -> None:
        self.network, self.device, self.plan = network, device, plan
        self.world = world
        self.detailed = plan.detailed if world == "skewed" else 0
        self.random = seeded(PICTURE_SEED + seed, device)
        self.levels = torch.tensor(LEVELS, device=device)
        self.images: dict[str, Tensor] = {}

    def take_pictures(self, scenes: list[Scene]) -> None:
        """Make the images of the priors: weak pictures of the training world, and noise."""
        drawn = torch.randint(
            len(LEVELS), (len(scenes),), generator=self.random, device=self.device
        )
        small = render_small(scenes, self.device)
        train = weaken(small, self.levels[drawn], self.random)
        noise = make_noise(self.plan.pool[1], train, self.random)
        self.images = {"train": train, "noise": noise}

    def score_pairs(self, part: Part, tests: PairSet) -> Answer:
        """Margins and priors of a part's examples.

        Returns:
            `margin` (n, m): the right caption's log-likelihood less the wrong one's under each of m
            images; `image`: whether both captions prefer their image; `exact`, `level`; of each
            prior log P(c0) − log P(c1) per token and jointly, of detailed ones by draw.
        """
        tokens = torch.from_numpy(tests.tokens).to(self.device)
        # In the skewed world the scene that was drawn is shown, not the one with a slot changed.
        images = 1 if part.name == HELD_OUT or part.world == "skewed" else 2
        scores = [
            log_likelihoods(self.network, self._show(tests, i), tokens) for i in range(images)
        ]
        margins = [score[:, i] - score[:, 1 - i] for i, score in enumerate(scores)]
        made: Answer = {
            "exact": tests.exact.astype(np.float16),
            "level": tests.levels,
            "margin": np.stack(margins, axis=1).astype(np.float16),
        }
        if images == 2:
            first, second = scores
            better = (first[:, 0] > second[:, 0]) & (second[:, 1] > first[:, 1])
            made["image"] = better.astype(np.uint8)
        lengths = (tests.tokens[:, 0] != PAD).sum(axis=1) - 1
        for source, count in (("train", 100), ("noise", 10)):
            values = self._under(source, slice(0, count), tokens)
            made[f"{source}:{count}"] = prior_odds(values, lengths)
        if part.name in MAIN and part.world == "balanced" and self.detailed:
            made |= self._all_priors(tokens[: self.detailed], lengths[: self.detailed])
        return made

    def _all_priors(self, tokens: Tensor, lengths: NDArray[np.int64]) -> Answer:
        """Every size and draw of both sources; and all training pictures at once."""
        made: Answer = {}
        for source, sizes in SIZES.items():
            pool = len(self.images[source])
            values = self._under(source, slice(0, pool), tokens)
            for size in sizes:
                rows = [(np.arange(size) + 100 * draw) % pool for draw in range(DRAWS)]
                odds = [prior_odds(values[some], lengths) for some in rows]
                made[f"draws {source}:{size}"] = np.stack(odds, axis=1)
            if source == "train":
                made[f"draws train:{POOL['train']}"] = prior_odds(values, lengths)[:, None]
        return made

    def _under(self, source: str, rows: slice, tokens: Tensor) -> NDArray[np.float32]:
        """Log-likelihoods (k, n, 2) of the captions under images of a source."""
        images = self.images[source][rows]
        flat = log_likelihoods(self.network, images, tokens.flatten(0, 1)[None])
        return flat.reshape(len(images), len(tokens), 2)

    def _show(self, tests: PairSet, number: int) -> Tensor:
        small = render_small([scenes[number] for scenes in tests.scenes], self.device)
        shares = self.levels[torch.from_numpy(tests.levels.astype(np.int64)).to(self.device)]
        return weaken(small, shares, self.random)

    def rank_gallery(self, tests: GallerySet) -> Answer:
        """Ranks of the right captions, from 0, in both galleries by prior and α."""
        tokens = torch.from_numpy(tests.tokens).to(self.device)[None]
        shares = self.levels[torch.from_numpy(tests.levels.astype(np.int64)).to(self.device)]
        pixels = weaken(render_small(tests.scenes, self.device), shares, self.random)
        scores = log_likelihoods(self.network, pixels, tokens)
        length = int((tests.tokens[0] != PAD).sum()) - 1
        columns = {"gallery": scores}
        for source, count in (("train", 100), ("noise", 10)):
            columns[f"{source}:{count}"] = log_likelihoods(
                self.network, self.images[source][:count], tokens
            )
        priors = {name: length * log_mean_exp(values / length) for name, values in columns.items()}
        priors["exact"] = tests.exact[:, ARMS.index(self.world)].astype(np.float64)
        small, large = self.plan.galleries
        made: Answer = {"level": tests.levels[: self.plan.queries]}
        for name, prior in priors.items():
            for size in (small, large):
                ranks = gallery_ranks(scores[: self.plan.queries], prior, size)
                made[f"{name} in {'small' if size == small else 'large'}"] = ranks
        return made


def log_mean_exp(values: NDArray[Any]) -> NDArray[np.float64]:
    """Log of the mean of exp over the first axis."""
    wide = np.asarray(values, np.float64)
    most = wide.max(axis=0)
    mean: NDArray[np.float64] = most + np.log(np.exp(wide - most).mean(axis=0))
    return mean


def prior_odds(values: NDArray[Any], lengths: NDArray[np.int64]) -> NDArray[np.float16]:
    """Log P(c0) − log P(c1) of (k, n, 2) log-likelihoods under k images: (n, 2).

    The first column is per token, as the score `lm` and its prior are computed (the mean over
    images of exp of the mean token log-probability, times the number of tokens); the second is the
    paper's equation, the mean of the joint probabilities.
    """
    per_token = log_mean_exp(values / lengths[:, None]) * lengths[:, None]
    joint = log_mean_exp(values)
    odds = np.stack([per_token[:, 0] - per_token[:, 1], joint[:, 0] - joint[:, 1]], axis=1)
    return odds.astype(np.float16)


def gallery_ranks(scores: NDArray[Any], prior: NDArray[Any], size: int) -> NDArray[np.uint16]:
    """Rank (q, α) of each image's caption among the `size` captions of its block; ties lose."""
    queries = np.arange(len(scores))
    starts = queries // size * size
    block = starts[:, None] + np.arange(size)
    ranks = np.empty((len(scores), len(ALPHAS)), np.uint16)
    for i, alpha in enumerate(ALPHAS):
        adjusted = np.take_along_axis(scores - alpha * prior, block, axis=1)
        right = adjusted[queries, queries - starts]
        ranks[:, i] = (adjusted >= right[:, None]).sum(axis=1) - 1
    return ranks


@torch.no_grad()
def compare_scores(part: Part, seed: int, device: str) -> Answer:
    """Whether `tiny` is right by `itc`, `itm` and `lm` on full images of a part, (n, 3)."""
    model = load(TINY, device)
    assert isinstance(model, Tiny)  # noqa: S101 - it has all three scores
    tests = draw_pairs(part, TEST_SEED + seed)
    shown = np.random.default_rng(seed).integers(2, size=len(tests.scenes))
    right: list[NDArray[np.uint8]] = []
    for start in range(0, len(shown), 64):
        rows = range(start, min(start + 64, len(shown)))
        scenes = [tests.scenes[i][shown[i]] for i in rows]
        pixels = list(scale_pixels(render_packed(pack(scenes).to(device), 96).images))
        captions = [
            [model.tokenizer.decode(_words(tests.tokens[i, number])) for i in rows]
            for number in (0, 1)
        ]
        vectors = model.embed_images(pixels)
        scores = np.array(
            [
                [
                    (vectors * model.embed_texts(texts)).sum(dim=1).cpu().tolist(),
                    model.match(pixels, texts).cpu().tolist(),
                    _mean_by_caption(model.token_logprobs(pixels, texts)),
                ]
                for texts in captions
            ]
        )
        gain = np.where(shown[rows] == 0, scores[0] - scores[1], scores[1] - scores[0])
        right.append((gain > 0).T.astype(np.uint8))
    return {"right": np.concatenate(right)}


def _words(tokens: NDArray[np.int16]) -> list[int]:
    return [int(token) for token in tokens[tokens != PAD][1:-1]]


def _mean_by_caption(logprobs: Ragged) -> list[float]:
    values, ends = np.asarray(logprobs.values.cpu()), np.asarray(logprobs.offsets)
    return [float(part.mean()) for part in np.split(values, ends[1:-1])]
