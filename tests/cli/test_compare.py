"""Paired tests through the command line, confirmed by a second computation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.conftest import Cli
from tests.report.html.checks import explorer_data


def text_outcomes(path: Path) -> np.ndarray:
    """Winoground's text score, written out once more."""
    scores: dict[str, float] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        scores[row["label"]] = row["score"]
    return np.array(
        [
            scores[f"{i}_c0_i0"] > scores[f"{i}_c1_i0"]
            and scores[f"{i}_c1_i1"] > scores[f"{i}_c0_i1"]
            for i in range(400)
        ]
    )


def compared(cli: Cli, *arguments: object) -> dict[str, Any]:
    said = cli("compare", *arguments, "--json")
    assert said.status == 0, said
    found: dict[str, Any] = json.loads(said.out)
    return found


def test_clip_and_vilt(cli: Cli, shared: Path) -> None:
    a, b = (shared / f"winoground_scores/{name}.jsonl" for name in ("clip", "vilt"))
    found = compared(cli, a, b, "--test", "exact")
    first, second = text_outcomes(a), text_outcomes(b)
    only_a, only_b = int((first & ~second).sum()), int((second & ~first).sum())
    text = found["metrics"]["text"]
    assert text["test"] == "mcnemar-exact"
    assert text["p"] == pytest.approx(stats.binomtest(only_b, only_a + only_b, 0.5).pvalue)
    assert text["difference"] == pytest.approx(0.3475 - 0.3075)
    midp = compared(cli, a, b)["metrics"]["text"]
    discordant = stats.binom(only_a + only_b, 0.5)
    smaller = min(only_a, only_b)
    assert midp["p"] == pytest.approx(2 * discordant.cdf(smaller) - discordant.pmf(smaller))
    assert text["verdict"] == "no significant difference"


def test_gate(cli: Cli, shared: Path) -> None:
    human, clip = (shared / f"winoground_scores/{name}.jsonl" for name in ("human", "clip"))
    assert cli("compare", human, clip, "--gate").status == 1
    assert cli("compare", human, clip).status == 0
    assert cli("compare", clip, human, "--gate").status == 0
    assert cli("compare", clip, clip, "--gate").status == 0


def test_one_metric(cli: Cli, shared: Path) -> None:
    """The correction counts what is compared; spreads are compared when asked for."""
    human, clip = (shared / f"winoground_scores/{name}.jsonl" for name in ("human", "clip"))
    alone = compared(cli, human, clip, "--metric", "equivariance_text_std")["metrics"]
    assert set(alone) == {"equivariance_text_std"}
    change = alone["equivariance_text_std"]
    assert change["test"] == "paired-bootstrap"
    assert change["p"] == change["p_holm"]
    assert change["verdict"] == ("better" if change["difference"] < 0 else "worse")
    message = cli("compare", human, clip, "--metric", "txt").refused()
    assert "'txt' cannot be compared; metrics here: text, image, group" in message


def test_run_folders(cli: Cli, shared: Path, tmp_path: Path) -> None:
    paths = [shared / f"winoground_scores/{name}.jsonl" for name in ("clip", "vilt")]
    runs = [tmp_path / path.stem for path in paths]
    for path, run in zip(paths, runs, strict=True):
        assert cli("metrics", "winoground", "--scores", path, "--out", run).status == 0
        assert sorted(file.name for file in run.iterdir()) == [
            "examples.parquet", "report.html", "results.json", "scores.parquet", "spec.json",
        ]  # fmt: skip
    from_files, from_runs = compared(cli, *paths), compared(cli, *runs)
    assert from_runs["metrics"] == from_files["metrics"]


def test_page_with_the_examples_of_both(cli: Cli, tmp_path: Path) -> None:
    a = write_scores(tmp_path / "a.csv", 30, 20)
    b = write_scores(tmp_path / "b.csv", 30, 10)
    rows = [
        json.dumps({"id": str(i), "images": ["x.png"], "texts": [f"a {i}", "b"], "match": [[1, 0]]})
        for i in range(30)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(rows))
    run, out = tmp_path / "run", tmp_path / "out"
    options = ("--on", tmp_path / "own.jsonl", "--resamples", 200)
    assert cli("metrics", tmp_path / "own.jsonl", "--scores", a, "--out", run).status == 0
    plain = compared(cli, run, b, *options)
    assert compared(cli, run, b, *options, "--out", out) == plain
    assert json.loads((out / "comparison.json").read_text()) == plain
    data = explorer_data((out / "report.html").read_text(encoding="utf-8"))
    assert data["start"] == {"b": 1, "sort": "loss", "outcome": "right-wrong"}
    codes = ["".join(one["outcomes"][0] for one in row["runs"]) for row in data["rows"]]
    assert (codes.count("rw"), codes.count("rr"), codes.count("ww")) == (10, 10, 10)
    assert "--overwrite" in cli("compare", run, b, *options, "--out", out).refused()
    assert cli("compare", run, b, a, *options, "--out", out, "--overwrite").status == 0
    data = explorer_data((out / "report.html").read_text(encoding="utf-8"))
    assert len(data["runs"]) == 3
    assert len({one["label"] for one in data["runs"]}) == 3
    assert "no comparison" in cli("compare", run, b, "--out", run, "--overwrite").refused()


