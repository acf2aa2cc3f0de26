"""The atlas of public scores: its sections are what the command prints, its pictures are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import contrapose as cp
from studies import atlas, atlas_sections, atlas_tables
from studies.atlas_tables import cell, percent, table

PAGE = (atlas.DOCS / "atlas.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["winoground", "predicate-noun", "bivlc"])
def test_sections_are_what_the_command_prints(name: str, shared: Path, tmp_path: Path) -> None:
    assert atlas.build_section(name, shared, tmp_path) in PAGE
    drawn, kept = (
        re.sub(r"<style>.*?</style>", "", (folder / f"{name}.svg").read_text("utf-8"), flags=re.S)
        for folder in (tmp_path, atlas.DOCS / "atlas")
    )
    assert drawn == kept


def test_figures_of_the_slower_sections(shared: Path) -> None:
    """Values do not depend on the resamples, so that a few tell whether a table is old."""
    folder = shared / "vsr" / "v1" / "scores"
    rows = PAGE.partition("## VSR")[2].partition("\n## ")[0]
    for name, file in (("X-VLM 16M", "x-vlm_16m"), ("ALBEF 4M", "albef_4m")):
        dev, test = (folder / f"{file}_{split}.jsonl" for split in ("dev", "test"))
        run = cp.measure(test, "vsr", dev_scores=dev, resamples=100)
        names = ("accuracy", "accuracy_true", "accuracy_false", "best_threshold_accuracy", "auroc")
        values = r" \([\d.–]+\) \| ".join(percent(run.metrics[one].value) for one in names)
        assert re.search(rf"\| {name} \| {values}", rows), name


def test_published_figures_of_fiber() -> None:
    """The paper's rows of FIBER stand in the section to the digit."""
    section = PAGE.partition("## EqBen")[2].partition("\n## ")[0]
    published = {
        "youcook2": ("52.04", "50.84", "38.32"),
        "gebc": ("25.19", "22.66", "11.08"),
        "ag": ("32.49", "24.05", "13.70"),
        "sd": ("86.05", "88.63", "79.97"),
    }
    for part, values in published.items():
        row = next(line for line in section.splitlines() if line.startswith(f"| {part} |"))
        assert re.findall(r"\| ([\d.]+) \(", row)[:3] == list(values)
    assert "43.47" in section


def test_page_and_its_pictures() -> None:
    assert PAGE.startswith(atlas.INTRODUCTION)
    assert re.findall(r"^## (.*)", PAGE, re.MULTILINE)[:2] == ["Winoground", "VALSE"]
    for picture in re.findall(r"\]\((atlas/[\w-]+\.svg)\)", PAGE):
        assert (atlas.DOCS / picture).read_text(encoding="utf-8").startswith("<svg")
    assert PAGE.count("](atlas/") == len(atlas.SECTIONS)


def test_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    run = cp.measure([[[2.0, 1.0], [0.0, 3.0]]] * 400, "winoground", resamples=100)
    assert cell(run.metrics["text"]).startswith("100.00 (99.")
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert atlas_tables.side(run.metrics["text"]) == "above"
    monkeypatch.setitem(atlas.SECTIONS, "toy", lambda data, charts: "a\n\n- b\n\n- c\n\n- d")
    assert atlas.build_section("toy", Path()) == "a\n\n- b\n- c\n- d"
    assert atlas_sections.VALSE_ROWS[0] == "existence"
