"""Findings: sentences on interactions and their parts, each backed by paired bootstrap tests.

When captions differ only by a swap, each group of words alone is the same in both: a model that
understands reacts to the *interaction* of the groups, and its sensitivity there should dominate.
The same holds for two objects that change places in an image, and for mutual patterns.

An interaction is a difference of more scores than its parts are: with independent random scores its
share of the three is about one half. To dominate means to exceed the sum of both parts; not to
dominate, to be exceeded by one of them. Paired bootstrap tests against each part and against their
sum decide, with Holm's correction over all tests of a model.

Sensitivity has no sign: a scorer that has every relation backwards reacts to the interaction
too. So each finding has the accuracy on the same comparisons.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from contrapose.diagnose.metrics import FAMILIES, Comparisons, Diagnosis, MetricFamily, MetricSide
from contrapose.metrics import FEWEST_UNITS, intervals, mean_of
from contrapose.metrics.statistics.bootstrap import RESAMPLES
from contrapose.metrics.statistics.significance import count_needed, standard_error
from contrapose.results.paired_tests import (
    LEVEL,
    ROUNDING,
    PairedTest,
    compare_means,
    correct_holm,
    join_words,
)
from contrapose.results.schema import SchemaModel

NOISE_PERCENT = 50
"""Share of the three that the interaction has when scores are independent noise, in per cent."""

CHANCE = 0.5
"""Accuracy of a guess between right and wrong."""

SUM_OF_PARTS = "their sum"
"""Key of the test against the sum of both parts."""

Verdict = Literal["dominates", "does not dominate", "undecided", "absent"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim that an interaction exceeds the sum of its parts when things are only swapped.

    Attributes:
        family: the metric family whose comparisons decide.
        subject: the interaction in words.
        when: the change for which it should dominate, in words.
        interaction: the interaction's metric.
        parts: the metrics that it should exceed.
    """

    family: MetricFamily
    subject: str
    when: str
    interaction: str
    parts: tuple[str, str]


RELATION_CHANGE = "when only the relation changes"

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
    Claim(
        _IMAGE, "the interaction of the two objects", RELATION_CHANGE, "D_O1&O2", ("D_O1", "D_O2")
    ),
    Claim(
        _TO_IMAGE,
        "what relation and object words have with both objects",
        RELATION_CHANGE,
        "Q_T:R&O->I:O1&O2",
        ("Q_T:R&O->I:O1", "Q_T:R&O->I:O2"),
    ),
    Claim(
        _TO_TEXT,
        "what both objects have with relation and object words",
        RELATION_CHANGE,
        "D_I:O1&O2->T:R&O",
        ("D_I:O1&O2->T:R", "D_I:O1&O2->T:O"),
    ),
)


class Finding(SchemaModel):
    """Verdict on one claim: whether an interaction dominates its parts.

    Attributes:
        side: the side it is reported under.
        interaction: the interaction's metric.
        verdict: "dominates": it exceeds the sum of its parts; "does not dominate": a part exceeds
            it; "undecided": neither is shown; "absent": there is nothing to test.
        share: the interaction's share of the three mean sensitivities together; about one half
            for scores that are noise.
        n: comparisons tested.
        examples: examples these come from.
        tests: the tests against each of its parts, and against their sum.
        accuracy: share of these comparisons in which right scores above wrong; chance is one half.
        accuracy_ci95: its interval; null with too few images.
        needed: comparisons that would decide an undecided verdict if the differences are as large
            as they seem; null where it is decided, or where more of them would not decide it.
        accuracy_needed: comparisons that would show that the accuracy is not chance; null where
            it is shown, or where it is exactly chance.
        sentence: the finding in words.
    """

    side: MetricSide
    interaction: str
    verdict: Verdict
    share: float | None
    n: int
    examples: int
    tests: tuple[PairedTest, ...]
    accuracy: float | None = None
    accuracy_ci95: tuple[float, float] | None = None
    needed: int | None = None
    accuracy_needed: int | None = None
    sentence: str

    @property
    def is_right_by_chance(self) -> bool:
        """Whether the model is not shown to be right more often than chance."""
        return self.accuracy_ci95 is None or self.accuracy_ci95[0] <= CHANCE


