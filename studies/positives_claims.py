"""Claims of the hard-positive study, written before it ran, and the effect that judges each.

Kamath et al., The Hard Positive Truth about Vision-Language Compositionality (ECCV 2024); tables
are those of its supplement. Oversensitivity is s(c) > s(n) > s(p), the half of brittleness that
blames the wording. A claim without a table of the paper is a condition or a reason that the study
adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrapose import metrics
from studies.kept import Answer, KeptAnswers
from studies.positives_photos import PART as PHOTOS
from studies.positives_scenes import REWORDING_KINDS
from studies.positives_tuning import (
    ATTRIBUTE_KINDS,
    DOSES,
    HITS,
    unpack_hits,
    unpack_order,
    unpack_scores,
)
from studies.verdict import Claim, Effect, effect_of, mean_effect

SCENES = "scenes"
POINT = 0.01
ALIKE = 2 * POINT
FloatArray = NDArray[np.float64]
Column = list[FloatArray]
"""Values of an arm, an array for each seed, nan where an example does not count."""

ORDER_METRICS: Mapping[str, Callable[[FloatArray], metrics.Outcome]] = {
    "oversensitive": metrics.original_only,
    "undersensitive": metrics.positive_only,
    "original": metrics.original_accuracy,
    "augmented": metrics.augmented_accuracy,
}


class StudyAnswers:
    """Kept answers of the study as columns by part, arm and measure."""

    def __init__(self, kept: KeptAnswers):
        self.answers: dict[tuple[str, str], dict[int, Answer]] = {}
        for key, answer in kept.items():
            arm = self.answers.setdefault((key["part"], key["arm"]), {})
            arm[int(key.get("seed", 0))] = answer

    def has(self, part: str, *arms: str) -> bool:
        """Whether all of these arms were run, on the same two or more seeds."""
        seeds = [set(self.answers.get((part, arm), ())) for arm in arms]
        return all(some == seeds[0] and len(some) > 1 for some in seeds)

    def seeds(self, part: str, arm: str) -> list[Answer]:
        """Answers of an arm by seed."""
        by_seed = self.answers[part, arm]
        return [by_seed[seed] for seed in sorted(by_seed)]

    def column(self, part: str, arm: str, measure: str) -> Column:
        """Values of a measure, example by example."""
        return [_values(answer, measure) for answer in self.seeds(part, arm)]

    def rewordings(self, part: str) -> list[NDArray[np.str_]]:
        """Kind of the rewording of every triple, by seed."""
        names = np.array(REWORDING_KINDS)
        kinds = [answer["rewording"] for answer in self.seeds(part, "examples")]
        return [names[it] if it.dtype == np.uint8 else it.astype(np.str_) for it in kinds]


def _values(answer: Answer, measure: str) -> FloatArray:
    if measure in ORDER_METRICS:
        return ORDER_METRICS[measure](unpack_order(answer["order"])).values.astype(np.float64)
    if measure == "asymmetry":
        return _values(answer, "oversensitive") - _values(answer, "undersensitive")
    if measure == "given":  # augmented, where the original is right
        return np.where(_values(answer, "original") > 0, _values(answer, "augmented"), np.nan)
    if measure in ("s(c)", "s(n)", "s(p)"):
        return unpack_scores(answer["scores"])[:, ("s(c)", "s(n)", "s(p)").index(measure)]
    if "hits" in answer and measure in HITS:
        return unpack_hits(answer["hits"], measure)
    return np.asarray(answer[measure], np.float64)


class ClaimTest(NamedTuple):
    """Claim with the arms that it needs and the effect on their answers."""

    claim: Claim
    part: str
    arms: tuple[str, ...]
    effect: Callable[[StudyAnswers], Effect | str]


def _less(measure: str, first: str, second: str, part: str) -> Callable[[StudyAnswers], Effect]:
    def effect(answers: StudyAnswers) -> Effect:
        return mean_effect(*(answers.column(part, arm, measure) for arm in (first, second)))

    return effect


def _test(
    text: str,
    measure: str,
    first: str,
    second: str,
    side: str = "above",
    *,
    threshold: float = 0.0,
    source: str = "",
    part: str = SCENES,
) -> ClaimTest:
    """Claim on the difference of a measure between two arms."""
    unit = (1000.0, "thousandths") if measure.startswith("s(") else (100.0, "points")
    claim = Claim(text, side, threshold, unit, source)  # type: ignore[arg-type]
    return ClaimTest(claim, part, (first, second), _less(measure, first, second, part))


def _dose_trend(answers: StudyAnswers) -> Effect:
    """Rise of oversensitivity from one dose to the next, by least squares over the four."""
    weights = np.arange(len(DOSES)) - (len(DOSES) - 1) / 2
    weights /= (weights**2).sum()
    columns = [answers.column(SCENES, f"hn, q={dose:g}", "oversensitive") for dose in DOSES]
    slopes = [
        np.sum([weight * values for weight, values in zip(weights, some, strict=True)], axis=0)
        for some in zip(*columns, strict=True)
    ]
    return mean_effect(slopes, [np.zeros(len(it)) for it in slopes])


def _keeps(arm: str, hard: str, part: str) -> Callable[[StudyAnswers], Effect | str]:
    """Original accuracy of an arm above the middle between plain tuning and hard negatives."""

    def effect(answers: StudyAnswers) -> Effect | str:
        plain, gained, both = (answers.column(part, it, "original") for it in ("plain", hard, arm))
        gain = mean_effect(gained, plain)
        if gain.interval[0] <= 0:
            return "hard negatives show no gain of which something could be kept"
        return mean_effect(both, [(a + b) / 2 for a, b in zip(plain, gained, strict=True)])

    return effect


def _halves(arm: str, hard: str) -> Callable[[StudyAnswers], Effect]:
    """Oversensitivity of an arm less the middle between plain tuning and hard negatives."""

    def effect(answers: StudyAnswers) -> Effect:
        plain, raised, both = (
            answers.column(SCENES, it, "oversensitive") for it in ("plain", hard, arm)
        )
        return mean_effect(both, [(a + b) / 2 for a, b in zip(plain, raised, strict=True)])

    return effect


SEEN = {True: "hp+hn, attributes, q=1", False: "hp+hn, others, q=1"}
"""The arm that learnt from rewordings of attributes, and that of the other kinds."""


def seen_and_unseen(answers: StudyAnswers) -> tuple[Column, Column, Column]:
    """Oversensitivity to kinds in tuning, to kinds not in tuning, and of `hn`; no converses."""
    seen, unseen, hard = [], [], []
    columns = {by: answers.column(SCENES, arm, "oversensitive") for by, arm in SEEN.items()}
    base = answers.column(SCENES, "hn, q=1", "oversensitive")
    for seed, kinds in enumerate(answers.rewordings(SCENES)):
        attribute = np.isin(kinds, ATTRIBUTE_KINDS)
        one, other = columns[True][seed], columns[False][seed]
        counted = np.where(kinds == "converse", np.nan, 0.0)
        seen.append(np.where(attribute, one, other) + counted)
        unseen.append(np.where(attribute, other, one) + counted)
        hard.append(base[seed] + counted)
    return seen, unseen, hard


def _unseen(answers: StudyAnswers) -> Effect:
    _, unseen, hard = seen_and_unseen(answers)
    return mean_effect(unseen, hard)


def _unseen_less_seen(answers: StudyAnswers) -> Effect:
    seen, unseen, _ = seen_and_unseen(answers)
    return mean_effect(unseen, seen)


def _control(answers: StudyAnswers) -> Effect:
    """Rise of oversensitivity to marked rewordings less the rise to converses."""
    hard, plain = (answers.column(SCENES, arm, "oversensitive") for arm in ("hn, q=1", "plain"))
    seeds = [
        (a - b, kinds == "converse")
        for a, b, kinds in zip(hard, plain, answers.rewordings(SCENES), strict=True)
    ]
    return effect_of(seeds, lambda rise, at: float(rise[~at].mean() - rise[at].mean()))


def _other_kinds(answers: StudyAnswers) -> Effect:
    """Oversensitivity to rewordings that are not of objects: positives of objects less none."""
    columns = []
    for arm in ("hp+hn, objects", "hn"):
        values = answers.column(PHOTOS, arm, "oversensitive")
        kinds = answers.rewordings(PHOTOS)
        columns.append(
            [np.where(k == "replace-object", np.nan, v) for v, k in zip(values, kinds, strict=True)]
        )
    return mean_effect(columns[0], columns[1])


HN, BOTH, INSIDE = "hn, q=1", "hp+hn, q=1", "infonce-hn, q=1"
NOT_RUN = "the arms were not run"
T4, T6, T7 = "Table 4", "Table 6", "Table 7"
TESTS: Sequence[ClaimTest] = (
    _test("HN on clean negatives raises the accuracy on negatives", "original",
          "hn, q=0", "plain", source=T4),
    _test("HN, q = 1, raises it too", "original", HN, "plain", source=T4),
    _test("HN, q = 1, makes oversensitive: c>n>p above plain tuning", "oversensitive",
          HN, "plain", source=T4),
    _test("a tenth of marked negatives is enough", "oversensitive", "hn, q=0.1", "plain"),
    ClaimTest(Claim("oversensitivity rises with the dose (per step of the four)"), SCENES,
         tuple(f"hn, q={dose:g}" for dose in DOSES), _dose_trend),
    _test("clean negatives raise it by less than a point", "oversensitive", "hn, q=0", "plain",
          "below", threshold=POINT),
    _test("HN, q = 1, moves the asymmetry c>n>p less p>n>c", "asymmetry", HN, "plain"),
    ClaimTest(Claim("the rise is in rewordings that look like negatives, more than in converses"),
         SCENES, (HN, "plain", "examples"), _control),
    _test("HP+HN lowers c>n>p against HN, q = 1", "oversensitive", BOTH, HN, "below", source=T4),
    ClaimTest(Claim("HP+HN takes back half of the rise or more", "below"), SCENES,
         (BOTH, HN, "plain"), _halves(BOTH, HN)),
    _test("HP+HN, q = 1, is still above plain tuning", "oversensitive", BOTH, "plain"),
    _test("HP+HN, q = 0.3, lowers c>n>p against HN", "oversensitive",
          "hp+hn, q=0.3", "hn, q=0.3", "below", source=T4),
    _test("HP+HN raises augmented accuracy against HN, q = 1", "augmented", BOTH, HN, source=T4),
    ClaimTest(Claim("HP+HN keeps half of HN's gain on negatives or more, q = 1", source=T4), SCENES,
         (BOTH, HN, "plain"), _keeps(BOTH, HN, SCENES)),
    _test("HP alone does not raise c>n>p by a point", "oversensitive", "hp", "plain", "below",
          threshold=POINT),
    _test("HN, q = 1, lowers the caption's own score", "s(c)", HN, "plain", "below", source=T6),
    _test("HP+HN lowers it less than HN", "s(c)", BOTH, HN, source=T6),
    _test("HP+HN retrieves as HN does: text to image R@1 within 2 points", "text_to_image_r1",
          BOTH, HN, "within", threshold=ALIKE, source=T7),
    _test("HP+HN names things as HN does, within 2 points", "naming", BOTH, HN, "within",
          threshold=ALIKE, source=T7),
    _test("HN, q = 1, harms retrieval by reworded captions (R@1)", "reworded_text_to_image_r1",
          HN, "plain", "below"),
    _test("HP+HN repairs it against HN", "reworded_text_to_image_r1", BOTH, HN),
    ClaimTest(Claim("positives help with kinds of rewording that tuning did not have", "below"),
         SCENES, (*SEEN.values(), HN, "examples"), _unseen),
    ClaimTest(Claim("but less than with kinds that were"), SCENES, (*SEEN.values(), HN, "examples"),
         _unseen_less_seen),
    _test("negatives inside the softmax make oversensitive too, q = 1", "oversensitive",
          INSIDE, "plain", source=T4),
    _test("more than beside it", "oversensitive", INSIDE, HN),
    _test("inside and beside (SVLC) more than beside alone", "oversensitive",
          "infonce-hn+hn, q=1", HN, source=T4),
    _test("positives help there too (SVLC+Pos against SVLC)", "oversensitive",
          "svlc, q=1", "infonce-hn+hn, q=1", "below", source=T4),
    _test("more positives, fewer negatives: 4:1 below 1:1, q = 1", "oversensitive",
          "hp:hn 4:1, q=1", BOTH, "below"),
    _test("fewer positives: 1:4 above 1:1, q = 1", "oversensitive", "hp:hn 1:4, q=1", BOTH),
    _test("4:1 costs accuracy on negatives against 1:1", "original", "hp:hn 4:1, q=1", BOTH,
          "below"),
    _test("hp-even does as well as hp, within 2 points of c>n>p", "oversensitive",
          "hp-even+hn, q=1", BOTH, "within", threshold=ALIKE),
    _test("with a learnt temperature HN makes oversensitive too", "oversensitive",
          "hn, learnt, q=1", "plain, learnt"),
    _test("and HP+HN lowers it", "oversensitive", "hp+hn, learnt, q=1", "hn, learnt, q=1",
          "below"),
    _test("photographs: HN raises the accuracy on negatives", "original", "hn", "plain",
          source=T4, part=PHOTOS),
    _test("photographs: HN makes oversensitive", "oversensitive", "hn", "plain", source=T4,
          part=PHOTOS),
    _test("photographs: more than with balanced negatives", "oversensitive", "hn", "hn, balanced",
          part=PHOTOS),
    _test("photographs: word orders and negations make oversensitive", "oversensitive",
          "hn, orders", "plain", part=PHOTOS),
    _test("photographs: HP+HN lowers c>n>p against HN", "oversensitive", "hp+hn", "hn", "below",
          source=T4, part=PHOTOS),
    ClaimTest(Claim("photographs: HP+HN keeps half of HN's gain or more", source=T4), PHOTOS,
         ("hp+hn", "hn", "plain"), _keeps("hp+hn", "hn", PHOTOS)),
    _test("photographs: HP+HN raises augmented accuracy against HN", "augmented", "hp+hn", "hn",
          source=T4, part=PHOTOS),
    _test("photographs: HN lowers the caption's own score", "s(c)", "hn", "plain", "below",
          source=T6, part=PHOTOS),
    _test("photographs: HP+HN lowers it less", "s(c)", "hp+hn", "hn", source=T6, part=PHOTOS),
    _test("photographs: HP+HN retrieves as HN does, within 2 points", "text_to_image_r1",
          "hp+hn", "hn", "within", threshold=ALIKE, source=T7, part=PHOTOS),
    ClaimTest(Claim("photographs: positives of objects help with other rewordings", "below"),
         PHOTOS, ("hp+hn, objects", "hn", "examples"), _other_kinds),
)  # fmt: skip


def effects(answers: StudyAnswers) -> list[tuple[Claim, Effect | str]]:
    """Every claim with its effect, or why it cannot be tested."""
    return [
        (
            test.claim,
            test.effect(answers) if answers.has(test.part, *test.arms) else NOT_RUN,
        )
        for test in TESTS
    ]
