"""The page: one balanced file in which everything that comes from data is escaped."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrapose.report import changes_table
from contrapose.report.html import Failure, HtmlReport, render_report, write_report
from tests.report.html.checks import Balanced, alpha, finite, results

HOSTILE = "<script>alert('&')</script> \"quoted\" \x00"


def failure(run: str, texts: tuple[str, ...], pictures: int = 1) -> Failure:
    scores = np.arange(pictures * len(texts), dtype=np.float64).reshape(pictures, -1)
    match = np.zeros(scores.shape, dtype=np.bool_)
    match[:, 0] = True
    image = Image.new("RGB", (500, 250), "red")
    return Failure(run, "swap", "1", (image,) * pictures, texts, scores, match, 0.5)


def full() -> HtmlReport:
    return HtmlReport(
        title=HOSTILE,
        lead=HOSTILE,
        runs=[
            results("a", "itc", notes=(HOSTILE,)),
            results(HOSTILE, "lm", part=HOSTILE, part_alphas={HOSTILE: alpha()}),
        ],
        equivariance={"a · itc": np.linspace(-1, 1, 9)},
        failures=[failure("a · itc", (HOSTILE, "b")), failure(HOSTILE, ("a", "b", "c"), 2)],
    )


def test_hostile_data_is_escaped() -> None:
    markup = render_report(full())
    page = Balanced(markup)
    assert markup.startswith("<!DOCTYPE html>\n<html lang=")
    assert finite(markup)
    assert page.count("script") == 0
    assert "\x00" not in markup
    assert any("<script>alert('&')</script> \"quoted\"" in words for words in page.text)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_everything_is_in_one_file() -> None:
    page = Balanced(render_report(full()))
    sources = [str(each["src"]) for tag, each in page.tags if tag == "img"]
    assert len(sources) == 3
    assert all(source.startswith("data:image/jpeg;base64,") for source in sources)
    assert page.count("link") == 0
    assert all(each.get("alt") for tag, each in page.tags if tag == "img")
    assert all(each.get("aria-label") for tag, each in page.tags if tag == "svg")


def test_failures_say_what_is_right_and_what_was_preferred() -> None:
    words = Balanced(render_report(full())).text
    at = words.index("b")
    assert words[at : at + 3] == ["b", "1.000", "preferred"]
    assert words.count("right") == 1 + 2


def test_an_almost_empty_report() -> None:
    page = Balanced(render_report(HtmlReport("Nothing failed", [results("a", "itc")])))
    assert "The worst failures" not in page.text
    assert "The language prior" not in page.text
    assert "By change" in page.text
    assert Balanced(render_report(HtmlReport("No runs", []))).count("svg") == 0


def test_many_curves_are_cut(tmp_path: Path) -> None:
    run = results("a", "lm", part_alphas={f"part {i}": alpha() for i in range(6)})
    markup = render_report(HtmlReport("Curves", [run]))
    assert "The 4 curves that change most; 2 more in results.json." in markup


def test_writing_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.html"
    for title in ("one", "two"):
        write_report(path, HtmlReport(title, [results("a", "itc")]))
    assert "<title>two</title>" in path.read_text(encoding="utf-8")
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_table_has_a_row_a_change_and_a_column_a_run() -> None:
    table = changes_table([results("a", "itc"), results("b", "lm", part="other")])
    assert table.header == ("<change", "chance", "a · itc", "b · lm")
    assert [row[0] for row in table.rows] == ["swap", "place (group)", "other", "average"]
    assert table.rows[0] == ("swap", "50.0", "60.0 (55.0–65.0)", "–")


@pytest.mark.parametrize("size", [(1, 1), (2000, 3)])
def test_odd_pictures(size: tuple[int, int]) -> None:
    one = failure("a · itc", ("x", "y"))
    odd = Failure(
        one.run, one.part, one.example, (Image.new("L", size),), one.texts, one.scores,
        one.match, one.margin,
    )  # fmt: skip
    markup = render_report(HtmlReport("Odd", [results("a", "itc")], failures=[odd]))
    assert re.search(r"data:image/jpeg;base64,[/\w]", markup)
