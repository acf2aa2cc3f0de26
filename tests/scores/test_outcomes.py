"""Outcome tables of BiVLC: figures of the released file, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import contrapose as cp
from contrapose.errors import InputError
from contrapose.scores import detect_benchmark

ROW = {
    "caption": "a",
    "type": "swap",
    "subtype": "att",
    "text_score_i0": True,
    "text_score_i1": True,
    "image_score_c0": True,
    "image_score_c1": False,
    "text_score": True,
    "image_score": False,
    "group_score": False,
}


def test_the_released_outcomes(shared: Path) -> None:
    file = shared / "bivlc" / "results" / "BiVLC_ViT-B-32.csv"
    run = cp.measure(file, "bivlc", resamples=100)
    names = ("text", "image", "group", "text_image_0", "text_image_1", "image_caption_1")
    values = [round(100 * run.metrics[name].value, 2) for name in names]
    assert values == [75.83, 52.40, 49.06, 84.32, 89.50, 82.82]
    assert run.metrics["group"].chance == pytest.approx(1 / 6)
    assert run.results.subsets["swap"]["group"].n == 359
    assert detect_benchmark(file) == "bivlc"
    official = cp.measure(file, "bivlc", protocol="official", resamples=100)
    assert official.metrics["group"].value == run.metrics["group"].value


def write(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_parts_of_the_set(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", ROW, ROW)
    with pytest.raises(InputError, match="2 examples"):
        cp.measure(file, "bivlc")
    run = cp.measure(file, "bivlc", partial=True, resamples=100)
    assert run.metrics["text"].value == 1
    assert run.metrics["image_single"].value == 1 / 2
    with pytest.raises(InputError, match="prior"):
        cp.measure(file, "bivlc", partial=True, prior=file)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text_score_i1": "maybe"}, "True or False"),
        ({"group_score": True}, "disagrees"),
        ({"subtype": 4}, "subtype"),
    ],
)
def test_malformed_rows(change: dict[str, object], words: str, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", {**ROW, **change})
    with pytest.raises(InputError, match=words):
        cp.measure(file, "bivlc", partial=True)


def test_outcomes_are_no_scores_of_other_benchmarks(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", ROW)
    with pytest.raises(InputError, match="outcomes"):
        cp.measure(file, "winoground")
