"""The bill: what tuning bought and what it cost, measure by measure, each tested pair by pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from contrapose import metrics
from contrapose.errors import InputError
from contrapose.tune.bill.measure import Better, Line

Verdict = Literal["better", "worse", "no evidence"]
RESAMPLES = 4000
LEVEL = 0.05
LEAST = 20
"""Pictures below which a bootstrap is no evidence: three that agree would always give some."""


@dataclass(frozen=True, slots=True)
class Item:
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
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()

    def item(self, name: str) -> Item:
        """The item of this name."""
        return next(item for item in self.items if item.name == name)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        found = asdict(self)
        for item in found["items"]:
            item["difference"] = item["after"] - item["before"]
        return found


def bill(
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
        elif _units(first) < LEAST:
            test, p = "too few", 1.0
        drawn.append((first, one.value(), other.value(), boot.ci95, test, p))
    corrected = metrics.holm([p for *_, p in drawn])
    items = tuple(
        Item(
            name=first.name, before=a, after=b, ci95=ci95, n=len(first.values), better=first.better,
            test=test, p=p, p_holm=float(holm), verdict=_verdict(b - a, float(holm), first.better),
        )
        for (first, a, b, ci95, test, p), holm in zip(drawn, corrected, strict=True)
    )  # fmt: skip
    return Bill(model, objective, source, items, notes)


def _units(line: Line) -> int:
    return len(line.values) if line.clusters is None else len(np.unique(line.clusters))


def _verdict(difference: float, p: float, better: Better) -> Verdict:
    if p >= LEVEL or difference == 0:
        return "no evidence"
    return "better" if (difference > 0) == (better == "higher") else "worse"
