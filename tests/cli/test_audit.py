"""`contrapose audit`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.evaluation.audit import benchmarks
from tests.models import small_language as small
from tests.report.html.checks import explorer_data

QUICK = ("--no-cache", "--resamples", "200", "--quiet", "--device", "cpu")


@pytest.fixture
def longer(tmp_path: Path) -> Path:
    return benchmarks.longer_is_wrong(tmp_path / "longer.jsonl")


def test_tables_histograms_and_a_verdict(cli: Cli, longer: Path) -> None:
    said = cli("audit", longer, "--lm", "none", *QUICK)
    assert said.status == 0, said
    assert said.err == ""
    assert "length (fewer words)" in said.out
    assert re.search(r"100\.0 \(\d\d\.\d–100\.0\)\*", said.out)
    assert "█" in said.out
    assert re.search(r"never looks solves 100\.0 % \(\d\d\.\d–100\.0\)", said.out)
    assert not set(said.out) & set("─│┃━╭\x1b")


def test_json_and_a_folder(cli: Cli, longer: Path, tmp_path: Path) -> None:
    lm = small.gpt2(tmp_path / "lm")
    out = tmp_path / "out"
    arguments = ("audit", longer, "--lm", f"lm:{lm}", "--json", "--out", out, *QUICK)
    said = cli(*arguments)
    assert said.status == 0, said
    report = json.loads(said.out)
    assert [score["score"] for score in report["scores"]] == [
        "blind", "blind-sum", "ngram", "length",
    ]  # fmt: skip
    assert json.loads((out / "audit.json").read_text()) == report
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<svg") == 5  # a dot plot, and a histogram a score
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    data = explorer_data(page)
    assert len(data["runs"]) == len(report["scores"])
    assert len(data["rows"]) == report["examples"]
    assert data["thumbnails"] == []  # no image is opened
    right = [row["runs"][2]["outcomes"][0] == "r" for row in data["rows"]]
    assert sum(right) / len(right) == pytest.approx(
        report["scores"][2]["metrics"]["accuracy"]["value"]
    )
    assert cli(*arguments).refused().endswith("choose another --out or pass --overwrite.")
    assert cli(*arguments, "--overwrite").status == 0


def test_answers_are_kept(cli: Cli, longer: Path, tmp_path: Path) -> None:
    lm = small.gpt2(tmp_path / "lm")
    arguments = (
        "audit", longer, "--lm", f"lm:{lm}", "--cache", tmp_path / "cache", "--json",
        "--resamples", "200", "--quiet", "--device", "cpu",
    )  # fmt: skip
    first = cli(*arguments)
    assert cli(*arguments, "--cache-use", "only").out == first.out


def test_two_by_two_sets_are_balanced(cli: Cli, tmp_path: Path) -> None:
    said = cli("audit", benchmarks.winograd(tmp_path / "w.jsonl"), *QUICK)
    assert said.status == 0, said
    assert "a blind score cannot solve it" in said.out


def test_only_an_earlier_audit_is_written_over(cli: Cli, longer: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    said = cli(
        "audit", longer, "--lm", "none", "--out", tmp_path / "mine", "--overwrite", *QUICK
    ).refused()
    assert "holds no audit" in said
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sugarcrepe", "--offline"), "pass --root DIR"),
        (("sugarcrep",), "did you mean"),
        (("scenes", "--subset", "gallery"), "no choice among a few captions"),
        (("LONGER", "--lm", "lm:./nowhere"), "no folder"),
        (("LONGER", "--lm", "tiny"), "--lm tiny: tiny cannot give 'blind'"),
        (("LONGER", "--lm", "none", "--model", "tiny-clip"), "cannot give 'prior'"),
        (("LONGER", "--lm", "none", "--prior", "gallery"), "none of the benchmark's images"),
        (("LONGER", "--lm", "none", "--prior", "noise:0"), "--prior must be"),
        (("LONGER", "--lm", "none", "--ngram-corpus", "nowhere.txt"), "a caption a line"),
        (("LONGER", "--lm", "none", "--likelihoods", "nowhere.jsonl"), "does not exist"),
        (("LONGER", "--batch-size", "0"), "--batch-size must be at least 1"),
        (("LONGER", "--cache", "c"), "do not go together"),
    ],
)
def test_bad_input_is_one_sentence(
    cli: Cli, longer: Path, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    given = [str(longer) if each == "LONGER" else each for each in arguments]
    out = tmp_path / "out"
    assert says in cli("audit", *given, "--out", out, *QUICK).refused()
    assert not out.exists()
