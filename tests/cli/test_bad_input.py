"""Every way a file can be wrong: one sentence with the place, status 2, nothing written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import Cli

ROWS = [
    {"label": f"{example}_c{caption}_i{image}", "score": 0.5 + 0.01 * caption - 0.02 * image}
    for example in range(400)
    for caption in range(2)
    for image in range(2)
]


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def refuse(cli: Cli, tmp_path: Path, benchmark: str, scores: Path, *more: object) -> str:
    """The refusal; the run folder must not be there afterwards, nor anything else new."""
    before = sorted(tmp_path.rglob("*"))
    said = cli("metrics", benchmark, "--scores", scores, "--out", tmp_path / "run", *more)
    assert sorted(tmp_path.rglob("*")) == before
    return said.refused()


def test_good_rows_are_taken(cli: Cli, tmp_path: Path) -> None:
    said = cli("metrics", "winoground", "--scores", write(tmp_path / "s.jsonl", ROWS), "--json")
    assert said.status == 0
    assert json.loads(said.out)["examples"] == 400


def test_truncated_line(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", ROWS)
    path.write_text(path.read_text()[:-9])
    message = refuse(cli, tmp_path, "winoground", path)
    assert f"{path}, line 1600" in message
    assert "cut off" in message


def test_unknown_example(cli: Cli, tmp_path: Path) -> None:
    rows = [*ROWS, {"label": "400_c0_i0", "score": 0.1}]
    message = refuse(cli, tmp_path, "winoground", write(tmp_path / "s.jsonl", rows))
    assert "line 1601" in message
    assert "'400'" in message


def test_missing_pair(cli: Cli, tmp_path: Path) -> None:
    rows = [row for row in ROWS if row["label"] != "17_c1_i0"]
    message = refuse(cli, tmp_path, "winoground", write(tmp_path / "s.jsonl", rows))
    assert "example 17" in message
    assert "image 0 with caption 1 is missing" in message


def test_missing_examples_need_partial(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", ROWS[:40])
    message = refuse(cli, tmp_path, "winoground", path)
    assert "390 of 400 examples" in message
    assert "--partial" in message
    said = cli("metrics", "winoground", "--scores", path, "--partial", "--json")
    assert json.loads(said.out)["examples"] == 10


def test_pair_twice(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [*ROWS, ROWS[0]])
    message = refuse(cli, tmp_path, "winoground", path)
    assert "line 1601" in message
    assert "twice" in message


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), None, "high", True])
def test_score_is_no_number(cli: Cli, tmp_path: Path, bad: object) -> None:
    rows = [dict(row) for row in ROWS]
    rows[5]["score"] = bad
    message = refuse(cli, tmp_path, "winoground", write(tmp_path / "s.jsonl", rows))
    assert "line 6" in message
    assert "finite number" in message


def test_scores_of_another_benchmark(cli: Cli, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"label": "0_c", "score": 0.5}, {"label": "0_f", "score": 0.1}]
    message = refuse(cli, tmp_path, "winoground", write(tmp_path / "s.jsonl", rows))
    assert "VALSE score rows" in message
    assert "not scores for winoground" in message
    message = refuse(cli, tmp_path, "valse", write(tmp_path / "w.jsonl", ROWS))
    assert "Winoground score rows" in message


def test_not_scores_at_all(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [{"name": "a", "value": 1}])
    assert "is not a score file" in refuse(cli, tmp_path, "winoground", path)


def test_label_of_another_form_further_down(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [*ROWS[:3], {"label": "seven", "score": 1.0}])
    message = refuse(cli, tmp_path, "winoground", path)
    assert "line 4" in message
    assert "'seven'" in message


@pytest.mark.parametrize("name", ["s.jsonl", "s.csv", "s.json", "s.npy"])
def test_empty_file(cli: Cli, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    message = refuse(cli, tmp_path, "winoground", path)
    assert str(path) in message


def test_missing_file_and_unknown_kind(cli: Cli, tmp_path: Path) -> None:
    assert "does not exist" in refuse(cli, tmp_path, "winoground", tmp_path / "none.jsonl")
    other = tmp_path / "s.docx"
    other.write_bytes(b"PK")
    assert "must end in" in refuse(cli, tmp_path, "winoground", other)


def test_workbook_that_is_no_workbook(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "s.xlsx"
    other.write_bytes(b"PK")
    message = refuse(cli, tmp_path, "winoground", other)
    assert str(other) in message
    assert "Traceback" not in message


@pytest.mark.parametrize(
    "array",
    [np.zeros((2000, 2)), np.zeros((2000, 2, 3)), np.zeros((3, 2000, 2, 2)), np.zeros(())],
)
def test_array_of_wrong_shape(cli: Cli, tmp_path: Path, array: np.ndarray) -> None:
    path = tmp_path / "kubric_location.npy"
    np.save(path, array)
    message = refuse(cli, tmp_path, "eqben", path, "--partial")
    assert "expected (n, 2, 2)" in message


def test_array_with_nan(cli: Cli, tmp_path: Path) -> None:
    array = np.zeros((2000, 2, 2))
    array[3, 1, 0] = np.nan
    np.save(tmp_path / "kubric_location.npy", array)
    message = refuse(cli, tmp_path, "eqben", tmp_path / "kubric_location.npy", "--partial")
    assert "[3, 1, 0]" in message


def test_arrays_are_never_unpickled(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "sd.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "not a readable .npy array" in refuse(cli, tmp_path, "eqben", path, "--partial")


def test_array_of_unknown_subset(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "coco.npy", np.zeros((3, 2, 2)))
    assert "'coco' is not a subset of eqben" in refuse(cli, tmp_path, "eqben", tmp_path)


def test_array_of_wrong_length_and_missing_subset(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "scores"
    folder.mkdir()
    np.save(folder / "sd.npy", np.random.default_rng(0).random((7, 2, 2)))
    message = refuse(cli, tmp_path, "eqben", folder)
    assert "has scores for 0 examples" in message
    assert "--partial" in message


def test_path_out_of_the_root(cli: Cli, tmp_path: Path) -> None:
    own = tmp_path / "mine.jsonl"
    own.write_text('{"id": "1", "images": ["../../etc/passwd"], "texts": ["a", "b"], "right": 0}\n')
    scores = tmp_path / "s.csv"
    scores.write_text("example,image,text,score\n1,0,0,0.5\n1,0,1,0.4\n")
    message = refuse(cli, tmp_path, str(own), scores)
    assert f"{own}, line 1" in message
    assert "climbs out of the root" in message


def test_general_table(cli: Cli, tmp_path: Path) -> None:
    own = tmp_path / "mine.jsonl"
    own.write_text('{"id": "1", "images": ["a.png"], "texts": ["a dog", "a cat"], "right": 0}\n')
    scores = tmp_path / "s.csv"
    scores.write_text("example,image,text,score\n1,0,0,0.5\n1,0,2,0.4\n")
    message = refuse(cli, tmp_path, str(own), scores)
    assert "line 3" in message
    assert "has 2 captions, and 2 is not one of them" in message
    scores.write_text("example,image,text,score\n1,0,0,0.5\n1,0\n")
    assert "line 3" in refuse(cli, tmp_path, str(own), scores)
    scores.write_text("example,image,text,score\n1,0,0,0.5\n2,0,0,0.5\n")
    assert "'2' is not in the benchmark" in refuse(cli, tmp_path, str(own), scores)
    scores.write_text("example,text,score\n1,a dog,0.5\n1,a cat,0.4\n")
    assert cli("metrics", own, "--scores", scores, "--json").status == 0


def test_options(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", ROWS)
    assert "no benchmark 'winogrund': did you mean winoground" in refuse(
        cli, tmp_path, "winogrund", path
    )
    assert "no example has the tag 'colour'" in refuse(
        cli, tmp_path, "winoground", path, "--by", "colour"
    )
    assert "pass --prior too" in refuse(cli, tmp_path, "winoground", path, "--alpha", "1")
    assert "--alpha must be" in refuse(
        cli, tmp_path, "winoground", path, "--prior", path, "--alpha", "2"
    )


def test_out_is_not_overwritten(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", ROWS)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").write_text("years of work")
    for more in ((), ("--overwrite",)):
        said = cli("metrics", "winoground", "--scores", path, "--out", taken, *more)
        said.refused()
        assert (taken / "thesis.txt").read_text() == "years of work"


def test_out_that_cannot_be_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "s.jsonl", ROWS)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("contrapose.files.atomic._temporary_path", full)
    message = refuse(cli, tmp_path, "winoground", path)
    assert f"{tmp_path / 'run'}: cannot be written (No space left on device)" in message


def test_escape_codes_of_files_do_not_reach_the_terminal(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [{**ROWS[0], "label": "x\x1b[2J"}])
    said = cli("metrics", "winoground", "--scores", path)
    assert said.status == 2
    assert "\x1b" not in said.out + said.err
    said = cli("metrics", "wino\x1b[2J\x9bground", "--scores", path)
    assert r"\x1b[2J\x9b" in said.refused()
    assert "\x1b" not in said.err


@pytest.mark.parametrize("option", ["--text", "--against"])
def test_arguments_that_are_no_text(cli: Cli, tmp_path: Path, option: str) -> None:
    """Bytes that are not UTF-8, and UTF-8 that a locale makes Python take for ASCII."""
    words = {"--text": "a cat", "--against": "a dog"} | {option: "\udce2\udc80\udc9c\udcc3\udca9"}
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    said = cli(
        *("explain", "tiny-clip", "--image", tmp_path / "a.png"),
        *(word for pair in words.items() for word in pair),
    )
    assert "UTF-8 text" in said.refused()
    assert "UTF-8" in cli("search", tmp_path, "--text", "\udcff").refused()


def test_names_of_files_say_themselves_that_they_are_not_utf8(cli: Cli, tmp_path: Path) -> None:
    bad = tmp_path / "caf\udce9.jsonl"
    bad.write_text("{}")
    assert "rename it" in cli("check", "data", bad).refused()


def test_negatives_that_are_no_list(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "neg.csv"
    path.write_text("image,caption,negatives\na.png,a,[1\na.png,a,[\n")
    scores = write(tmp_path / "s.jsonl", [{"label": "0_c0_i0", "score": 1.0}])
    assert "neg.csv, line 2: record 0: 'negatives'" in refuse(cli, tmp_path, str(path), scores)
    said = cli("check", "data", path)
    assert said.status == 1
    assert said.out.count("malformed record") == 2


def test_an_id_of_thousands_of_characters_is_cut(cli: Cli, tmp_path: Path) -> None:
    rows = [*ROWS, {"label": f"{'9' * 3000}_c0_i0", "score": 0.1}]
    message = refuse(cli, tmp_path, "winoground", write(tmp_path / "s.jsonl", rows))
    assert "line 1601" in message
    assert "9…" in message
    assert len(message) < 700


@pytest.mark.parametrize("out", ["s3://bucket/run", "x" * 300, "caf\udce9"])
def test_an_output_that_is_no_path(cli: Cli, tmp_path: Path, out: str) -> None:
    path = write(tmp_path / "s.jsonl", ROWS)
    said = cli("metrics", "winoground", "--scores", path, "--out", out)
    assert ascii(out)[1:9].replace("//", "/") in said.refused()
