"""`contrapose tune`: from pairs to a tuned model and its bill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contrapose.models import load_model
from tests.conftest import Cli
from tests.report.html.checks import explorer_data
from tests.tune.small import class_folders, small_rows, small_student, write_pairs


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model, pictures and pairs."""
    root = tmp_path_factory.mktemp("tune")
    (root / "model").mkdir()
    small_student().save(root / "model", {})
    rows = small_rows(10)
    lines = []
    for i, image in enumerate(rows.images.open(range(10))):
        image.save(root / f"{i}.png")
        first = rows.image_captions[i][0]
        changes = {
            "negatives": [text for text, _ in first.negatives],
            "positives": [text for text, _ in first.positives],
        }
        lines.append({"image": f"{i}.png", "caption": first.caption, **changes})
    (root / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def command(root: Path, out: Path, *more: object) -> tuple[object, ...]:
    return (
        "tune", root / "model", "--data", root / "pairs.jsonl", "--out", out, "--steps", 2,
        "--batch-size", 4, "--held-out", 0.4, "--device", "cpu", *more,
    )  # fmt: skip


def test_a_bill_is_printed(cli: Cli, root: Path, tmp_path: Path) -> None:
    said = cli(*command(root, tmp_path / "out"))
    assert said.status == 0, said.err
    assert "The bill" in said.out
    for word in ("brittleness ↓", "image_to_text_r1", "verdict"):
        assert word in said.out
    assert "step 2 of 2: contrast" in said.err
    assert "hn" in said.err
    load_model(str(tmp_path / "out"))
    data = explorer_data((tmp_path / "out/training/report.html").read_text(encoding="utf-8"))
    before, after = data["runs"]
    assert (before["score"], after["score"]) == ("itc", "itc")
    assert after["model"] == str(tmp_path / "out")
    assert data["start"]["b"] == 1
    rows = [row for row in data["rows"] if "scores" in row["runs"][0]]
    assert rows
    assert all(row["captions"] and row["images"] for row in rows)
    assert all("scores" in row["runs"][1] for row in rows)


def test_json(cli: Cli, root: Path, tmp_path: Path) -> None:
    said = cli(*command(root, tmp_path / "out", "--json", "--quiet", "--with", "eqsim+hn"))
    assert said.err == ""
    found: dict[str, Any] = json.loads(said.out)
    assert found["objective"] == "eqsim+hn"
    assert {item["verdict"] for item in found["items"]} <= {"better", "worse", "no evidence"}


def test_the_word_model_may_be_said(cli: Cli, root: Path, tmp_path: Path) -> None:
    first, *rest = command(root, tmp_path / "out", "--quiet", "--with", "plain")
    assert cli(first, "model", *rest).status == 0
    assert "heads" in cli("tune", "--help").out


def test_kinds_and_a_form_of_hard_positives(cli: Cli, root: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path, 10)
    said = cli(
        "tune", root / "model", "--data", tmp_path / "pairs.jsonl", "--out", tmp_path / "out",
        "--steps", 2, "--batch-size", 4, "--held-out", 0.4, "--device", "cpu", "--quiet",
        "--with", "hp-even+hn", "--kinds", "replace, synonym",
    )  # fmt: skip
    assert said.status == 0, said.err
    asked = json.loads((tmp_path / "out/training/request.json").read_text())
    assert asked["kinds"] == ["replace", "synonym"]
    assert asked["objective"]["settings"]["hp"]["form"] == "even"


def test_scenes_of_the_balanced_world(cli: Cli, root: Path, tmp_path: Path) -> None:
    said = cli(
        "tune", root / "model", "--data", "scenes", "--out", tmp_path / "out", "--scenes", 8,
        "--steps", 1, "--batch-size", 4, "--limit", 2, "--device", "cpu", "--quiet",
        "--world", "balanced", "--with", "plain",
    )  # fmt: skip
    assert said.status == 0, said.err
    asked = json.loads((tmp_path / "out/training/request.json").read_text())
    assert asked["world"] == "balanced"


def test_heads(cli: Cli, root: Path, tmp_path: Path) -> None:
    out, folder = tmp_path / "out", class_folders(tmp_path / "classes", classes=3, each=2)
    said = cli(*command(root, out, "--with", "heads", "--tau", 0.05, "--zero-shot", folder))
    assert said.status == 0, said.err
    assert "with heads" in said.out
    assert "zero-shot/top1" in said.out
    assert "was not measured" not in said.out
    assert "images to vectors: 6 of 6" in said.err
    assert "step 2 of 2: contrast" in said.err
    asked = json.loads((out / "training/request.json").read_text())["heads"]
    assert (asked["tau"], asked["steps"], asked["batch_size"]) == (0.05, 2, 4)
    data = explorer_data((out / "training/report.html").read_text(encoding="utf-8"))
    assert [run["label"] for run in data["runs"]][1] == f"{out} · itc"
    assert data["rows"]
    again = cli(*command(root, out, "--with", "heads", "--resume"))
    assert again.status == 0, again.err
    assert "to vectors" not in again.err
    assert "--zero-shot" in " ".join(again.out.split())
    seen = cli(
        "eval", out, "--on", "class-folders", "--root", folder, "--cache", tmp_path / "cache",
        "--device", "cpu", "--json",
    )  # fmt: skip
    assert seen.status == 0, seen.err


def test_heads_by_default(cli: Cli, root: Path, tmp_path: Path) -> None:
    """Those of the paper, but for the width, which is the model's."""
    words = ("tune", root / "model", "--data", root / "pairs.jsonl", "--with", "heads")
    said = cli(*words, "--out", tmp_path / "out", "--held-out", 0.4, "--quiet")
    assert said.status == 0, said.err
    asked = json.loads((tmp_path / "out/training/request.json").read_text())["heads"]
    assert (asked["tau"], asked["epochs"], asked["batch_size"]) == (0.1, 30, 4096)
    assert asked["kind"] == "linear"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--with", "nonsense"), "there is no loss 'nonsense'"),
        (("--guard", "swaps"), "METRIC=DROP"),
        (("--batch-size", 100), "pass --batch-size 6 or less"),
        (("--resume",), "no run to resume"),
        (("--teacher", "tiny"), "go together"),
        (("--data", "gone.jsonl"), "is not there"),
        (("--best", "nonsense"), "no metric 'nonsense'"),
        (("--lr", 0), "learning rate"),
        (("--kinds", "swop"), "no caption has a change of kind 'swop'"),
        (("--with", "heads+hn"), "stands alone"),
        (("--with", "heads", "--lora", 4), "--lora cannot go with --with heads"),
        (("--with", "heads", "--epochs", 2), "pass one of them"),
        (("--with", "heads", "--tau", 0), "temperature must be above zero"),
        (("--tau", 0.1), "are for --with heads"),
        (("--zero-shot", "gone"), "gone"),
    ],
)
def test_bad_input_is_one_sentence(
    cli: Cli, root: Path, tmp_path: Path, more: tuple[object, ...], said: str
) -> None:
    assert said in cli(*command(root, tmp_path / "out", "--quiet", *more)).refused()
    assert not (tmp_path / "out").exists()


def test_a_model_that_cannot_hide_words(
    cli: Cli, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contrapose.tune.students import TinyStudent

    asked = command(root, tmp_path / "out", "--quiet", "--with", "dividend+hn")
    monkeypatch.setattr(TinyStudent, "hides", False)
    assert "cannot hide words" in cli(*asked).refused()
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    said = cli(*asked)
    assert said.status == 0, said.err
    assert "dividend:" in said.out


def test_a_caption_without_an_image(cli: Cli, root: Path, tmp_path: Path) -> None:
    file = root / "lost.jsonl"
    file.write_text('{"image": "0.png", "caption": "a"}\n{"caption": "b"}\n')
    said = cli(*command(root, tmp_path / "out", "--quiet", "--data", file)).refused()
    assert "line 2" in said
    assert "has no image" in said