def derive_findings(
    diagnosis: Diagnosis,
    *,
    only: Mapping[str, Collection[str]] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Test each claim: one finding per claim, absent ones included.

    Args:
        diagnosis: the diagnosis of one model.
        only: for each interaction the ids of the examples whose change is of its kind (see
            `change_kinds`); None takes all examples.
        resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.
    """
    measured = [
        _compare_with_parts(
            diagnosis.comparisons[claim.family.name],
            claim,
            None if only is None else only.get(claim.interaction, ()),
            resamples,
            seed,
        )
        for claim in CLAIMS
    ]
    final = iter(correct_holm([test for tests, _ in measured for test in tests]))
    findings = []
    for claim, (tests, rows) in zip(CLAIMS, measured, strict=True):
        compared = diagnosis.comparisons[claim.family.name]
        examples = len({compared.ids[row] for row in rows})
        finding = _build_finding(
            diagnosis, claim, tuple(next(final) for _ in tests), len(rows), examples
        )
        if tests:
            finding = _add_accuracy(finding, claim, compared, rows, resamples, seed)
        findings.append(finding)
    return tuple(findings)


def _add_accuracy(
    finding: Finding,
    claim: Claim,
    compared: Comparisons,
    rows: Sequence[int],
    resamples: int,
    seed: int,
) -> Finding:
    """Finding with the accuracy on its comparisons, and the sentence that has it."""
    right = mean_of((compared.reward_differences[rows] > 0).astype(np.float64))
    clusters = compared.clusters[rows]
    bounds = None
    if np.unique(clusters).size >= FEWEST_UNITS:
        (bounds,) = intervals([right], clusters=clusters, resamples=resamples, seed=seed)
    needed = None
    if bounds is None or bounds[0] <= CHANCE <= bounds[1]:
        values = (compared.reward_differences[rows] > 0) - CHANCE
        error = standard_error(values, clusters)
        needed = count_needed(right.value() - CHANCE, error, len(rows), level=LEVEL)
    known = finding.model_copy(
        update={
            "accuracy": right.value(),
            "accuracy_ci95": bounds,
            "accuracy_needed": needed,
        }
    )
    return known.model_copy(update={"sentence": _finding_sentence(claim, known)})


def _compare_with_parts(
    compared: Comparisons,
    claim: Claim,
    only: Collection[str] | None,
    resamples: int,
    seed: int,
) -> tuple[list[PairedTest], list[int]]:
    """Tests of the interaction against its parts and their sum, and the comparisons tested."""
    keys = compared.family.keys
    columns = [keys.index(key) for key in (claim.interaction, *claim.parts)]
    values = compared.sensitivities[:, columns]
    complete = ~np.isnan(values).any(axis=1)
    if only is not None:
        complete &= np.array([id_ in only for id_ in compared.ids], dtype=np.bool_)
    rows = np.flatnonzero(complete)
    clusters = compared.clusters[rows]
    if np.unique(clusters).size < 2:
        return [], []
    interaction, *parts = values[rows].T
    tests = [
        compare_means(key, part, interaction, clusters, resamples=resamples, seed=seed)
        for key, part in zip(
            (*claim.parts, SUM_OF_PARTS), (*parts, parts[0] + parts[1]), strict=True
        )
    ]
    return tests, rows.tolist()


def _build_finding(
    diagnosis: Diagnosis, claim: Claim, tests: tuple[PairedTest, ...], count: int, examples: int
) -> Finding:
    side = claim.family.side
    if not tests:
        metric = diagnosis.metrics[claim.interaction]
        notes = metric.notes if metric.examples < 2 or "one image" in "".join(metric.notes) else ()
        change = claim.when.removeprefix("when ")
        why = notes[0] if notes else f"there are no two images for which {change}."
        sentence = f"{side} side: {claim.interaction} was not tested: {why}"
        return Finding(
            side=side,
            interaction=claim.interaction,
            verdict="absent",
            share=None,
            n=0,
            examples=0,
            tests=(),
            sentence=sentence,
        )
    interaction = tests[0].second
    total = interaction + tests[-1].first
    verdict = _decide_verdict(tests)
    return Finding(
        side=side,
        interaction=claim.interaction,
        verdict=verdict,
        share=interaction / total if total > ROUNDING else None,
        n=count,
        examples=examples,
        tests=tests,
        needed=_verdict_needed(tests) if verdict == "undecided" else None,
        sentence="",
    )


def _verdict_needed(tests: Sequence[PairedTest]) -> int | None:
    """Comparisons that would decide; None between the larger part and the sum, where noise lies."""
    *parts, together = tests
    deciding = [together] if together.difference > 0 else [t for t in parts if t.difference < 0]
    return min((test.needed for test in deciding if test.needed is not None), default=None)


def _decide_verdict(tests: Sequence[PairedTest]) -> Verdict:
    *parts, together = tests
    if any(test.is_significant and test.difference < 0 for test in parts):
        return "does not dominate"
    return "dominates" if together.is_significant and together.difference > 0 else "undecided"


def _finding_sentence(claim: Claim, finding: Finding) -> str:
    tests, share = finding.tests, finding.share
    lead = {
        "dominates": f"dominates, as it should {claim.when}",
        "does not dominate": f"does not dominate, though it should {claim.when}",
    }.get(finding.verdict, "is not shown to dominate, nor to be dominated")
    part = "" if share is None else f", {100 * share:.0f} % of the three (noise: {NOISE_PERCENT} %)"
    against = join_words([f"{test.metric} = {test.first:.3g} ({test.words})" for test in tests])
    return (
        f"{claim.family.side} side: {claim.subject} {lead}: "
        f"{claim.interaction} = {tests[0].second:.3g}{part}, against {against}; "
        f"{_accuracy_words(finding)} {finding.n} comparisons of {finding.examples} examples, "
        "p after Holm."
    )


def _accuracy_words(finding: Finding) -> str:
    """Accuracy with its interval, and a warning where an interaction dominates without it."""
    accuracy, bounds = finding.accuracy, finding.accuracy_ci95
    percent = 100 * (accuracy or 0.0)
    span = "" if bounds is None else f" ({100 * bounds[0]:.0f}–{100 * bounds[1]:.0f})"
    warning = (
        ", no more than chance: it reacts to the change without knowing which is right"
        if finding.verdict == "dominates" and finding.is_right_by_chance
        else ""
    )
    return f"right in {percent:.0f} %{span}{warning};"
