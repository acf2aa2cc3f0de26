"""Results as a notebook shows them."""

from __future__ import annotations

import numpy as np

import contrapose as cp
from contrapose.results.schema import NotebookView

MARKUP = "<script>alert(1)</script>"


def test_a_comparison_shows_its_table() -> None:
    random = np.random.default_rng(0)
    one, other = (
        cp.measure(random.normal(size=(400, 2, 2)), "winoground", resamples=100) for _ in range(2)
    )
    shown = cp.compare(one, other, resamples=100).model_copy(update={"a": MARKUP})._repr_html_()
    assert shown is not None
    assert "<table>" in shown
    assert "p (Holm)" in shown
    assert "<script" not in shown
    assert "&lt;script" in shown


def test_an_audit_shows_its_tables_and_verdict() -> None:
    report = cp.audit("scenes/replace-color", lm="none", limit=12, resamples=100, cache=False)
    shown = report.model_copy(update={"verdict": (MARKUP,)})._repr_html_()
    assert shown is not None
    assert shown.count("<table>") >= 2
    assert "<p>&lt;script" in shown
    assert "<script" not in shown


def test_a_diagnosis_shows_its_tables_and_findings() -> None:
    run = cp.diagnose(
        "tiny-clip", "scenes", subset="swap-relation", side="text", limit=3, resamples=100,
        cache=False,
    )  # fmt: skip
    shown = run._repr_html_()
    assert shown is not None
    assert "<table>" in shown
    assert "Q_R&amp;O" in shown
    assert "text side" in shown


def test_without_a_renderer_a_notebook_prints_the_object() -> None:
    assert NotebookView()._repr_html_() is None
