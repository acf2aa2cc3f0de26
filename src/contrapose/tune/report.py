"""Report of a tuning run: evaluate before, during and after, and compare pair by pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch

from contrapose import metrics
from contrapose.arrays import find_distinct
from contrapose.data import Example, Micro
from contrapose.engine import (
    AnswerStore,
    ImageCache,
    Progress,
    ScoringContext,
    distinct_images,
    embed_distinct,
)
from contrapose.errors import InputError, option
from contrapose.evaluation.jobs import find_misfit
from contrapose.evaluation.parts import EvalRequest, run_part, score_parts
from contrapose.evaluation.selection import select
from contrapose.files import did_you_mean
from contrapose.losses.dividend import Dividend
from contrapose.metrics import IntArray
from contrapose.models import Model
from contrapose.models.masking.text import ZERO
from contrapose.results.compare import TOO_FEW, compare
from contrapose.results.measures import Better, Measure, Measurements
from contrapose.results.schema import Difference
from contrapose.results.statistics import better_direction, build_statistics, measure_of
from contrapose.results.tables import ScoreTable
from contrapose.tune.feed import MASKED_COALITIONS, complete_games, mask_players
from contrapose.tune.panels import SWAPS, EvaluationPanel

Verdict = Literal["better", "worse", "no evidence"]
PanelMeasurements = Mapping[str, Measurements]
"""Measurements of each part of a panel; those of a matching head are named `itm/PART`."""
RESAMPLES, ALPHA = 4000, 0.05
MIN_IMAGES = 20
"""Images below which a bootstrap is no evidence: three that agree would always give some."""


class Evaluator:
    """Evaluator of models on one panel, by the engine and the shapes of `contrapose eval`.

    Scores are kept for one evaluation only (`tables` has the last), since the weights change under
    one fingerprint; images are decoded once for all evaluations.
    """

    def __init__(
        self,
        panel: EvaluationPanel,
        *,
        progress: Progress | None = None,
        interaction_share: bool = False,
    ):
        """Read the panel; `interaction_share` adds that metric to the part of swaps."""
        self.panel, self.progress, self.interaction_share = panel, progress, interaction_share
        self.images, self.tables = ImageCache(), dict[str, ScoreTable]()
        self.selection = select(panel.suite)

    def measure(self, model: Model, score: str = "itc") -> dict[str, Measurements]:
        """Measure every part that can be asked with the score.

        Raises:
            InputError: the model cannot give the score or gives NaN, or an image cannot be read.
        """
        store, progress = AnswerStore(None), self.progress
        context = ScoringContext(model, store, progress=progress, images=self.images)
        names = [
            name
            for name, (benchmark, data) in self.selection.parts.items()
            if not find_misfit(benchmark, data, model, score, named=False)
        ]
        answers = score_parts(context, self.selection, score, names)
        measured: dict[str, Measurements] = {}
        for name in names:
            run = run_part(context, self.selection, name, score, EvalRequest(()), answers.get(name))
            for skip in run.skipped.values():
                raise InputError(f"{self.panel.source} cannot be measured: {skip.detail}.")
            if run.table is not None:
                self.tables[f"{score}/{name}"] = run.table
            data, more = self.selection.parts[name][1], {}
            if self.interaction_share and name == SWAPS and score == "itc":
                assert isinstance(data, Sequence)  # noqa: S101 - swaps are choices
                more = _interaction_share(context, data)
            measured[name] = _with_direction(run.part.measured, more)
        return measured

    def measure_all(self, model: Model, *, matches: bool) -> dict[str, Measurements]:
        """Measure with `itc`, and with `itm` where the model has a matching head."""
        measured = self.measure(model)
        if matches:
            measured |= {f"itm/{name}": part for name, part in self.measure(model, "itm").items()}
        return measured


def _with_direction(measured: Measurements, more: Mapping[str, Measure]) -> Measurements:
    """Measurements in which a lower mean score of right captions is worse: of one model it is."""
    measures = {**measured.measures, **more}
    if "mean_score" in measures:
        measures["mean_score"] = replace(measures["mean_score"], better="higher")
    return replace(measured, measures=measures)


def _interaction_share(context: ScoringContext, swaps: Sequence[Example]) -> dict[str, Measure]:
    """Interaction share of the swaps whose captions both have both players (see `Dividend`).

    Empty where there are none, or the model cannot replace word embeddings by zeros.
    """
    masked = {text: mask_players(text) for example in swaps for text in example.texts}
    where = np.array([all(masked[text] for text in example.texts) for example in swaps])
    if not where.any() or ZERO not in getattr(context.model, "text_masks", ()):
        return {}
    played = [example for example, plays in zip(swaps, where, strict=True) if plays]
    images = distinct_images([example.images[0] for example in played])
    captions, at = find_distinct(
        [
            caption
            for example in played
            for text in example.texts
            for caption in (*(masked[text] or ()), text)
        ]
    )
    image_vectors, text_vectors = embed_distinct(context, images.refs, images.ids, captions)
    if np.isnan(text_vectors).any():  # the tokens of a word cannot be told from others
        return {}
    vectors = torch.from_numpy(text_vectors[at]).reshape(len(played), 2, MASKED_COALITIONS + 1, -1)
    games = complete_games(vectors[:, :, :-1].flatten(1, 2), vectors[:, 0, -1], vectors[:, 1, -1])
    shares = Dividend().shares(torch.from_numpy(image_vectors[images.index])[:, None], *games)
    values = np.zeros(len(swaps))
    values[where] = shares.numpy()
    return {"interaction_share": Measure(values, where, ties=np.zeros(len(swaps), dtype=np.bool_))}


class MetricReading(NamedTuple):
    """Value of a metric, and which way is better."""

    value: float
    better: Better


def read_metrics(measured: PanelMeasurements) -> dict[str, MetricReading]:
    """Read the metrics of a panel by `PART/METRIC`."""
    return {
        f"{part}/{name}": MetricReading(statistic.value(), better)
        for part, part_measured in measured.items()
        for name, statistic in build_statistics(part_measured).items()
        if measure_of(part_measured, name) is not None
        and (better := better_direction(part_measured, name)) is not None
    }


@dataclass(frozen=True, slots=True)
class BillItem:
    """One metric before and after.

    Attributes:
        name: `PART/METRIC`.
        before: its value before.
        after: its value after.
        ci95: interval of the difference; None with too few images.
        n: examples, or queries.
        better: which way is better.
        share: whether it is a share of the examples, written as a percentage.
        test: how the two were compared.
        p: of no difference.
        p_holm: the same, corrected for all items of the bill.
        verdict: what that says.
    """

    name: str
    before: float
    after: float
    ci95: tuple[float, float] | None
    n: int
    better: Better
    share: bool
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
    """Comparison of a model before and after tuning.

    Attributes:
        model: what was tuned.
        objective: with what.
        source: what it was evaluated on, in words.
        items: in the order of the report.
        notes: what a reader should know.
    """

    model: str
    objective: str
    source: str
    items: tuple[BillItem, ...]
    notes: tuple[str, ...] = ()

    def item(self, name: str) -> BillItem:
        """The item of a metric: `PART/METRIC`, or the part or the metric where that is enough."""
        items = {item.name: item for item in self.items}
        return items[resolve_metric(name, items)]

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        values = asdict(self)
        for item in values["items"]:
            item["difference"] = item["after"] - item["before"]
        return values


def make_bill(
    before: PanelMeasurements,
    after: PanelMeasurements,
    *,
    model: str = "",
    objective: str = "",
    source: str = "",
    notes: tuple[str, ...] = (),
    seed: int = 0,
) -> Bill:
    """Compare two evaluations on one panel, as `contrapose compare` does, part by part.

    A bootstrap over fewer than `MIN_IMAGES` images gives no verdict; verdicts are at 5 %, after
    Holm's correction over all items.

    Raises:
        InputError: the two are not of the same examples.
    """
    changes: list[tuple[str, Difference, Better]] = []
    for part, first in before.items():
        second = after.get(part)
        if second is None or second.ids != first.ids:
            raise InputError(f"before and after are not of the same examples, in {part}.")
        for name, change in _compare_part(first, second, seed).items():
            better = better_direction(first, name)
            assert better is not None  # noqa: S101 - compare refuses others
            changes.append((f"{part}/{name}", change, better))
    corrected = metrics.holm([change.p for _, change, _ in changes])
    items = tuple(
        BillItem(
            name=name, before=change.a, after=change.b, ci95=change.ci95, n=change.n,
            better=better, share=change.share, test=change.test, p=change.p, p_holm=float(p_holm),
            verdict=_verdict(change.difference, float(p_holm), better),
        )
        for (name, change, better), p_holm in zip(changes, corrected, strict=True)
    )  # fmt: skip
    return Bill(model, objective, source, items, notes)


def _compare_part(first: Measurements, second: Measurements, seed: int) -> dict[str, Difference]:
    """Compare the metrics of a part, each on the units (examples, queries) it is defined for."""
    differences: dict[str, Difference] = {}
    for names, units in group_by_units(first):
        some = [name for name in names if better_direction(first, name) is not None]
        if not some:
            continue
        a, b = first.take(units), second.take(units)
        changes, _ = compare(a, b, Micro(), names=some, resamples=RESAMPLES, seed=seed)
        few = (len(a) if a.clusters is None else len(np.unique(a.clusters))) < MIN_IMAGES
        for name, change in changes.items():
            unsure = few and change.test == "paired-bootstrap"
            update = {"test": TOO_FEW, "p": 1.0} if unsure else {}
            differences[name] = change.model_copy(update=update)
    return differences


def group_by_units(measured: Measurements) -> list[tuple[list[str], IntArray]]:
    """Names of reported metrics that are defined for the same units, with those units.

    Image queries and text queries of a gallery are units of one `Measurements`; a resample of all
    would also draw those that a metric is not defined for.
    """
    groups: dict[bytes, tuple[list[str], IntArray]] = {}
    for name in build_statistics(measured):
        if (measure := measure_of(measured, name)) is not None:
            units = np.flatnonzero(measure.where)
            groups.setdefault(units.tobytes(), ([], units))[0].append(name)
    return list(groups.values())


def _verdict(difference: float, p: float, better: Better) -> Verdict:
    if p >= ALPHA or difference == 0:
        return "no evidence"
    return "better" if (difference > 0) == (better == "higher") else "worse"


class PanelEvaluator(Protocol):
    """Evaluator of the model that is being tuned, as `Evaluator`."""

    def measure(self, model: Any) -> Mapping[str, Measurements]:
        """Measure every part of a panel."""


class Guard:
    """Checkpoint callback: early stopping on metric drops, and best-model selection.

    Attributes:
        highest: the best value so far of the metric that selects the model, higher is better.
        history: step and metrics of each checkpoint.
    """

    def __init__(
        self,
        evaluator: PanelEvaluator,
        model: Any,
        before: PanelMeasurements,
        drops: Mapping[str, float],
        best: str | None = None,
    ):
        """Check that the guarded metrics exist.

        Args:
            evaluator: measures the model.
            model: the model that is being tuned.
            before: its measurements before.
            drops: for metrics by name, how far they may fall (or rise, where lower is better).
            best: the metric that selects the best weights.

        Raises:
            InputError: there is no metric of that name.
        """
        self.evaluator, self.model = evaluator, model
        self.before = read_metrics(before)
        self.drops = {resolve_metric(name, self.before): drop for name, drop in drops.items()}
        self.best = None if best is None else resolve_metric(best, self.before)
        self.highest = -math.inf
        self.history: list[tuple[int, dict[str, float]]] = []

    def __call__(self, step: int) -> tuple[str, bool]:
        """Reason to stop, empty to go on; and whether the model is the best so far."""
        now = read_metrics(self.evaluator.measure(self.model))
        self.history.append((step, {name: metric.value for name, metric in now.items()}))
        for name, allowed in self.drops.items():
            first, value = self.before[name], now[name].value
            sign = 1 if first.better == "higher" else -1
            if sign * (first.value - value) > allowed:
                return (
                    f"{name} went from {first.value:.3f} to {value:.3f} by step {step}, more "
                    f"than the {allowed:g} that {option('guard')} allows"
                ), False
        if self.best is None:
            return "", False
        value, better = now[self.best]
        value = value if better == "higher" else -value
        improved = value > self.highest
        self.highest = max(value, self.highest)
        return "", improved


def resolve_metric(name: str, known: Mapping[str, Any]) -> str:
    """Full name of a metric: `PART/METRIC`, or the part or the metric where that is enough.

    Raises:
        InputError: there is none, or there are several.
    """
    fits = [full for full in known if name in (full, *full.rsplit("/", 1))]
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise InputError(f"{name!r} may be {', '.join(fits)}: name one of them.")
    names = dict.fromkeys(short for full in known for short in (*full.rsplit("/", 1), full))
    near = did_you_mean(name, names, otherwise=f"there are {', '.join(known)}.")
    raise InputError(f"there is no metric {name!r}: {near}")


def parse_guards(texts: Sequence[str]) -> dict[str, float]:
    """Parse `METRIC=DROP` options, such as `image_to_text_r1=0.02`.

    Raises:
        InputError: it is not of this form.
    """
    drops = {}
    for text in texts:
        name, equals, drop = (part.strip() for part in text.partition("="))
        try:
            value = float(drop)
        except ValueError:
            value = math.nan
        if not equals or not math.isfinite(value) or value < 0:
            raise InputError(
                f"{option('guard')} is written METRIC=DROP, as swaps=0.02, not {text!r}."
            )
        drops[name] = value
    return drops
