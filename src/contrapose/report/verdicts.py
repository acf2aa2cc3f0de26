"""Verdicts of a diagnosis in plain words: an answer per question, its evidence, and what is open.

A verdict joins the two facts of a finding: how often the model is right when only the order of
things changes, and whether its score then moves by the interaction or by single parts. What is open
comes with the number of comparisons that would settle it. The mutual metrics have rows of their own
but no say in the headline: they tell capable models from others only weakly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from contrapose.diagnose.findings import CHANCE, NOISE_PERCENT, Finding
from contrapose.diagnose.metrics import FAMILIES, METRIC_KEYS
from contrapose.diagnose.schema import DiagnosisReport, ModelDiagnosis
from contrapose.metrics.statistics.significance import POWER
from contrapose.report.tables import Table
from contrapose.results.paired_tests import join_words

Answer = Literal["yes", "no", "partly", "open", "not tested"]

MARKS: dict[Answer, str] = {"yes": "✓", "no": "✗", "partly": "~", "open": "?", "not tested": "–"}
"""Signs of the answers."""

MOST_NEEDED = 1_000_000
"""Numbers of comparisons above this are not spelled out."""

PATTERN_WORDS = {
    "O": "object words",
    "R": "relation words",
    "A": "attribute words",
    "R&O": "relation and object words together",
    "A&O": "attribute and object words together",
    "O1": "the first object",
    "O2": "the second object",
    "O1&O2": "both objects together",
}
"""Patterns of players in words."""


@dataclass(frozen=True, slots=True)
class Facet:
    """Question that one interaction answers, with the phrases of its answers.

    Attributes:
        question: asked of the model.
        topic: what it asks after.
        ability: the ability, as an infinitive.
        knows: it has the ability.
        notices: it reacts, without knowing which is right.
        lacks: it reacts to the parts only.
        backwards: it prefers the wrong one.
        change: the change of captions or images that tests it.
        parts: the single players.
        main: whether it counts for the headline.
    """

    question: str
    topic: str
    ability: str
    knows: str
    notices: str
    lacks: str
    backwards: str
    change: str
    parts: str
    main: bool = True


FACETS = {
    "Q_R&O": Facet(
        "Does it read the order of the words?",
        "the order of the words",
        "read the order of the words",
        "reads the order of the words",
        "notices that the order of the words changed, without knowing which is right",
        "reads the words but not their order",
        "has the order of the words backwards",
        "two objects change places in a caption of the same words",
        "single words",
    ),
    "Q_A&O": Facet(
        "Does it read which thing has which attribute?",
        "which thing has which attribute",
        "read which thing has which attribute",
        "reads which thing has which attribute",
        "notices that attributes changed hands, without knowing which is right",
        "reads the attributes but not whose they are",
        "gives attributes to the wrong things",
        "two attributes change hands in a caption of the same words",
        "single words",
    ),
    "D_O1&O2": Facet(
        "Does it see how two objects stand to each other?",
        "how two objects stand to each other",
        "see how two objects stand to each other",
        "sees how two objects stand to each other",
        "notices that two objects stand otherwise, without knowing which is right",
        "sees the objects but not how they stand to each other",
        "has the places of two objects backwards",
        "the same two objects stand otherwise in the image",
        "single objects",
    ),
    "Q_T:R&O->I:O1&O2": Facet(
        "Do relation words act on both objects together?",
        "a changed relation word",
        "join relation words with both objects",
        "joins relation words with both objects",
        "joins relation words with both objects, without knowing which is right",
        "joins relation words with single objects only",
        "joins relation words with both objects, and prefers the wrong one",
        "the relation changes in a caption",
        "single objects",
        main=False,
    ),
    "D_I:O1&O2->T:R&O": Facet(
        "Do both objects act on relation and object words together?",
        "a changed relation of two objects",
        "join both objects with relation and object words",
        "joins both objects with relation and object words",
        "joins both objects with relation and object words, without knowing which is right",
        "joins both objects with single groups of words only",
        "joins both objects with relation and object words, and prefers the wrong one",
        "the relation changes in the image",
        "single groups of words",
        main=False,
    ),
}
"""The facet of each interaction."""


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """Answer to one question.

    Attributes:
        facet: the question.
        answer: yes, no, partly, open or not tested.
        phrase: what the model does, as a verb phrase.
        evidence: the numbers behind it.
        settle: the number of comparisons that would settle what is open; empty where nothing is.
    """

    facet: Facet
    answer: Answer
    phrase: str
    evidence: str
    settle: str = ""

    @property
    def line(self) -> str:
        """Sentence for a terminal."""
        parts = [f"{MARKS[self.answer]} {self.facet.question} {self.answer.capitalize()}.",
                 self.evidence, self.settle]  # fmt: skip
        return "  " + " ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """Verdict on one model.

    Attributes:
        label: model and score.
        headline: the verdict in one sentence.
        rows: an answer per question, main ones first.
    """

    label: str
    headline: str
    rows: tuple[VerdictRow, ...]


def judge_model(model: ModelDiagnosis, report: DiagnosisReport) -> VerdictCard:
    """Verdict on a model from its findings."""
    rows = tuple(judge_finding(finding) for finding in model.findings)
    label = f"{model.model} · {model.score}"
    return VerdictCard(label, _headline(model.model, rows, report), rows)


def judge_finding(finding: Finding) -> VerdictRow:
    """Answer to the question of one interaction."""
    facet = FACETS[finding.interaction]
    if not finding.tests:
        reason = finding.sentence.partition("not tested: ")[2]
        settle = f"It takes examples in which {facet.change}."
        return VerdictRow(facet, "not tested", "", reason[:1].upper() + reason[1:], settle)
    answer, phrase = _classify(facet, finding)
    return VerdictRow(facet, answer, phrase, _evidence(finding), _settle(finding))


def _classify(facet: Facet, finding: Finding) -> tuple[Answer, str]:
    bounds = finding.accuracy_ci95
    percent = f"{100 * (finding.accuracy or 0.0):.0f} %"
    if bounds is None:
        return "open", f"is not shown to {facet.ability}"
    if bounds[1] < CHANCE:
        return "no", facet.backwards
    above = bounds[0] > CHANCE
    if finding.verdict == "dominates":
        return ("yes", facet.knows) if above else ("partly", facet.notices)
    if above:
        how = f", through {facet.parts}" if finding.verdict == "does not dominate" else ""
        return "partly", f"is right about {facet.topic} in {percent}{how}"
    if finding.verdict == "does not dominate":
        return "no", facet.lacks
    return "open", f"is not shown to {facet.ability}"


def _evidence(finding: Finding) -> str:
    bounds, share = finding.accuracy_ci95, finding.share
    span = "" if bounds is None else f"{100 * bounds[0]:.0f}–{100 * bounds[1]:.0f}; "
    count = f"n = {finding.n:,}"
    if finding.examples != finding.n:
        count += f" comparisons of {finding.examples:,} examples"
    right = f"Right in {100 * (finding.accuracy or 0.0):.0f} % ({span}chance 50), {count}"
    if share is None:
        return f"{right}; the score does not move."
    words = {
        "dominates": "shown to exceed its parts",
        "does not dominate": "exceeded by a part",
    }.get(finding.verdict, "not shown to exceed its parts, nor to be exceeded")
    return (
        f"{right}; the interaction has {100 * share:.0f} % of the reaction (noise "
        f"{NOISE_PERCENT}), {words}."
    )


def _settle(finding: Finding) -> str:
    """Comparisons that would settle what is open, with the power they have."""
    bounds = finding.accuracy_ci95
    parts = []
    if bounds is None or bounds[0] <= CHANCE <= bounds[1]:
        if finding.accuracy_needed is not None:
            parts.append(f"{_count_words(finding.accuracy_needed, finding)} that it is not chance")
        elif finding.accuracy == CHANCE:
            parts.append("it is right exactly as often as chance")
    if finding.verdict == "undecided" and finding.needed is not None:
        parts.append(f"{_count_words(finding.needed, finding)} what it reacts to")
    elif finding.verdict == "undecided" and finding.share is not None:
        parts.append(
            "more examples would not show what it reacts to, since the interaction lies between "
            "its larger part and their sum, as noise does"
        )
    if not parts:
        return ""
    counted = any("would show" in part for part in parts)
    power = f" ({100 * POWER:.0f} % power, at the effect seen)" if counted else ""
    return f"Open: {'; '.join(parts)}{power}."


def _count_words(needed: int, finding: Finding) -> str:
    if needed > MOST_NEEDED:
        return f"more than {MOST_NEEDED:,} comparisons would show"
    if needed <= finding.n:  # at the border: the bootstrap is stricter than the normal test
        return "a few more comparisons, or more resamples, would show"
    count = f"about {_round_up(needed):,} comparisons"
    if finding.examples != finding.n:
        examples = -(-needed * finding.examples // finding.n)
        count += f" ({_round_up(examples):,} examples)"
    return f"{count} would show"


def _round_up(count: int) -> int:
    """Count with two significant digits, never below it."""
    power: int = 10 ** max(0, len(str(count)) - 2)
    return -(-count // power) * power


def _headline(name: str, rows: Iterable[VerdictRow], report: DiagnosisReport) -> str:
    main = [row for row in rows if row.facet.main] or list(rows)
    good = [row.phrase for row in main if row.answer == "yes"]
    mixed = [row.phrase for row in main if row.answer == "partly"]
    bad = [row.phrase for row in main if row.answer == "no"]
    unknown = [row.facet.ability for row in main if row.answer == "open"]
    if not (good or mixed or bad or unknown):
        return (
            f"{name}: no verdict. {report.benchmark} has no examples, with these players, in "
            "which only the order of things changes."
        )
    parts = [join_words(some) for some in (good, mixed, bad) if some]
    if unknown:
        parts.append(f"is not shown to {' or to '.join(unknown)}")
    return f"{name} {'; it '.join(parts)}."


def verdict_lines(report: DiagnosisReport) -> list[str]:
    """Verdicts of all models for a terminal: a headline each, and its rows."""
    lines = []
    for model in report.models:
        card = judge_model(model, report)
        lines += [card.headline, *(row.line for row in card.rows if row.answer != "not tested")]
        absent = [row for row in card.rows if row.answer == "not tested"]
        if absent and len(absent) == len(card.rows):
            lines += [row.line for row in absent if row.facet.main]
        elif absent:
            questions = " ".join(row.facet.question for row in absent)
            lines.append(f"  {MARKS['not tested']} Not tested: {questions} {absent[0].evidence}")
    return lines


def spell_metric(key: str) -> str:
    """Metric's code in words, as `caption changes: relation and object words together`."""
    for family in FAMILIES:
        for pattern in family.patterns:
            if pattern.key == key:
                sides = (pattern.text, pattern.image)
                words = " with ".join(PATTERN_WORDS[side] for side in sides if side is not None)
                return f"{family.exchanged.removesuffix('s')} changes: {words}"
    raise KeyError(key)


def spell_player(name: str) -> str:
    """Player in words, with its letter: `relation words (R)`; other names as they are."""
    return f"{PATTERN_WORDS[name]} ({name})" if name in PATTERN_WORDS else name


def legend_table(report: DiagnosisReport) -> Table:
    """Legend of the codes of metrics that a report has."""
    known = {key for model in report.models for key, metric in model.metrics.items() if metric.n}
    rows = tuple((key, spell_metric(key)) for key in METRIC_KEYS if key in known)
    title = "Legend · how much the effect of these players changes with the caption or the image"
    return Table(title, ("<metric", "<players"), rows)
