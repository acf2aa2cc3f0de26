"""Claims of the delta-vector paper, written down before the run, and their effects.

λ and τ are chosen on the dev queries of the other seeds and judged on the test queries of a seed.
An example is an edit query on scenes, and a photograph with its queries on Flickr8k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from contrapose.metrics.delta_scales import best_scale
from studies.delta_heads import STARTS, TAUS
from studies.delta_photos import PART as PHOTOS
from studies.delta_photos import SCALES as PHOTO_SCALES
from studies.delta_scenes import FROZEN, MODELS
from studies.delta_scenes import SCALES as SCENE_SCALES
from studies.kept import Answer, KeptAnswers
from studies.verdict import Claim, Effect, effect_of, mean_effect

FloatArray = NDArray[np.float64]
SETS = (*MODELS, PHOTOS)
PAPER_TAU, LOW_TAU, HIGH_TAU = 0.1, 0.01, 1.0
PAPER_SCALE = 1.0
LARGE_SCALE = 5.0
RESAMPLES = 200

FROZEN_CLAIMS = {
    "delta": Claim("{set}: a delta at λ = 1 beats no delta", source="Table 1"),
    "scale": Claim("{set}: a chosen λ beats λ = 1 without heads", source="Table 1"),
    "bound": Claim("{set}: text → image beats deltas at the chosen λ", source="Table 1"),
    "caption": Claim(
        "{set}: image → text → image beats deltas, both at the chosen λ", source="Table 1"
    ),
    "inner": Claim("{set}: the chosen λ beats λ = 5: the best λ is not the largest",
                   source="Figure 5"),
    "sentence": Claim("{set}: sentence-average deltas beat word deltas, both at the chosen λ",
                      source="Table 3"),
}  # fmt: skip
"""Claims on frozen models, for each of them."""

RAISE = Claim(
    "{set}, {start}: heads at (0.1, 1) beat the frozen model at its chosen λ", source="Figure 5"
)

HEAD_CLAIMS = {
    "tau": Claim("{set}, {start}: τ = 0.1 beats τ = 0.01 on deltas, both at the chosen λ",
                 source="Figure 5"),
    "recall": Claim("{set}, {start}: τ = 0.01 beats τ = 0.1 on R@1", source="section 5.2"),
    "falls": Claim("{set}, {start}: the best λ is larger at τ = 0.01 than at τ = 1",
                   unit=(1.0, ""), source="Figure 5"),
    "natural": Claim("{set}, {start}: at τ = 0.1, λ = 1 is within a point of the chosen λ",
                     side="within", threshold=0.01, source="Figure 5"),
    "winner": Claim("{set}, {start}: (0.1, 1) is within a point of the chosen (τ, λ)",
                    side="within", threshold=0.01, source="Figure 5"),
}  # fmt: skip
"""Claims on heads, for each set and start."""

START_NAMES = {"random": "random start", "closed": "closed-form start"}
SET_NAMES = {"tiny-clip": "`tiny-clip`", "tiny": "`tiny`", PHOTOS: "photographs"}


class DeltaAnswers:
    """Kept answers of the study, unpacked on demand.

    A set is a built-in model on scenes, or the photographs; an arm is `frozen`, or a start and a
    temperature such as `random 0.1`.
    """

    def __init__(self, kept: KeptAnswers):
        self.answers: dict[tuple[str, str], dict[int, Answer]] = {}
        self.queries: dict[int, Answer] = {}
        for key, answer in kept.items():
            if key["arm"] == "queries":
                self.queries[key["seed"]] = answer
            else:
                name = key.get("model", PHOTOS)
                self.answers.setdefault((name, key["arm"]), {})[key["seed"]] = answer

    def seeds(self, name: str, *arms: str) -> list[int]:
        """Seeds that all these arms have."""
        some = [set(self.answers.get((name, arm), {})) for arm in arms]
        return sorted(set.intersection(*some)) if some else []

    def has(self, name: str, *arms: str) -> bool:
        """Whether there are seeds enough to judge these arms."""
        return len(self.seeds(name, *arms)) > 1

    def curve(self, name: str, arm: str, seed: int, base: str = "delta", n: int = 1) -> FloatArray:
        """(examples, λ) whether each test query is right, weighted so that the mean is the score.

        On photographs an example is an image: the mean of its queries.
        """
        answer = self.answers[name, arm][seed]
        if name == PHOTOS:
            return self._by_image(answer, "delta" if base == "delta" else base)
        weights = self.queries[seed]["weights"].astype(np.float64)
        hits = np.unpackbits(answer[f"{base}_n{n}"], axis=1, count=len(weights))
        return np.asarray(hits.T * (weights / weights.mean())[:, None])

    def at(
        self, name: str, arm: str, scale: float | None, *, base: str = "delta", n: int = 1
    ) -> list[FloatArray]:
        """Test values of every seed at a λ; None takes the one chosen on the other seeds."""
        found = []
        for seed in self.seeds(name, arm):
            values = self.curve(name, arm, seed, base, n)
            column = 0
            if values.shape[1] > 1:
                chosen = self.chosen_scale(name, arm, seed, base) if scale is None else scale
                column = scales_of(name).index(chosen)
            found.append(values[:, column])
        return found

    def dev_curve(self, name: str, arm: str, seed: int, base: str = "delta") -> FloatArray:
        """(λ,) mean score of the dev queries of all other seeds."""
        seeds = self.answers[name, arm]
        column = "dev" if name == PHOTOS else f"{base}_dev"
        curves = [seeds[other][column] for other in sorted(seeds) if other != seed]
        return np.asarray(np.mean(np.asarray(curves, np.float64), axis=0))

    def chosen_scale(self, name: str, arm: str, seed: int, base: str = "delta") -> float:
        """λ of the highest score of the other seeds' dev queries."""
        return best_scale(scales_of(name), self.dev_curve(name, arm, seed, base))

    def chosen_point(self, name: str, start: str, seed: int) -> tuple[float, float]:
        """(τ, λ) of the highest score of the other seeds' dev queries."""
        best = {
            tau: self.dev_curve(name, f"{start} {tau:g}", seed)
            for tau in TAUS
            if self.has(name, f"{start} {tau:g}")
        }
        tau = max(best, key=lambda it: float(best[it].max()))
        return tau, best_scale(scales_of(name), best[tau])

    def recall(self, name: str, arm: str, seed: int) -> FloatArray:
        """R@1 of each image, mean of both directions."""
        answer = self.answers[name, arm][seed]
        if name == PHOTOS:
            images = int(answer["owners"].max()) + 1
            texts = self._by_image(answer, "text_to_image")[:, 0]
            back = np.unpackbits(answer["image_to_text"], count=images)
            return (texts + back) / 2
        count = int(self.queries[seed]["gallery"])
        ways = [np.unpackbits(answer[it], count=count) for it in ("text_to_image", "image_to_text")]
        return np.asarray(np.mean(np.asarray(ways, np.float64), axis=0))

    def _by_image(self, answer: Answer, column: str) -> FloatArray:
        """(images, …) mean over the queries of each image."""
        owners = answer["owners"].astype(np.int64)
        packed = answer[column]
        rows = packed if packed.ndim > 1 else packed[None]
        hits = np.unpackbits(rows, axis=1, count=len(owners)).astype(np.float64)
        counts = np.bincount(owners)
        return np.stack([np.bincount(owners, row) / counts for row in hits], axis=1)