def test_clusters_change_the_test(cli: Cli, shared: Path) -> None:
    a, b = (shared / f"valse/scores/{name}.jsonl" for name in ("clipcap_coco", "x-vlm_4m"))
    found = compared(cli, a, b, "--root", shared / "valse", "--resamples", 200)
    assert {change["test"] for change in found["metrics"].values()} == {"paired-bootstrap"}
    assert found["metrics"]["pairwise_accuracy"]["verdict"] == "better"


def test_different_benchmarks_and_examples(cli: Cli, shared: Path, tmp_path: Path) -> None:
    wino = shared / "winoground_scores/clip.jsonl"
    message = cli("compare", wino, shared / "valse/scores/x-vlm_4m.jsonl").refused()
    assert "A is of winoground and B of valse" in message
    part = tmp_path / "part.jsonl"
    part.write_text("\n".join(wino.read_text().splitlines()[:400]))
    assert "300 of 400 examples have no scores" in cli("compare", wino, part).refused()
    assert compared(cli, wino, part, "--partial")["metrics"]["text"]["n"] == 100
    general = tmp_path / "s.csv"
    general.write_text("example,image,text,score\n1,0,0,0.5\n")
    assert "--on" in cli("compare", general, general).refused()


def write_scores(path: Path, count: int, right: int) -> Path:
    """Score table of examples of one image and two captions, of which the first are right."""
    rows = [f"{i},0,{j},{int((j == 0) == (i < right))}" for i in range(count) for j in range(2)]
    path.write_text("\n".join(["example,image,text,score", *rows]))
    return path


@pytest.mark.parametrize(("images", "few"), [(1, True), (9, True), (500, False)])
def test_few_clusters_give_no_verdict(cli: Cli, tmp_path: Path, images: int, few: bool) -> None:
    """Examples that share one image are one cluster, and say nothing of others."""
    examples = tmp_path / "examples.jsonl"
    lines = [
        {"id": str(i), "images": [f"{i % images}.png"], "texts": ["a", "b"], "right": 0}
        for i in range(500)
    ]
    examples.write_text("\n".join(map(json.dumps, lines)))
    a, b = (write_scores(tmp_path / f"{n}.csv", 500, n) for n in (500, 400))
    found = compared(cli, a, b, "--on", examples)
    change = found["metrics"]["accuracy"]
    assert change["difference"] == pytest.approx(-0.2)
    assert (change["ci95"] is None) == few
    assert (change["test"] == "too few") == few
    assert change["verdict"] == ("no significant difference" if few else "worse")
    assert any("fewer than 10 clusters" in note for note in found["notes"]) == few
    gate = cli("compare", a, b, "--on", examples, "--gate")
    assert gate.status == (0 if few else 1)
    assert ("fewer than 10 clusters" in gate.out) == few
    measured = cli("metrics", examples, "--scores", b)
    assert ("fewer than 10 clusters" in measured.out) == few
    assert measured.status == 0


def test_several_candidates_share_one_correction(cli: Cli, shared: Path) -> None:
    files = [shared / f"winoground_scores/{name}.jsonl" for name in ("human", "clip", "vilt")]
    said = cli("compare", *files, "--json", "--resamples", 100)
    assert said.status == 0, said
    first, second = json.loads(said.out)["comparisons"]
    assert (first["a"], second["a"]) == (str(files[0]), str(files[0]))
    alone = compared(cli, files[0], files[1], "--resamples", 100)
    for name, change in first["metrics"].items():
        assert change["p"] == alone["metrics"][name]["p"]
        assert change["p_holm"] >= alone["metrics"][name]["p_holm"]
        assert change["verdict"] == "worse"
    table = cli("compare", *files, "--resamples", 100).out
    assert table.count("▼") > 6
    assert cli("compare", files[1], files[2], files[0], "--gate", "--resamples", 100).status == 0
    assert cli("compare", *files, "--gate", "--resamples", 100).status == 1
    rows = cli("compare", *files, "--format", "csv", "--resamples", 100).out.splitlines()
    assert len(rows) == 1 + sum(len(one["metrics"]) for one in (first, second))
