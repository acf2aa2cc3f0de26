"""FiftyOne datasets: samples with captions, preferred captions, and images that are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

import contrapose as cp
from contrapose.errors import InputError
from tests.fakes import Fake, Tower


@pytest.fixture
def run(tmp_path: Path) -> cp.Runs:
    for name in ("a", "b"):
        Image.new("RGB", (8, 8), "red" if name == "a" else "blue").save(tmp_path / f"{name}.png")
    lines = [
        {"id": name, "images": [f"{name}.png"], "texts": [f"a {name}", f"not {name}"],
         "match": [[1, 0]]}
        for name in ("a", "b")
    ]  # fmt: skip
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return cp.Runs(cp.evaluate([Fake(), Tower()], on=str(file), score="itc", resamples=100))


def test_samples(run: cp.Runs, tmp_path: Path) -> None:
    files = cp.export(run, out=tmp_path / "out", format="fiftyone")
    assert {file.name for file in files} == {"export.json", "metadata.json", "samples.json"}
    samples = json.loads((tmp_path / "out" / "samples.json").read_text())["samples"]
    assert [sample["example"] for sample in samples] == ["a", "b"]
    first = samples[0]
    assert first["filepath"] == str((tmp_path / "a.png").resolve())
    assert first["ground_truth"] == {"_cls": "Classification", "label": "a a"}
    for name in ("fake_itc", "tower_itc"):
        scores = first[f"{name}_scores"]
        best = first["captions"][scores.index(max(scores))]
        assert first[f"{name}_prediction"]["label"] == best
        assert first[f"{name}_margin"] == scores[0] - scores[1]
        assert first[f"{name}_correct"] is (scores[0] > scores[1])
    metadata = json.loads((tmp_path / "out" / "metadata.json").read_text())
    assert "version" not in metadata  # FiftyOne would take it for one of its own databases
    assert metadata["info"]["runs"] == {"fake_itc": "fake itc", "tower_itc": "tower itc"}


def test_a_saved_run_and_generated_images(tmp_path: Path) -> None:
    run = cp.evaluate(Fake(), on="scenes/replace-color", limit=2, score="itc", resamples=100)
    run.save(tmp_path / "run")
    cp.export(tmp_path / "run", out=tmp_path / "out", format="fiftyone")
    samples = json.loads((tmp_path / "out" / "samples.json").read_text())["samples"]
    assert len(samples) == 2
    for sample in samples:
        with Image.open(tmp_path / "out" / sample["filepath"]) as image:
            assert image.size[0] > 8
    gallery = cp.evaluate(Fake(), on="scenes/gallery", limit=3, score="itc", resamples=100)
    with pytest.raises(InputError, match="scores"):
        cp.export(gallery, out=tmp_path / "none", format="fiftyone")
    assert not (tmp_path / "none").exists()


def test_captions_that_tie_are_no_choice(run: cp.Runs, tmp_path: Path) -> None:
    file = next(tmp_path.glob("*.jsonl"))
    same = cp.evaluate(lambda image, text: float("b" in text), on=str(file), resamples=100)
    cp.export(same, out=tmp_path / "out", format="fiftyone")
    samples = json.loads((tmp_path / "out" / "samples.json").read_text())["samples"]
    for sample in samples:
        values = {key.rpartition("_")[2]: value for key, value in sample.items()}
        assert values["prediction"] is None
        assert values["margin"] == 0
        assert values["correct"] is False
