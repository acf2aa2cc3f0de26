"""Curves by λ: every curve and its best point are drawn, in a report and in a file of its own."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from contrapose.data import in_memory_benchmark
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.report.html.report import render_runs
from contrapose.report.html.scale_plots import (
    run_curves,
    scale_plot,
    scale_table,
    write_scale_plot,
)
from tests.engine.test_edits import DATA
from tests.fakes import Tower
from tests.report.html.checks import Balanced, finite

HOSTILE = "<script>alert(1)</script> & \"'"
CURVES = {
    "τ = 0.1": [(0.0, 0.1), (1.0, 0.5), (2.0, 0.5), (3.0, 0.2)],
    HOSTILE: [(0.0, 0.0), (1.0, 0.1), (2.0, 0.3), (3.0, 0.3)],
}


def test_the_figure_draws_every_curve() -> None:
    drawn = scale_plot("Deltas", CURVES, "R@10")
    page = Balanced(drawn)
    assert finite(drawn)
    assert {"τ = 0.1", HOSTILE} <= set(page.text)
    assert page.count("polyline") == 2 + 2  # and two in the legend
    assert page.count("script") == 0
    assert "τ = 0.1: 50.0 % at λ = 1" in drawn
    assert scale_plot("Nothing", {"one": [(1.0, 0.5)]}, "R@10") == ""
    assert finite(scale_plot("Zero", {"a": [(0.0, 0.0), (1.0, 0.0)]}, "R@10"))


def test_the_table_has_the_best_scale() -> None:
    table = scale_table("Deltas", CURVES)
    assert table.header == ("<curve", "best λ", "at it", "λ = 0", "λ = 1", "λ = 2", "λ = 3")
    assert table.rows[0] == ("τ = 0.1", "1", "50.0", "10.0", "50.0", "50.0", "20.0")
    assert table.rows[1][1:3] == ("2", "30.0")


def test_a_file_of_its_own_is_valid_xml(tmp_path: Path) -> None:
    write_scale_plot(tmp_path / "plot.svg", "Deltas", CURVES, "R@10")
    root = ET.fromstring((tmp_path / "plot.svg").read_text())  # noqa: S314 - written here
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    with pytest.raises(InputError, match="two values"):
        write_scale_plot(tmp_path / "none.svg", "Deltas", {}, "R@10")
    assert not (tmp_path / "none.svg").exists()


def test_a_report_shows_the_curves_of_its_runs() -> None:
    benchmark = in_memory_benchmark(DATA, "some")
    scores = ("itc:delta", "itc:delta:scale=dev")
    runs = evaluate_models([Tower()], EvalRequest((benchmark,), scores, resamples=100))
    curves = run_curves(runs)
    assert len(curves) == 1
    page = render_runs(runs)
    assert "Scale of the delta vectors" in page
    assert "best λ" in page
    assert "Scale of the delta vectors" not in render_runs(runs[:1])
