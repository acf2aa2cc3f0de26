"""`contrapose tune`: from pairs to a tuned model and its bill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contrapose.models import load_model
from tests.conftest import Cli
from tests.tune.small import small_rows, small_student


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
        first = rows.sayings[i][0]
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


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--with", "nonsense"), "there is no loss 'nonsense'"),
        (("--guard", "swaps"), "METRIC=DROP"),
        (("--batch-size", 100), "pass --batch-size 6 or less"),
        (("--resume",), "no run to resume"),
        (("--teacher", "tiny"), "go together"),
        (("--data", "gone.jsonl"), "is not there"),
        (("--best", "nonsense"), "there is no measure 'nonsense'"),
        (("--lr", 0), "learning rate"),
    ],
)
def test_bad_input_is_one_sentence(
    cli: Cli, root: Path, tmp_path: Path, more: tuple[object, ...], said: str
) -> None:
    assert said in cli(*command(root, tmp_path / "out", "--quiet", *more)).refused()
    assert not (tmp_path / "out").exists()


def test_a_caption_without_an_image(cli: Cli, root: Path, tmp_path: Path) -> None:
    file = root / "lost.jsonl"
    file.write_text('{"image": "0.png", "caption": "a"}\n{"caption": "b"}\n')
    said = cli(*command(root, tmp_path / "out", "--quiet", "--data", file)).refused()
    assert "line 2" in said
    assert "has no image" in said
