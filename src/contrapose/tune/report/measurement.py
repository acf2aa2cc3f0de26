"""Measure a model on a panel, and compare two measurements with paired tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch.nn.functional import normalize

from contrapose import metrics
from contrapose.errors import InputError
from contrapose.metrics import FloatArray, IntArray, Statistic
from contrapose.models.capabilities import Model
from contrapose.tune.report.panels import (
    EvaluationPanel,
    Trial,
    find_playable_swaps,
    interaction_shares,
)

Better = Literal["higher", "lower"]
OPEN_TOGETHER = 128
"""Pictures that are opened together."""
MAX_PREPARED_BYTES = 1 << 31
"""Bytes of prepared pictures that are kept between two looks at a model."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One measure of a model.

    Attributes:
        name: such as `swaps` or `brittleness`.
        values: (k,) example by example.
        better: which way is better.
        clusters: (k,) examples with the same number share a picture.
        spread: whether the standard deviation is meant, not the mean.
        binary: whether every value is 0 or 1.
    """

    name: str
    values: FloatArray
    better: Better = "higher"
    clusters: IntArray | None = None
    spread: bool = False
    binary: bool = True

    def statistic(self) -> Statistic:
        """The number that is reported, as something that can be resampled."""
        if self.spread:
            return metrics.standard_deviation(self.values)
        return metrics.mean_of(self.values)

    @property
    def value(self) -> float:
        """The number that is reported."""
        return self.statistic().value()


class Measurer:
    """Asks models about one panel; pictures are opened and prepared once."""

    def __init__(
        self,
        panel: EvaluationPanel,
        *,
        told: Callable[[str, int, int], None] | None = None,
        share: bool = False,
    ):
        """A measurer; `share` adds the interaction's share on swaps."""
        self.panel, self.told = panel, told
        self.swaps = find_playable_swaps(panel) if share else None
        self._prepared: dict[int, Any] = {}
        self._bytes = 0

    def measure(self, model: Model, score: Literal["itc", "itm"] = "itc") -> dict[str, Line]:
        """Every measure of a model.

        Args:
            model: gives vectors for `itc`, judges pairs for `itm`.
            score: which.

        Raises:
            InputError: it gives a number that is none.
        """
        if score == "itc":
            vectors = self.vectors(model)
            return measure_vectors(self.panel.tests, *vectors) | self._share(model, *vectors)
        tests = [test for test in self.panel.tests if test.kind not in ("gallery", "classes")]
        return _measure_trials(tests, self._judged(model))

    def vectors(self, model: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """A model's unit vectors of all pictures and of all captions, on the CPU."""
        images = self._all(model, len(self.panel.images), model.embed_images)
        size = max(1, model.batch_size)
        texts = torch.cat(
            [
                model.embed_texts(self.panel.texts[start : start + size]).float().cpu()
                for start in range(0, len(self.panel.texts), size)
            ]
        )
        return images, texts

    def _share(self, model: Model, *vectors: torch.Tensor) -> dict[str, Line]:
        values = None if self.swaps is None else interaction_shares(self.swaps, model, *vectors)
        if values is None or self.swaps is None:
            return {}
        name = "interaction_share"
        return {name: Line(name, values, clusters=self.swaps.images, binary=False)}

    def _judged(self, model: Any) -> Callable[[Trial], FloatArray]:
        def ask(test: Trial) -> FloatArray:
            k, m, n = *test.images.shape, test.texts.shape[1]
            images = np.repeat(test.images, n, axis=1).reshape(-1)
            texts = np.tile(test.texts, (1, m)).reshape(-1)
            answers = []
            for start in range(0, len(images), model.batch_size):
                some = slice(start, start + model.batch_size)
                pictures = self._shown(model, images[some].tolist())
                captions = [self.panel.texts[i] for i in texts[some]]
                answers.append(model.match(pictures, captions).float().cpu())
            return torch.cat(answers).numpy().astype(np.float64).reshape(k, m, n)

        return ask

    def _all(self, model: Any, count: int, embed: Callable[[list[Any]], Any]) -> torch.Tensor:
        parts = []
        size = max(1, model.batch_size)
        if self.told is not None:
            self.told("pictures", 0, count)
        for start in range(0, count, size):
            shown = self._shown(model, range(start, min(start + size, count)))
            parts.append(embed(shown).float().cpu())
            if self.told is not None:
                self.told("pictures", min(start + size, count), count)
        return torch.cat(parts)

    def _shown(self, model: Any, places: Sequence[int]) -> list[Any]:
        """Pictures as the model takes them."""
        missing = [place for place in dict.fromkeys(places) if place not in self._prepared]
        fresh: dict[int, Any] = {}
        for start in range(0, len(missing), OPEN_TOGETHER):
            some = missing[start : start + OPEN_TOGETHER]
            for place, picture in zip(some, self.panel.images.open(some), strict=True):
                ready = model.prepare_image(picture)
                fresh[place] = ready
                parts = ready.values() if isinstance(ready, dict) else [ready]
                size = sum(part.nbytes for part in parts)
                if self._bytes + size <= MAX_PREPARED_BYTES:
                    self._prepared[place] = ready
                    self._bytes += size
        return [self._prepared.get(place, fresh.get(place)) for place in places]


def measure_vectors(
    tests: Sequence[Trial], images: torch.Tensor, texts: torch.Tensor
) -> dict[str, Line]:
    """Every measure by the cosines of unit vectors.

    Args:
        tests: what is asked.
        images: (n, d) of all pictures.
        texts: (m, d) of all captions.

    Raises:
        InputError: a cosine is no number.
    """

    def ask(test: Trial) -> FloatArray:
        if test.kind == "classes":
            prompts = texts[test.texts.reshape(len(test.texts), -1)]
            found = images[test.images[:, 0]] @ normalize(prompts.mean(dim=1), dim=-1).T
        elif test.kind == "gallery":
            found = images[test.images[:, 0]] @ texts[test.texts.reshape(-1)].T
        else:
            found = images[test.images] @ texts[test.texts].transpose(1, 2)
        return found.numpy().astype(np.float64)

    return _measure_trials(tests, ask)


def _measure_trials(tests: Sequence[Trial], ask: Callable[[Trial], FloatArray]) -> dict[str, Line]:
    lines: dict[str, Line] = {}
    for test in tests:
        if not len(test.images):
            continue
        scores = ask(test)
        if not np.isfinite(scores).all():
            raise InputError(f"the model gives scores that are no numbers, on {test.name}.")
        lines |= {line.name: line for line in trial_lines(test, scores)}
    return lines


def trial_lines(test: Trial, scores: FloatArray) -> list[Line]:
    """The measures of one test.

    Args:
        test: what was asked.
        scores: (k, m, n), or (k, n) of a gallery and of classes.
    """
    groups = test.images[:, 0] if len(set(test.images[:, 0].tolist())) < len(test.images) else None

    def line(name: str, values: FloatArray, better: Better = "higher", **more: Any) -> Line:
        wide = np.asarray(values, dtype=np.float64)
        return Line(name, wide, better, **{"clusters": groups, **more})

    if test.kind == "choice":
        return [line(test.name, _first_highest(scores[:, 0]))]
    if test.kind == "pairs":
        match = np.eye(2, dtype=np.bool_)
        even = metrics.equivariance(scores)
        both = np.concatenate([even.text, even.image])
        near = (np.abs(even.text) + np.abs(even.image)) / 2
        twice = np.tile(np.arange(len(scores)) if groups is None else groups, 2)
        return [
            line("text", metrics.text_score(scores, match).values),
            line("image", metrics.image_score(scores, match).values),
            line("group", metrics.group_score(scores, match).values),
            line("equivariance", near, "lower", binary=False),
            line("equivariance_sd", both, "lower", binary=False, spread=True, clusters=twice),
        ]
    if test.kind == "triple":
        triple = scores[:, 0]
        return [
            line("original", metrics.original_accuracy(triple).values),
            line("augmented", metrics.augmented_accuracy(triple).values),
            line("brittleness", metrics.brittleness(triple).values, "lower"),
            line("right_score", metrics.mean_score(triple).values, binary=False),
        ]
    if test.kind == "classes":
        assert test.right is not None  # noqa: S101 - tests of this kind have one
        return [
            line(
                test.name if k == 1 else f"{test.name}_top{k}",
                metrics.top_k(scores, test.right, k).values,
            )
            for k in test.ks
        ]
    pairs = np.stack([np.arange(len(scores))] * 2, axis=1)
    found = metrics.recalls(scores, pairs)
    return [line(name, outcome.values, clusters=None) for name, outcome in found.items()]


def _first_highest(scores: FloatArray) -> FloatArray:
    """Whether the first of each row is above all others; ties are never wins."""
    first: FloatArray = np.all(scores[:, :1] > scores[:, 1:], axis=1).astype(np.float64)
    return first


Verdict = Literal["better", "worse", "no evidence"]
RESAMPLES = 4000
ALPHA = 0.05
MIN_IMAGES = 20
"""Pictures below which a bootstrap is no evidence: three that agree would always give some."""


@dataclass(frozen=True, slots=True)
class BillItem:
    """One measure, before and after.

    Attributes:
        name: of the measure.
        before: its value before.
        after: its value after.
        ci95: interval of the difference.
        n: examples, or queries.
        better: which way is better.
        test: how the two were compared.
        p: of no difference.
        p_holm: the same, corrected for all items of the bill.
        verdict: what that says.
    """

    name: str
    before: float
    after: float
    ci95: tuple[float, float]
    n: int
    better: Better
    test: str
    p: float
    p_holm: float
    verdict: Verdict

    @property
    def difference(self) -> float:
        """After less before."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Bill:
    """All items.

    Attributes:
        model: what was tuned.
        objective: with what.
        source: what was asked, in words.
        items: by name, in the order of the report.
        notes: what a reader should know.
    """

    model: str
    objective: str
    source: str
    items: tuple[BillItem, ...]
    notes: tuple[str, ...] = ()

    def item(self, name: str) -> BillItem:
        """The item of this name."""
        return next(item for item in self.items if item.name == name)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        found = asdict(self)
        for item in found["items"]:
            item["difference"] = item["after"] - item["before"]
        return found


def make_bill(
    before: Mapping[str, Line],
    after: Mapping[str, Line],
    *,
    model: str = "",
    objective: str = "",
    source: str = "",
    notes: tuple[str, ...] = (),
    seed: int = 0,
) -> Bill:
    """The bill of two looks at one panel.

    McNemar's test where outcomes are 0 or 1 and no picture comes twice; else the paired bootstrap,
    over pictures, where there are enough of them. Verdicts are at 5 %, after Holm's correction
    over all items.

    Raises:
        InputError: the two are not of the same examples.
    """
    drawn = []
    for name, first in before.items():
        second = after.get(name)
        if second is None or len(second.values) != len(first.values):
            raise InputError(f"before and after are not of the same examples, in {name}.")
        one, other = first.statistic(), second.statistic()
        boot = metrics.paired_bootstrap(
            one, other, clusters=first.clusters, resamples=RESAMPLES, seed=seed
        )
        test, p = "paired-bootstrap", boot.p
        if first.binary and first.clusters is None:
            found = metrics.mcnemar(first.values, second.values, method="midp")
            test, p = "mcnemar-midp", found.p
        elif _count_clusters(first) < MIN_IMAGES:
            test, p = "too few", 1.0
        drawn.append((first, one.value(), other.value(), boot.ci95, test, p))
    corrected = metrics.holm([p for *_, p in drawn])
    items = tuple(
        BillItem(
            name=first.name, before=a, after=b, ci95=ci95, n=len(first.values), better=first.better,
            test=test, p=p, p_holm=float(holm), verdict=_verdict(b - a, float(holm), first.better),
        )
        for (first, a, b, ci95, test, p), holm in zip(drawn, corrected, strict=True)
    )  # fmt: skip
    return Bill(model, objective, source, items, notes)


def _count_clusters(line: Line) -> int:
    return len(line.values) if line.clusters is None else len(np.unique(line.clusters))


def _verdict(difference: float, p: float, better: Better) -> Verdict:
    if p >= ALPHA or difference == 0:
        return "no evidence"
    return "better" if (difference > 0) == (better == "higher") else "worse"
