"""`contrapose eval`, with a model and benchmarks of the tests' own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

import contrapose as cp
from contrapose.data import Example, ImageRef, in_memory_benchmark
from contrapose.data import registry as benchmarks
from contrapose.models import registry as models
from contrapose.report.evaluation import evaluation_tables
from contrapose.report.tables import Table
from tests.conftest import Cli
from tests.engine.models import Seeing
from tests.fakes import Entry, Fake, Tower, patches


@pytest.fixture(autouse=True)
def _plugged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(benchmarks, "_plugins", lambda: {"patches": patches()})
    entries = {
        "fake": Entry("fake", "tests:fake", lambda name, device: Fake()),
        "tower": Entry("tower", "tests:tower", lambda name, device: Tower()),
        "seeing": Entry("seeing", "tests:seeing", lambda name, device: Seeing()),
        "broken": Entry("broken", "tests:broken", lambda name, device: Fake(broken=float("nan"))),
    }
    monkeypatch.setattr(models, "_find_plugins", lambda: entries)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-home"))


def test_json(cli: Cli) -> None:
    said = cli("eval", "fake", "--on", "patches", "--score", "itc,lm", "--json", "--quiet")
    assert said.status == 0, said
    assert said.err == ""
    runs = json.loads(said.out)["runs"]
    assert [(run["model"], run["benchmark"], run["score"]) for run in runs] == [
        ("fake", "patches", "itc"), ("fake", "patches", "lm"),
    ]  # fmt: skip
    metric = runs[0]["subsets"]["pairs"]["text"]
    assert set(metric) == {"value", "ci95", "n", "chance", "ties", "share"}
    assert set(runs[0]["metrics"]) == {"average"}


def test_shards(cli: Cli) -> None:
    for i in (1, 2):
        said = cli("eval", "fake", "--on", "patches", "--score", "itm", "--shard", f"{i}/2")
        assert said.status == 0, said
        assert f"shard {i} of 2: scored" in said.out
        assert "chance" not in said.out
    asked = ("eval", "fake", "--on", "patches", "--score", "itm")
    assert cli(*asked, "--cache-use", "only").status == 0
    again = cli(*asked, "--shard", "2/2", "--json", "--quiet")
    assert json.loads(again.out)["waiting"] == 0
    bad = cli(*asked, "--shard", "3/2")
    assert bad.status != 0
    assert "--shard" in bad.err


def test_table(cli: Cli) -> None:
    said = cli("eval", "fake", "tower", "--on", "patches", "--no-cache")
    assert said.status == 0, said
    lines = said.out.splitlines()
    header = lines[1]
    for column in ("fake itc", "fake itm", "fake lm", "tower itc"):
        assert column in header
    assert lines[2].startswith("all")
    assert any(line.split()[:2] == ["pairs", "group"] for line in lines)
    assert "Note on patches (fake lm): gallery is not asked with lm" in said.out
    assert "itm: pairs: 78 of 78" in said.err
    assert not set(said.out) & set("─│┃━╭\x1b")


def test_the_same_whatever_the_batch_and_the_cache(cli: Cli, tmp_path: Path) -> None:
    arguments = ("eval", "fake", "--on", "patches", "--json", "--quiet")
    first = cli(*arguments, "--batch-size", 1, "--cache", tmp_path / "c")
    again = cli(*arguments, "--batch-size", 64, "--cache", tmp_path / "c")
    without = cli(*arguments, "--batch-size", 7, "--no-cache")
    assert first.out == again.out == without.out
    assert not (tmp_path / "cache-home").exists()
    cli(*arguments)
    assert list((tmp_path / "cache-home" / "contrapose").rglob("*.parquet"))


def test_own_files(cli: Cli, tmp_path: Path) -> None:
    for name, colour in (("a", "red"), ("b", "blue")):
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{name}.png")
    rows = [
        {"images": ["a.png", "b.png"], "texts": ["red", "blue"], "match": [[1, 0], [0, 1]]},
        {"images": ["b.png"], "texts": ["one", "two"], "right": 0},
    ]
    rows = [{**row, "id": str(i)} for i, row in enumerate(rows)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = cli("eval", "tower", "--on", tmp_path / "mine.jsonl", "--json", "--no-cache")
    assert said.status == 0, said
    assert json.loads(said.out)["runs"][0]["metrics"]["text"]["n"] == 2
    (tmp_path / "a.png").unlink()
    arguments = ("eval", "tower", "--on", tmp_path / "mine.jsonl", "--no-cache", "-q")
    said = cli(*arguments, "--json")
    assert json.loads(said.out)["runs"][0]["skipped"]["examples"] == 1
    assert "1 of 2 examples was skipped: 1 because the image is not there." in cli(*arguments).out
    message = cli(*arguments, "--strict").refused()
    assert "1 example of " in message
    assert "a.png: the image is not there; put it right" in message
    (tmp_path / "b.png").unlink()
    assert "not one example of " in cli(*arguments).refused()


def test_out_and_compare(cli: Cli, tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = ("eval", "fake", "--on", "patches", "--out", run, "--quiet")
    assert cli(*arguments).status == 0
    assert "is not empty" in cli(*arguments).refused()
    assert cli(*arguments, "--overwrite").status == 0
    said = cli("compare", f"{run}@itm", f"{run}@lm", "--json", "--resamples", 200)
    assert said.status == 0, said
    assert "average" in json.loads(said.out)["metrics"]
    assert "holds several runs" in cli("compare", run, run).refused()
    assert cli("metrics", "patches/pairs", "--scores", run / "scores.parquet").status == 2


def test_prior(cli: Cli) -> None:
    said = cli(
        "eval",
        "fake",
        "--on",
        "patches/pairs",
        "--score",
        "lm",
        "--prior",
        "noise:2",
        "--json",
        "-q",
    )
    runs = json.loads(said.out)["runs"]
    assert [run["score"] for run in runs] == ["lm", "lm-alpha"]
    assert runs[1]["alpha"]["applied"] == "cross-validated"
    assert runs[1]["alpha"]["prior"] == "2 noise images, seed 0"
    arguments = ("eval", "fake", "--on", "patches/pairs", "--score", "lm", "-q")
    usual = cli(*arguments, "--alpha", "auto", "--json")
    assert json.loads(usual.out)["runs"][1]["alpha"]["prior"] == "3 noise images, seed 0"
    others = cli(*arguments, "--prior", "gallery:4", "--alpha", 1)
    assert others.status == 0, others
    header = next(line for line in others.out.splitlines() if "raw (α=0)" in line)
    assert "cross-validated" in header
    assert "oracle (tuned on test)" in header
    assert "the prior is under 4 of the benchmark's own images" in others.out


def test_question_and_report(cli: Cli, tmp_path: Path) -> None:
    arguments = ("eval", "seeing", "--on", "patches", "--score", "lm,vqa", "--alpha", "auto", "-q")
    said = cli(*arguments, "--question", "Is it {}?", "--answer", "no", "--out", tmp_path / "run")
    assert said.status == 0, said
    assert "log P('no') after the question 'Is it {}?'" in said.out
    page = (tmp_path / "run" / "report.html").read_text()
    assert "The language prior" in page
    assert "vqa-alpha" in page
    assert page.count("<svg") >= 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tinny", "--on", "patches"), "no model 'tinny': did you mean tiny"),
        (("fake", "--on", "patchs"), "no benchmark 'patchs': did you mean patches"),
        (("fake", "--on", "patches/pears"), "patches has no part 'pears': did you mean pairs"),
        (("fake", "--on", "patches", "--score", "itk"), "no score 'itk': did you mean"),
        (("tower", "--on", "patches", "--score", "lm"), "tower cannot give 'lm'; it gives itc"),
        (("fake", "--on", "patches", "--subset", "pears"), "no subset 'pears'"),
        (("fake", "--on", "patches", "--limit", 0), "--limit must be at least 1"),
        (("fake", "--on", "patches", "--batch-size", 0), "--batch-size must be at least 1"),
        (("fake", "--on", "patches", "--workers", 0), "--workers must be at least 1"),
        (("fake", "--on", "patches", "--rerank", "-1"), "--rerank must be a number or all"),
        (("tower", "--on", "patches", "--dtype", "int8"), "there is no dtype 'int8'"),
        (("fake", "--on", "patches", "--cache-use", "only"), "are not in the cache"),
        (("fake", "--on", "patches", "--cache", "zzz://x"), "the cache zzz://x cannot be opened"),
        (("fake", "--on", "patches", "--include", "no.py"), "no such file to include"),
        (
            ("fake", "--on", "patches", "--prior", "images"),
            "--prior must be noise:3, images:DIR[:COUNT] or gallery",
        ),
        (("fake", "--on", "patches", "--question", "a cat?"), "--question must hold {} once"),
        (("fake", "--on", "patches", "--answer", " "), "--answer must not be empty"),
        (("tower", "--on", "patches", "--prior", "noise:2"), "--prior is taken out of lm or vqa"),
        (("fake", "--on", "patches", "--prior", "images:nowhere"), "is no folder of images"),
        (
            ("fake", "--on", "patches", "--prior", "noise:2", "--alpha", "2"),
            "--alpha must be auto or a number",
        ),
        (("fake", "--on", "eqben"), "pass --root DIR, the folder of eqben"),
        (("broken", "--on", "patches", "--score", "itm"), "'itm' that is not a number"),
        (("fake", "--on", ","), "--on names no benchmark"),
    ],
)
def test_bad_input(cli: Cli, arguments: tuple[object, ...], message: str) -> None:
    assert message in cli("eval", *arguments, "--quiet").refused()


def test_bad_cache(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    arguments = ("eval", "fake", "--on", "patches", "--quiet", "--cache")
    assert "the cache folder cannot be written" in cli(*arguments, tmp_path / "file").refused()
    assert "do not go together" in cli(*arguments, tmp_path, "--no-cache").refused()
    assert cli(*arguments, tmp_path / "c").status == 0
    for part in (tmp_path / "c").rglob("*.parquet"):
        part.write_bytes(b"PAR1")
    said = cli(*arguments, tmp_path / "c")
    assert said.status == 0, said
    assert "contrapose: " in said.err
    assert f"{part}: is a damaged part of the cache; it was set aside" in said.err
    assert part.with_name(f"{part.name}.damaged").is_file()
    assert "damaged" not in cli(*arguments, tmp_path / "c").err


def test_suites_in_list_check_and_metrics(cli: Cli, tmp_path: Path) -> None:
    listed = cli("list", "benchmarks")
    assert any(line.split()[:3] == ["patches", "4", "parts"] for line in listed.out.splitlines())
    assert "patches/PART" in cli("list", "benchmarks", "patches").out
    assert set(json.loads(cli("list", "benchmarks", "--json").out)["patches"]["parts"]) == {
        "pairs", "choices", "gallery", "edits",
    }  # fmt: skip
    assert cli("check", "data", "patches").status == 0
    message = cli("metrics", "patches", "--scores", tmp_path / "s.csv").refused()
    assert "name one of them: patches/pairs, patches/choices" in message


def test_ask(cli: Cli, tmp_path: Path) -> None:
    arguments = ("eval", "fake", "--on", "patches", "--json", "--cache", tmp_path / "c")
    first = cli(*arguments, "--quiet")
    parts = len(list((tmp_path / "c").rglob("*.parquet")))
    again = cli(*arguments, "--cache-use", "only")
    assert again.out == first.out
    assert "captions:" not in again.err  # nothing was asked again
    assert len(list((tmp_path / "c").rglob("*.parquet"))) == parts
    every = cli(*arguments, "--cache-use", "refresh")
    assert every.out == first.out
    assert "itm: pairs: 78 of 78" in every.err
    assert len(list((tmp_path / "c").rglob("*.parquet"))) == 2 * parts


def test_include_and_rerank(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_loaders", {})
    file = tmp_path / "mine.py"
    file.write_text(
        "from contrapose.models import register_model\n"
        "from tests.fakes import Fake\n"
        "@register_model('mine')\n"
        "def load(name):\n"
        "    return Fake(name=name)\n"
    )
    said = cli(
        "eval", "mine", "--include", file, "--on", "patches/gallery", "--score", "itm",
        "--rerank", 4, "--workers", 1, "--json", "-q", "--no-cache",
    )  # fmt: skip
    assert said.status == 0, said
    assert json.loads(said.out)["runs"][0]["score"] == "itm:rerank=4"


def test_a_remote_cache(cli: Cli) -> None:
    arguments = ("eval", "fake", "--on", "patches", "--json", "--cache", "memory://eval-test")
    first = cli(*arguments)
    again = cli(*arguments)
    assert first.out == again.out
    assert "captions:" in first.err
    assert "captions:" not in again.err


def test_official_protocol_stands_beside_the_strict_one(tmp_path: Path) -> None:
    """Ties are right by the authors' argmax and never here; both are in the run folder."""
    path = tmp_path / "black.png"
    Image.new("RGB", (8, 8)).save(path)
    image = ImageRef("black.png", path)
    examples = [Example(str(i), (image,), ("a", "b"), ((True, False),), {}) for i in range(12)]
    bench = in_memory_benchmark(examples)
    bench = replace(bench, card=replace(bench.card, official_ties="right"))

    def constant(image: object, text: str) -> float:
        return 1.0

    run = cp.evaluate(constant, on=bench, protocol="official", resamples=100, cache=False)
    assert isinstance(run, cp.Run)
    assert (run.metrics["accuracy"].value, run.results.strict["accuracy"].value) == (1.0, 0.0)
    run.save(tmp_path / "run")
    assert cp.load_run(tmp_path / "run").results.strict["accuracy"].value == 0.0
    (table, *_) = evaluation_tables([run.results])
    assert isinstance(table, Table)
    assert "all, strict" in table.plain()
