"""`check data` and `list benchmarks`: counts, problems by line, status, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from contrapose.api.catalog import load_benchmark
from contrapose.data import benchmark_names
from contrapose.report.benchmarks import benchmark_row, benchmarks_table
from contrapose.report.tables import Table
from contrapose.report.terminal import fit_table, table_width
from tests.conftest import Cli


def own(root: Path, *lines: str) -> Path:
    path = root / "mine.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


GOOD = '{"id": "1", "images": ["a.png"], "texts": ["a dog", "a cat"], "right": 0}'


def test_whole_data_is_well(cli: Cli, tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    said = cli("check", "data", own(tmp_path, GOOD))
    assert said.status == 0
    assert "1 images (1 opened), 2 captions." in said.out
    assert "Nothing is wrong." in said.out


def test_check_of_a_subset_and_of_the_first_examples(cli: Cli, tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    line = (
        '{{"id": "{}", "images": ["{}.png"], "texts": ["a dog {}", "a cat"], "right": 0, '
        '"tags": {{"subset": "{}"}}}}'
    )
    rows = [line.format(n, "a", n, "pets") for n in (1, 2)] + [line.format(3, "gone", 3, "wild")]
    path = own(tmp_path, *rows, "no record")
    assert cli("check", "data", path).status == 1
    report = json.loads(cli("check", "data", path, "--subset", "pets", "--json").out)
    assert report["examples"] == {"pets": 2}
    assert [problem["kind"] for problem in report["problems"]] == ["malformed record"]
    report = json.loads(cli("check", "data", path, "--limit", "1", "--json").out)
    assert report["examples"] == {"pets": 1, "wild": 1}
    assert report["captions"] == 3
    said = cli("check", "data", path, "--subset", "pet")
    assert said.status == 2
    assert "no subset 'pet'" in said.err
    assert "pets" in said.err
    said = cli("check", "data", path, "--limit", "0")
    assert said.status == 2
    assert "--limit must be at least 1" in said.err
    # the counts of the card are those of complete files
    report = json.loads(
        cli("check", "data", "scenes", "--subset", "swap-relation", "--limit", "2", "--json",
            "--no-images").out
    )  # fmt: skip
    assert report["notes"] == []


def test_every_kind_of_problem_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"not an image")
    path = own(
        tmp_path,
        GOOD,
        GOOD,
        '{"id": "2", "images": ["gone.png"], "texts": ["x", "y"], "right": 0}',
        '{"id": "3", "images": ["a.png"], "texts": ["x"',
        '{"id": "4", "images": ["a.png"], "texts": ["x", "y"], "right": 7}',
        '{"id": "5", "images": ["../a.png"], "texts": ["x", "y"], "right": 0}',
    )
    said = cli("check", "data", path)
    assert said.status == 1
    assert "Traceback" not in said.out + said.err
    report = json.loads(cli("check", "data", path, "--json").out)
    assert report["ok"] is False
    found = {(problem["kind"], problem["line"]) for problem in report["problems"]}
    assert {("malformed record", line) for line in (4, 5, 6)} <= found
    kinds = {kind for kind, _ in found}
    assert {"duplicate id", "missing image", "unreadable image"} <= kinds
    without = json.loads(cli("check", "data", path, "--json", "--no-images").out)
    assert not {p["kind"] for p in without["problems"]} & {"missing image", "unreadable image"}


def test_truncated_file_is_a_problem_with_its_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "swap_obj.json").write_text('{\n"0": {"filename": "a.jpg", "caption": "x"')
    said = cli("check", "data", "sugarcrepe", "--root", tmp_path)
    assert said.status == 1
    assert "swap_obj.json, line 2" in said.out


def test_missing_root_says_what_to_get(cli: Cli, tmp_path: Path) -> None:
    message = cli("check", "data", "winoground").refused()
    assert "--root" in message
    assert "facebook/winoground" in message
    assert "non-commercial" in message
    said = cli("check", "data", "winoground", "--root", tmp_path)
    assert said.status == 1


@pytest.mark.parametrize(
    ("name", "folder", "examples"),
    [
        ("valse", "valse", 7702),
        ("vl-checklist", "vl_checklist", 14126),
        ("negrefcocog", "negrefcocog", 440),
        ("countbench", "countbench", 540),
    ],
)
def test_real_annotations(cli: Cli, shared: Path, name: str, folder: str, examples: int) -> None:
    said = cli("check", "data", name, "--root", shared / folder, "--no-images", "--json")
    assert said.status == 0
    assert sum(json.loads(said.out)["examples"].values()) == examples


def test_list(cli: Cli) -> None:
    said = cli("list", "benchmarks")
    assert said.status == 0
    for name in benchmark_names():
        assert name in said.out
        card = cli("list", "benchmarks", name)
        assert "paper" in card.out
        assert "licence" in card.out
    cards = json.loads(cli("list", "benchmarks", "--json").out)
    assert cards["sugarcrepe"]["counts"]["swap_obj"] == 245
    assert "did you mean eqben" in cli("list", "benchmarks", "eqbn").refused()


def test_list_fits_the_terminal(cli: Cli) -> None:
    """Columns that do not fit are left out and named; piped output has all of them."""
    piped = cli("list", "benchmarks").out.splitlines()
    assert piped[0].split()[:4] == ["benchmark", "shape", "n", "chance"]
    assert {"licence", "size", "files", "!"} <= set(piped[0].split())
    row = next(line for line in piped if line.startswith("vsr "))
    assert row.split()[:4] == ["vsr", "1", "×", "1"]
    assert "Apache-2.0" in row
    assert "!" in row
    table, *_ = benchmarks_table([load_benchmark(name) for name in benchmark_names()])
    assert isinstance(table, Table)
    narrow, *sentences = fit_table(table, 80)
    assert isinstance(narrow, Table)
    assert table_width(narrow) <= 80
    assert {"<shape", "n", "chance %", "<files"} <= set(narrow.header)
    assert any("licence" in str(sentence) for sentence in sentences)


def test_listed_facts_in_json(cli: Cli) -> None:
    cards = json.loads(cli("list", "benchmarks", "--json").out)
    assert cards["vsr"]["examples"] == 2024
    assert cards["vsr"]["files"] in ("fetchable", "manual")
    assert cards["scenes"]["files"] == "generated"
    assert {"license", "download", "download_size", "errata", "chance", "shape"} <= set(
        cards["vsr"]
    )
    assert "errata" in cli("list", "benchmarks", "vsr").out
    assert "1,560 images" in benchmark_row(load_benchmark("sugarcrepe")).download
    assert benchmark_row(load_benchmark("scenes")).download == "0"
    assert "errata" in cli("list", "benchmarks", "whatsup").out