def scales_of(name: str) -> Sequence[float]:
    """The λ that a set was judged at."""
    return PHOTO_SCALES if name == PHOTOS else SCENE_SCALES


def effects(answers: DeltaAnswers) -> Iterator[tuple[Claim, Effect | str]]:
    """All claims with their effects, or with the reason why there is none."""
    for name in MODELS:
        for kind, claim in FROZEN_CLAIMS.items():
            effect = _frozen_effect(answers, name, kind) if answers.has(name, FROZEN) else "not run"
            yield _named(claim, name), effect
    for name in MODELS:
        for start in STARTS:
            arm = f"{start} {PAPER_TAU:g}"
            yield (
                _named(RAISE, name, start),
                mean_effect(answers.at(name, arm, PAPER_SCALE), answers.at(name, FROZEN, None))
                if answers.has(name, FROZEN, arm)
                else "not run",
            )
    for kind, claim in HEAD_CLAIMS.items():
        for name in SETS:
            for start in STARTS:
                arms = [f"{start} {tau:g}" for tau in TAUS]
                effect = (
                    _head_effect(answers, name, start, kind)
                    if answers.has(name, *arms)
                    else "not run"
                )
                yield _named(claim, name, start), effect


def _named(claim: Claim, name: str, start: str = "") -> Claim:
    text = claim.text.format(set=SET_NAMES[name], start=START_NAMES.get(start, ""))
    return Claim(text, claim.side, claim.threshold, claim.unit, claim.source)


def _frozen_effect(answers: DeltaAnswers, name: str, kind: str) -> Effect:
    best = answers.at(name, FROZEN, None)
    if kind == "delta":
        return mean_effect(answers.at(name, FROZEN, PAPER_SCALE), answers.at(name, FROZEN, 0.0))
    if kind == "scale":
        return mean_effect(best, answers.at(name, FROZEN, PAPER_SCALE))
    if kind == "inner":
        return mean_effect(best, answers.at(name, FROZEN, LARGE_SCALE))
    base = {"bound": "text", "caption": "caption", "sentence": "sentence"}[kind]
    return mean_effect(answers.at(name, FROZEN, None, base=base), best)


def _head_effect(answers: DeltaAnswers, name: str, start: str, kind: str) -> Effect:
    paper, low, high = (f"{start} {tau:g}" for tau in (PAPER_TAU, LOW_TAU, HIGH_TAU))
    if kind == "tau":
        return mean_effect(answers.at(name, paper, None), answers.at(name, low, None))
    if kind == "recall":
        seeds = answers.seeds(name, paper, low)
        return mean_effect(
            [answers.recall(name, low, seed) for seed in seeds],
            [answers.recall(name, paper, seed) for seed in seeds],
        )
    if kind == "falls":
        scales = np.asarray(scales_of(name))

        def peak_difference(first: FloatArray, second: FloatArray) -> float:
            return float(scales[first.mean(0).argmax()] - scales[second.mean(0).argmax()])

        curves = [
            (answers.curve(name, low, seed), answers.curve(name, high, seed))
            for seed in answers.seeds(name, low, high)
        ]
        return effect_of(curves, peak_difference, resamples=RESAMPLES)
    if kind == "natural":
        return mean_effect(answers.at(name, paper, PAPER_SCALE), answers.at(name, paper, None))
    best = []
    for seed in answers.seeds(name, paper, low, high):
        tau, scale = answers.chosen_point(name, start, seed)
        column = scales_of(name).index(scale)
        best.append(answers.curve(name, f"{start} {tau:g}", seed)[:, column])
    return mean_effect(answers.at(name, paper, PAPER_SCALE), best)
