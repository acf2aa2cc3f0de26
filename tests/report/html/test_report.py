"""The report of runs: one balanced file in which everything that comes from data is escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from contrapose.data import Example
from contrapose.data.examples import diagonal_match, single_match
from contrapose.metrics import Equivariance
from contrapose.report import parts_table
from contrapose.report.explorer.page import build_explorer
from contrapose.report.explorer.table import ExampleTable
from contrapose.report.html import render_results, render_runs, write_report
from contrapose.report.results import MAX_PARTS
from contrapose.report.run_examples import example_scores
from contrapose.results import Results, RunRecord, SkipReport
from tests.fakes import patch
from tests.report.html.checks import Balanced, alpha, explorer_data, finite, metric, results
from tests.report.html.test_failure_cards import CASES, SCORES, make_run

HOSTILE = "<script>alert('&')</script> \"quoted\" \x00"


def hostile_run() -> RunRecord:
    """Run of which every text that a page shows is hostile."""
    cases = {
        f"{HOSTILE}/{name}": Example(
            name, (patch(1),), (HOSTILE, name), single_match(2, 0), {"kind": HOSTILE}
        )
        for name in ("</script><!--", "\u2028'\"")
    }
    run = make_run(cases, {name: [[0.1, 0.2]] for name in cases})
    skipped = {HOSTILE: HOSTILE}
    return replace(run, results=results(HOSTILE, "lm"), spec={"skipped": skipped})


def full_report() -> str:
    values = np.linspace(-1, 1, 9)
    skips = SkipReport(examples=2, reasons={HOSTILE: 2}, first=HOSTILE)
    return render_results(
        [
            results("a", "itc", notes=(HOSTILE,), skipped=skips),
            results(HOSTILE, "lm", part=HOSTILE, part_alphas={HOSTILE: alpha()}),
        ],
        title=HOSTILE,
        lead=HOSTILE,
        equivariance={HOSTILE: {"a · itc": Equivariance(values, values)}},
        explorer=build_explorer(ExampleTable([hostile_run()])),
        skipped={"a · itc": {HOSTILE: HOSTILE}},
        origins=[{"command": HOSTILE}, {}],
    )


def test_hostile_data_is_escaped() -> None:
    markup = full_report()
    page = Balanced(markup)
    assert markup.startswith("<!DOCTYPE html>\n<html lang=")
    assert finite(markup)
    assert page.count("script") == 3
    assert markup.count("</script>") == 3
    assert "\u2028" not in markup
    assert "\x00" not in markup
    assert any("<script>alert('&')</script> \"quoted\"" in words for words in page.text)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_everything_is_in_one_file() -> None:
    page = Balanced(full_report())
    policies = [
        str(attributes["content"])
        for tag, attributes in page.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    scripts = re.findall(r"<script>(.*?)</script>", full_report(), re.DOTALL)
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    assert policies[0].startswith("default-src 'none';")
    assert f"script-src {hashes[0]} {hashes[1]}" in policies[0]
    assert len(scripts[1].splitlines()) <= 400
    assert "connect-src" not in policies[0]
    data = explorer_data(full_report())
    assert [row["id"] for row in data["rows"]][-1] == HOSTILE
    assert all(source.startswith("data:image/jpeg;base64,") for source in data["thumbnails"])
    page.require_self_contained()
    assert all(attributes.get("alt") for tag, attributes in page.tags if tag == "img")
    assert all(attributes.get("aria-label") for tag, attributes in page.tags if tag == "svg")


def test_sections_only_for_what_the_results_have() -> None:
    page = Balanced(render_results([results("a", "itc")], title="Nothing failed"))
    absent = {"Examples", "The language prior", "Equivariance", "Skipped examples"}
    assert not absent & set(page.text)
    assert {"In short", "By part"} <= set(page.text)
    assert Balanced(render_results([], title="No runs")).count("svg") == 0


def test_skipped_examples_with_reasons() -> None:
    skips = SkipReport(examples=3, reasons={"the image is missing": 2, "too long": 1}, first="x")
    names = {f"{i}.png": "the image is not there" for i in range(60)}
    markup = render_results([results("a", "itc", skipped=skips)], skipped={"a · itc": names})
    words = Balanced(markup).text
    assert {"Skipped examples", "the image is missing", "too long"} <= set(words)
    assert "0.png: the image is not there" in words
    assert "10 more in spec.json" in words


def test_equivariance_by_part_on_both_sides() -> None:
    def pair(name: str) -> Example:
        return Example(name, (patch(1), patch(2)), ("one", "two"), diagonal_match(2))

    rng = np.random.default_rng(0)
    cases = {f"{part}/{i}": pair(str(i)) for part in ("near", "far") for i in range(5)}
    cases["choice/0"] = Example("0", (patch(1),), ("one", "two"), single_match(2, 0))
    scores = {name: rng.normal(size=case.shape).tolist() for name, case in cases.items()}
    run = make_run(cases, scores)
    words = Balanced(render_runs(run)).text
    assert {"near · text side", "near · image side", "far · text side"} <= set(words)
    assert "choice · text side" not in words

    scored = example_scores(run)
    assert scored is not None
    near = np.array([scores[f"near/{i}"] for i in range(5)])
    spread = near.std()
    text = (near[:, 0, 0] - near[:, 0, 1] - near[:, 1, 1] + near[:, 1, 0]) / spread
    by_part = scored.equivariance()
    assert list(by_part) == ["near", "far"]
    assert np.allclose(by_part["near"].text, text)


def test_title_names_models_and_benchmarks() -> None:
    runs = [make_run(CASES, SCORES), make_run(CASES, SCORES, "lm")]
    assert "<title>a on made-up</title>" in render_runs(runs)
    own = results("a", "itc").model_copy(update={"model": None, "score": None, "scores": "b/c.csv"})
    assert "<title>c.csv on made-up</title>" in render_results([own])


def test_many_curves_are_cut() -> None:
    run = results("a", "lm", part_alphas={f"part {i}": alpha() for i in range(6)})
    assert "The 4 curves that change most; 2 more in results.json." in render_results([run])


def test_many_parts_are_cut_to_the_largest() -> None:
    sizes = {f"p{i}": {"accuracy": metric(0.5).model_copy(update={"n": i})} for i in range(1, 61)}
    run = results("a", "itc").model_copy(update={"subsets": sizes})
    words = Balanced(render_results([run])).text
    assert f"The {MAX_PARTS} largest parts; 20 more below." in words
    assert words.count("p60") == 3  # plot, table, every metric
    assert words.count("p1") == 1


def test_writing_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.html"
    for title in ("one", "two"):
        write_report(make_run(CASES, SCORES), path, title=title)
    assert "<title>two</title>" in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_table_has_a_row_per_part_and_a_column_per_run() -> None:
    table = parts_table([results("a", "itc"), results("b", "lm", part="other")])
    assert table.header == ("<change", "n", "chance", "a · itc", "b · lm")
    assert [row[0] for row in table.rows] == ["swap", "place (group)", "other", "average"]
    assert table.rows[0][2:] == ("50.0", "60.0 (55.0–65.0)", "–")


def test_parts_over_different_examples_have_n_for_each_run() -> None:
    one, other = results("a", "itc"), results("b", "itc")
    (part, values), *_ = other.subsets.items()
    fewer = {name: value.model_copy(update={"n": value.n - 3}) for name, value in values.items()}
    other = other.model_copy(update={"subsets": {**other.subsets, part: fewer}})
    n = next(iter(values.values())).n
    assert parts_table([one, other]).rows[0][1] == f"{n} / {n - 3}"
    assert parts_table([one, one.model_copy(update={"model": "c"})]).rows[0][1] == str(n)
    assert f"{n} / {n - 3}" in Balanced(render_results([one, other])).text


def test_official_protocol_is_named() -> None:
    run: Results = results("a", "itc").model_copy(update={"protocol": "official"})
    assert "official script" in render_results([run])
    assert "a tie is never a win" not in render_results([run])
