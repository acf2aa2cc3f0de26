"""Verdicts in plain words: the answer, its evidence, and what would settle what is open."""

from __future__ import annotations

from typing import Any

import pytest

from contrapose.diagnose.findings import Finding
from contrapose.diagnose.metrics import METRIC_KEYS
from contrapose.diagnose.schema import Counts, DiagnosisReport, ModelDiagnosis
from contrapose.report.diagnosis import diagnosis_tables
from contrapose.report.html.diagnosis import render_verdicts
from contrapose.report.tables import Table
from contrapose.report.verdicts import FACETS, judge_finding, judge_model, spell_metric
from contrapose.results.paired_tests import PairedTest

TESTS = (PairedTest(metric="Q_O", first=1.0, second=2.0, difference=1.0, ci95=None, p_holm=1.0),)


def finding(interaction: str = "Q_R&O", **changes: Any) -> Finding:
    values: dict[str, Any] = {
        "side": "text", "interaction": interaction, "verdict": "undecided", "share": 0.4, "n": 60,
        "examples": 30, "tests": TESTS, "accuracy": 0.5, "accuracy_ci95": (0.4, 0.6),
        "sentence": "",
    }  # fmt: skip
    return Finding(**values | changes)


def report(*findings: Finding, name: str = "tiny") -> DiagnosisReport:
    model = ModelDiagnosis(
        model=name, score="itc", fingerprint="f", examples=30, metrics={}, parts={}, kinds={},
        findings=findings, equivariance=None, orders=(),
        counts=Counts(games=0, cells=0, encodings=0, pairs=0, naive=0), left_out=(),
    )  # fmt: skip
    return DiagnosisReport(
        contrapose="0", benchmark="swaps", parts=(), examples=30, side="text", players="groups",
        words="grammar", regions=None, baseline={}, baseline_words="zero", preset=None,
        resamples=100, seed=0, models=(model,),
    )  # fmt: skip


def headline(*findings: Finding) -> str:
    value = report(*findings)
    return judge_model(value.models[0], value).headline


@pytest.mark.parametrize(
    ("verdict", "bounds", "answer", "phrase"),
    [
        ("dominates", (0.7, 0.9), "yes", "reads the order of the words"),
        ("dominates", (0.4, 0.6), "partly", "without knowing which is right"),
        ("dominates", (0.1, 0.3), "no", "backwards"),
        ("does not dominate", (0.4, 0.6), "no", "reads the words but not their order"),
        ("does not dominate", (0.7, 0.9), "partly", "through single words"),
        ("undecided", (0.7, 0.9), "partly", "is right about the order of the words"),
        ("undecided", (0.4, 0.6), "open", "is not shown to read the order of the words"),
        ("dominates", None, "open", "is not shown"),
    ],
)
def test_verdict_joins_accuracy_and_interaction(
    verdict: str, bounds: tuple[float, float] | None, answer: str, phrase: str
) -> None:
    row = judge_finding(finding(verdict=verdict, accuracy_ci95=bounds))
    assert row.answer == answer
    assert phrase in row.phrase
    assert "n = 60 comparisons of 30 examples" in row.evidence


def test_headline_says_what_it_can_and_what_it_cannot() -> None:
    knows = finding("Q_A&O", verdict="dominates", accuracy_ci95=(0.7, 0.9))
    lacks = finding(verdict="does not dominate")
    assert headline(knows, lacks) == (
        "tiny reads which thing has which attribute; it reads the words but not their order."
    )
    weak = finding("D_I:O1&O2->T:R&O", side="mutual", verdict="does not dominate")
    assert "joins" not in headline(lacks, weak)
    assert "not shown to read the order" in headline(finding())
    absent = finding(
        verdict="absent", tests=(), n=0, sentence="text side: Q_R&O was not tested: w."
    )
    assert "no verdict" in headline(absent)
    assert "two objects change places" in judge_finding(absent).settle


def test_open_questions_say_how_many_comparisons_would_settle_them() -> None:
    row = judge_finding(finding(needed=1234, accuracy_needed=70))
    assert "about 1,300 comparisons (620 examples) would show what it reacts to" in row.settle
    assert "about 70 comparisons (35 examples) would show that it is not chance" in row.settle
    assert "80 % power" in row.settle
    assert "more than 1,000,000" in judge_finding(finding(needed=2_000_000)).settle
    noise = judge_finding(finding(accuracy_ci95=(0.6, 0.8))).settle
    assert "as noise does" in noise
    assert "power" not in noise
    assert "a few more" in judge_finding(finding(needed=50)).settle
    known = finding(verdict="dominates", accuracy_ci95=(0.7, 0.9))
    assert not judge_finding(known).settle


def test_every_interaction_and_metric_is_spelled_out() -> None:
    assert all(len(spell_metric(key).split()) > 3 for key in METRIC_KEYS)
    assert spell_metric("Q_R&O") == "caption changes: relation and object words together"
    assert set(FACETS) <= set(METRIC_KEYS)


def test_terminal_shows_the_verdict_first() -> None:
    parts = diagnosis_tables(report(finding(verdict="does not dominate")))
    assert parts[0] == "tiny reads the words but not their order."
    assert "Does it read the order of the words? No." in str(parts[1])
    assert not any(isinstance(part, Table) for part in parts)  # no metric, so no table or legend


def test_names_are_escaped_on_cards() -> None:
    markup = render_verdicts(report(finding(), name="<script>alert(1)</script>"))
    assert "<script>" not in markup
    assert "&lt;script&gt;" in markup
