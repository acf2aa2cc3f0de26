"""`contrapose diagnose`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from contrapose.diagnose.metrics import METRIC_KEYS
from tests.conftest import Cli
from tests.diagnose import swaps
from tests.report.html.checks import explorer_data

QUICK = ("--no-cache", "--resamples", "200", "--quiet", "--device", "cpu")
WITHOUT_ATTRIBUTES = ("Q_O", "Q_R", "Q_R&O")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return swaps.benchmark(tmp_path)


@pytest.fixture
def regions(tmp_path: Path) -> Path:
    return swaps.write(tmp_path / "regions.jsonl", swaps.region_rows())


def test_fourteen_metrics_of_two_models(cli: Cli, own: Path, regions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = (
        "diagnose", "tiny", "tiny-clip", "--on", own, "--regions", regions, "--side", "all",
        "--json", "--out", out, *QUICK,
    )  # fmt: skip
    said = cli(*arguments)
    assert said.status == 0, said
    assert "NaN" not in said.out
    report = json.loads(said.out)
    assert [model["model"] for model in report["models"]] == ["tiny", "tiny-clip"]
    for model in report["models"]:
        assert tuple(model["metrics"]) == METRIC_KEYS
        for metric in model["metrics"].values():
            assert metric["n"] == 8
            assert metric["ci95"] is None  # of four images
            assert "fewer than 10" in metric["notes"][-1]
            if metric["rho"] is None:  # the relation alone is the same in both captions
                assert "do not vary" in metric["notes"][0]
            assert metric["rho_ci95"] is None
            assert 0 <= metric["accuracy"] <= 1
        assert {each["interaction"] for each in model["findings"]} == {
            "Q_R&O", "Q_A&O", "D_O1&O2", "Q_T:R&O->I:O1&O2", "D_I:O1&O2->T:R&O",
        }  # fmt: skip
        # Captions: 4 examples × 2 × 2**3; images: 4 × 2 × 2**2.
        assert model["counts"] == {
            "games": 16, "cells": 512, "encodings": 96, "pairs": 0, "naive": 1024,
        }  # fmt: skip
        assert model["examples"] == 4
        assert {order["games"] for order in model["orders"]} == {16}
        assert set(model["equivariance"]) >= {"text_std", "image_std"}
        absent = {each["interaction"]: each["sentence"] for each in model["findings"]}
        assert "attributes change hands" in absent["Q_A&O"]
    assert report["differences"][0]["models"] == ["tiny · itc", "tiny-clip · itc"]

    assert json.loads((out / "diagnosis.json").read_text(encoding="utf-8")) == report
    table = pq.read_table(out / "examples.parquet").to_pydict()
    for key in METRIC_KEYS:
        rows = [
            i
            for i, (metric, model) in enumerate(zip(table["metric"], table["model"], strict=True))
            if metric == key and model == "tiny"
        ]
        mean = np.mean([table["sensitivity"][i] for i in rows])
        assert mean == pytest.approx(report["models"][0]["metrics"][key]["value"])
        reward = [table["score_right"][i] - table["score_wrong"][i] for i in rows]
        moved = [table["dividend_right"][i] - table["dividend_wrong"][i] for i in rows]
        rho = report["models"][0]["metrics"][key]["rho"]
        if rho is not None:
            assert np.corrcoef(reward, moved)[0, 1] == pytest.approx(rho)
    cells = pq.read_table(out / "dividends.parquet")
    assert cells.num_rows == 1024
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "The most telling examples" in page
    assert page.count("data:image/jpeg") >= 4
    data = explorer_data(page)
    assert [run["label"] for run in data["runs"]] == ["tiny · itc", "tiny-clip · itc"]
    shown = {row["id"]: row for row in data["rows"]}
    assert set(shown) == set(table["example"])
    row = shown[table["example"][0]]
    scores = np.ravel(row["runs"][0]["scores"])
    assert np.isclose(scores, table["score_right"][0], atol=1e-5).any()

    assert cli(*arguments).refused().endswith("choose another --out or pass --overwrite.")


def test_tables_and_sentences(cli: Cli, own: Path) -> None:
    said = cli("diagnose", "tiny", "--on", own, "--side", "text", *QUICK)
    assert said.status == 0, said
    for key in WITHOUT_ATTRIBUTES:
        assert f"\n{key}  " in said.out
    assert "D_O1" not in said.out
    assert "caption changes: relation and object words together" in said.out
    assert said.out.startswith("tiny is not shown to read the order of the words")
    assert "tiny · itc: text side: the interaction of relation and object words" in said.out
    assert "Words from the captions' grammar (scenes)." in said.out
    assert "normalised space" not in said.out  # no region is hidden
    assert "16 games (one image with one caption) of 4 examples, 128 scores; 72" in said.out
    assert not set(said.out) & set("─│┃━╭\x1b")


def test_without_regions_only_the_text_side_is_asked(cli: Cli, own: Path) -> None:
    said = cli("diagnose", "tiny", "--on", own, *QUICK)
    assert said.status == 0, said
    assert "Note: there are no regions for these images, so only the text side" in said.out


def test_words_and_superpixels_play_too(cli: Cli, own: Path, tmp_path: Path) -> None:
    said = cli("diagnose", "tiny", "--on", own, "--players", "words", "--limit", "1", *QUICK)
    assert said.status == 0, said
    assert "Where the score lies" in said.out
    # Each of two captions plays by itself, with either image.
    assert "4 games (one image with one caption) of 1 example, " in said.out
    said = cli(
        "diagnose", "tiny", "--on", own, "--players", "superpixels", "--superpixels", "4",
        "--side", "image", "--limit", "1", "--out", tmp_path / "out", *QUICK,
    )  # fmt: skip
    assert said.status == 0, said
    assert "Regions from 4 superpixels." in said.out
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Dividends of regions" in page
    assert "The 12 largest of 15." in page


def test_the_renderers_masks_of_scenes(cli: Cli) -> None:
    said = cli("diagnose", "tiny", "--on", "scenes", "--limit", "2", "--json", *QUICK)
    assert said.status == 0, said
    report = json.loads(said.out)
    assert report["parts"] == ["location", "attribute", "swap-attribute", "swap-relation"]
    assert report["examples"] == 8
    (model,) = report["models"]
    assert tuple(model["metrics"]) == METRIC_KEYS
    assert all(model["metrics"][key]["n"] for key in METRIC_KEYS)
    assert set(model["parts"]) == set(report["parts"])


def test_nothing_is_asked_twice(cli: Cli, own: Path, tmp_path: Path) -> None:
    arguments = (
        "diagnose", "tiny", "--on", own, "--side", "text", "--json", "--cache", tmp_path / "cache",
        "--resamples", "200", "--quiet",
    )  # fmt: skip
    first = cli(*arguments)
    assert first.status == 0, first
    assert cli(*arguments, "--cache-use", "only").out == first.out


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"id": "0", "image": 0, "regions": {}}], "must name at least one region"),
        (
            [{"id": "0", "image": j, "regions": {"O1": [0, 0, 9, 9], "O2": [5, 5, 9, 9]}}
             for j in range(2)],
            "the regions 'O1' and 'O2' overlap",
        ),
        (
            [{"id": "0", "image": j, "regions": {"O1": {"size": [2, 2], "counts": [1, 3]}}}
             for j in range(2)],
            "is 2 × 2, and the image 48 × 48",
        ),
        (
            [{"id": "0", "image": j, "regions": {"O1": [60, 60, 9, 9]}} for j in range(2)],
            "the region 'O1' is empty",
        ),
        (
            [{"id": "0", "image": 0,
              "regions": {f"P{i}": [i, 0, 1, 1] for i in range(17)}}],
            "there are 17 regions, and 16 is the most",
        ),
    ],
)  # fmt: skip
def test_regions_that_cannot_be_used(
    cli: Cli, own: Path, tmp_path: Path, rows: list[dict[str, object]], says: str
) -> None:
    file = swaps.write(tmp_path / "bad.jsonl", rows)
    said = cli("diagnose", "tiny", "--on", own, "--regions", file, *QUICK).refused()
    assert says in said
    assert "bad.jsonl" in said


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"id": "0", "caption": 0, "spans": {}}], "must name at least one group of words"),
        ([{"id": "0", "caption": 0, "spans": {"O": []}}], "the group 'O' is empty"),
        (
            [{"id": "0", "caption": 0, "spans": {"O": [[2, 5]], "R": [[4, 9]]}}],
            "share words",
        ),
        (
            [{"id": "0", "caption": 0, "spans": {f"P{i}": [[i, i + 1]] for i in range(17)}}],
            "there are 17 groups of words, and 16 is the most",
        ),
        ([{"id": "9", "caption": 0, "spans": {"O": [[2, 5]]}}], "none of 4 examples can be played"),
    ],
)
def test_groups_that_cannot_be_used(
    cli: Cli, own: Path, tmp_path: Path, rows: list[dict[str, object]], says: str
) -> None:
    file = swaps.write(tmp_path / "bad.jsonl", rows)
    said = cli("diagnose", "tiny", "--on", own, "--groups", file, *QUICK).refused()
    assert says in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--side", "image"), "pass --regions FILE"),
        (("--baseline", "smudge"), "there is no baseline 'smudge'"),
        (("--baseline", "mask"), "cannot hide words by 'mask' for itc"),
        (("--baseline", "pad,delete"), "names two ways to hide words"),
        (("--preset", "mine"), "there is no preset 'mine'"),
        (("--preset", "released", "--baseline", "zero"), "a baseline of its own"),
        (("--preset", "released", "--side", "image"), "is of the text side"),
        (("--preset", "released"), "splits captions at their relation"),
        (("--score", "blind"), "blind"),
        (("--superpixels", "4"), "pass --players superpixels too"),
        (("--players", "superpixels", "--superpixels", "17"), "16 is the most"),
        (("--limit", "0"), "--limit must be at least 1"),
        (("--batch-size", "0"), "--batch-size must be at least 1"),
        (("--cache", "x"), "do not go together"),
    ],
)
def test_what_it_refuses(cli: Cli, own: Path, arguments: tuple[str, ...], says: str) -> None:
    assert says in cli("diagnose", "tiny", "--on", own, *arguments, *QUICK).refused()


def test_a_gallery_has_no_games(cli: Cli) -> None:
    said = cli(
        "diagnose", "tiny", "--on", "scenes", "--subset", "gallery", "--limit", "2", *QUICK
    ).refused()
    assert "has no right and wrong captions or images" in said


def test_only_an_earlier_diagnosis_is_written_over(cli: Cli, own: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    said = cli(
        "diagnose", "tiny", "--on", own, "--out", tmp_path / "mine", "--overwrite", *QUICK
    ).refused()
    assert "holds no diagnosis" in said
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_a_kind_of_game_whose_examples_are_all_skipped(cli: Cli, own: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    row = {"id": "x", "image": "broken.png", "texts": ["a red cube", "a blue cube"], "right": 0}
    with own.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")
    out = tmp_path / "out"
    said = cli("diagnose", "tiny-clip", "--on", own, "--side", "text", "--out", out, *QUICK)
    assert said.status == 0, said
    assert set(pq.read_table(out / "dividends.parquet")["example"].to_pylist()) == set("0123")
