"""What a diagnosis says, in sentences, each backed by a paired test.

When captions differ only by a swap, each group of words alone says the same in both: a model that
understands reacts to the *interaction* of the groups, and its sensitivity there should dominate.
The same holds of two objects that have changed places in an image, and of patterns in both. Which
it is, is decided by paired bootstrap tests of the interaction against each of its parts, corrected
by Holm over all comparisons of a model.

An interaction is a difference of more scores than its parts are, so it moves more even when the
scores are noise: with independent random scores its share of the three is about one half. The
sentence says so beside the share.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from contrapose.diagnose.comparisons import Comparisons
from contrapose.diagnose.fourteen import FAMILIES, Family, Side
from contrapose.diagnose.paired import Paired, corrected, paired
from contrapose.diagnose.sensitivity import Diagnosis
from contrapose.diagnose.wording import in_a_row, number
from contrapose.metrics.statistics.bootstrap import RESAMPLES

NOISE = 50
"""Per cent of the three that the interaction of independent random scores has, about."""

NOTHING = 1e-12
"""Sensitivities below this are rounding: nothing changes at all."""

Verdict = Literal["dominates", "does not dominate", "undecided", "absent"]


@dataclass(frozen=True, slots=True)
class Claim:
    """An interaction that should dominate its parts when things are only swapped.

    Attributes:
        family: whose comparisons decide.
        subject: the interaction in words.
        when: the change for which it should dominate, in words.
        interaction: its metric.
        parts: the metrics it should exceed.
    """

    family: Family
    subject: str
    when: str
    interaction: str
    parts: tuple[str, str]


MOVED = "when only the relation changes"

_TEXT, _IMAGE, _TO_IMAGE, _TO_TEXT = FAMILIES

CLAIMS = (
    Claim(
        _TEXT,
        "the interaction of relation and object words",
        "when objects change places",
        "Q_R&O",
        ("Q_O", "Q_R"),
    ),
    Claim(
        _TEXT,
        "the interaction of attribute and object words",
        "when attributes change hands",
        "Q_A&O",
        ("Q_O", "Q_A"),
    ),
    Claim(_IMAGE, "the interaction of the two objects", MOVED, "D_O1&O2", ("D_O1", "D_O2")),
    Claim(
        _TO_IMAGE,
        "what relation and object words have with both objects",
        MOVED,
        "Q_T:R&O->I:O1&O2",
        ("Q_T:R&O->I:O1", "Q_T:R&O->I:O2"),
    ),
    Claim(
        _TO_TEXT,
        "what both objects have with relation and object words",
        MOVED,
        "D_I:O1&O2->T:R&O",
        ("D_I:O1&O2->T:R", "D_I:O1&O2->T:O"),
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether an interaction dominates.

    Attributes:
        side: where it is reported.
        interaction: its metric.
        verdict: "dominates": it exceeds both parts; "does not dominate": a part exceeds it;
            "undecided": neither is shown; "absent": there is nothing to test.
        share: the interaction's share of the three mean sensitivities together; about one half
            for scores that are noise.
        count: comparisons tested.
        examples: examples they come from.
        tests: against each of its parts.
        sentence: all this in words.
    """

    side: Side
    interaction: str
    verdict: Verdict
    share: float | None
    count: int
    examples: int
    tests: tuple[Paired, ...]
    sentence: str


def findings(
    diagnosis: Diagnosis,
    *,
    only: Mapping[str, Collection[str]] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Whether each interaction dominates its parts; one finding a claim, absent ones included.

    Args:
        diagnosis: of one model.
        only: for each interaction the ids of the examples whose change is of its kind (see
            `changes`); without it all are taken to be.
        resamples: of the bootstrap.
        seed: of the bootstrap.
    """
    measured = [
        _against_parts(
            diagnosis.comparisons[claim.family.name],
            claim,
            None if only is None else only.get(claim.interaction, ()),
            resamples,
            seed,
        )
        for claim in CLAIMS
    ]
    final = iter(corrected([test for tests, _ in measured for test in tests]))
    found = []
    for claim, (tests, rows) in zip(CLAIMS, measured, strict=True):
        compared = diagnosis.comparisons[claim.family.name]
        examples = len({compared.ids[row] for row in rows})
        found.append(
            _finding(diagnosis, claim, tuple(next(final) for _ in tests), len(rows), examples)
        )
    return tuple(found)


def _against_parts(
    compared: Comparisons,
    claim: Claim,
    only: Collection[str] | None,
    resamples: int,
    seed: int,
) -> tuple[list[Paired], list[int]]:
    """Tests of the interaction against its parts, and the comparisons that have all three."""
    keys = compared.family.keys
    columns = [keys.index(key) for key in (claim.interaction, *claim.parts)]
    values = compared.sensitivities[:, columns]
    whole = ~np.isnan(values).any(axis=1)
    if only is not None:
        whole &= np.array([id_ in only for id_ in compared.ids], dtype=np.bool_)
    rows = np.flatnonzero(whole)
    clusters = compared.clusters[rows]
    if np.unique(clusters).size < 2:
        return [], []
    interaction, *parts = values[rows].T
    tests = [
        paired(key, part, interaction, clusters, resamples=resamples, seed=seed)
        for key, part in zip(claim.parts, parts, strict=True)
    ]
    return tests, rows.tolist()


def _finding(
    diagnosis: Diagnosis, claim: Claim, tests: tuple[Paired, ...], count: int, examples: int
) -> Finding:
    side = claim.family.side
    if not tests:
        notes = diagnosis.metrics[claim.interaction].notes
        change = claim.when.removeprefix("when ")
        why = notes[0] if notes else f"there are no two images for which {change}."
        sentence = f"{side} side: {claim.interaction} was not tested: {why}"
        return Finding(side, claim.interaction, "absent", None, 0, 0, (), sentence)
    verdict = _verdict(tests)
    whole = tests[0].second
    total = whole + sum(test.first for test in tests)
    share = whole / total if total > NOTHING else None
    sentence = _sentence(claim, verdict, tests, share, count, examples)
    return Finding(side, claim.interaction, verdict, share, count, examples, tests, sentence)


def _verdict(tests: Sequence[Paired]) -> Verdict:
    shown = [test for test in tests if test.is_shown]
    if any(test.difference < 0 for test in shown):
        return "does not dominate"
    return "dominates" if len(shown) == len(tests) else "undecided"


def _sentence(
    claim: Claim,
    verdict: Verdict,
    tests: Sequence[Paired],
    share: float | None,
    count: int,
    examples: int,
) -> str:
    lead = {
        "dominates": f"dominates, as it should {claim.when}",
        "does not dominate": f"does not dominate, though it should {claim.when}",
    }.get(verdict, "is not shown to dominate, nor to be dominated")
    part = "" if share is None else f", {100 * share:.0f} % of the three (noise: {NOISE} %)"
    against = in_a_row([f"{test.key} = {number(test.first)} ({test.words})" for test in tests])
    return (
        f"{claim.family.side} side: {claim.subject} {lead}: "
        f"{claim.interaction} = {number(tests[0].second)}{part}, against {against}; "
        f"{count} comparisons of {examples} examples, p after Holm."
    )
