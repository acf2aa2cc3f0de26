"""From encoders to features to heads to a model by name, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from contrapose.cli.app import app
from contrapose.errors import InputError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.models import Encoder, load_model
from contrapose.models.joined import JoinedSpec, Side, read_joined, save_joined
from contrapose.tune.heads import CaptionedImages, read_features, write_features
from contrapose.tune.heads.sweep import SweepRequest, sweep_folder
from contrapose.tune.settings import HeadKind, HeadSettings
from contrapose.world.benchmark import simat_scenes
from tests.models.hf.small import CAPTIONS, pictures
from tests.models.test_joined import encoders  # noqa: F401 - a fixture
from tests.tune.heads.made import made
from tests.tune.heads.test_features import write

SMALL = HeadSettings(width=8, hidden=6, epochs=2, batch_size=8)


def cached(folder: Path, of: Path) -> JoinedSpec:
    """Features of real encoders: four images, a caption or two each."""
    images = [*pictures(), *(image.rotate(90) for image in pictures())][:4]
    captions = [[CAPTIONS[0], CAPTIONS[1]], [CAPTIONS[1]], [CAPTIONS[0]], [CAPTIONS[2]]]
    joining = JoinedSpec(Side(str(of / "vit")), Side(str(of / "bert"), normalise=False))
    write_features(folder, joining, {"train": CaptionedImages(iter(images), captions)})
    return joining


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_saved_heads_are_a_model(
    encoders: Path,  # noqa: F811
    tmp_path: Path,
    kind: HeadKind,
) -> None:
    cached(tmp_path / "features", encoders)
    settings = HeadSettings(kind=kind, width=8, hidden=6, epochs=2, batch_size=4)
    request = SweepRequest(
        tmp_path / "features", tmp_path / "out", taus=(0.1, 0.05), settings=settings
    )
    found = sweep_folder(request)
    features = read_features(tmp_path / "features", "train")
    assert features.image_of_text.tolist() == [0, 0, 1, 2, 3]
    for run in found.runs:
        model: Any = load_model(f"joined:{tmp_path / 'out' / run.folder}")
        ours = run.trained.embed_images(torch.from_numpy(np.array(features.images)))
        images = [*pictures(), *(image.rotate(90) for image in pictures())][:4]
        torch.testing.assert_close(model.embed_images(images), ours, rtol=1e-4, atol=1e-5)
        ours = run.trained.embed_texts(torch.from_numpy(np.array(features.texts)))
        wanted = [CAPTIONS[i] for i in (0, 1, 1, 0, 2)]
        torch.testing.assert_close(model.embed_texts(wanted), ours, rtol=1e-4, atol=1e-5)
        assert run.trained.settings.unit == (True, False)
        _, heads = read_joined(tmp_path / "out" / run.folder)
        assert ("image.hidden.weight" in heads) == (kind == "mlp")


def test_heads_that_no_model_can_have(tmp_path: Path) -> None:
    heads = {"image.weight": torch.ones(4, 3), "text.weight": torch.ones(4, 5)}
    sides = JoinedSpec(Side("a"), Side("b"))
    hidden = {"image.hidden.weight": torch.ones(6, 3), "image.hidden.bias": torch.ones(6)}
    with pytest.raises(InputError, match="of a hidden layer all of"):
        save_joined(tmp_path / "one", sides, heads | hidden)
    with pytest.raises(InputError, match="do not fit together"):
        save_joined(
            tmp_path / "one", sides, heads | hidden | {"image.out.weight": torch.ones(5, 6)}
        )
    assert not (tmp_path / "one").exists()
    save_joined(tmp_path / "one", sides, heads | hidden | {"image.out.weight": torch.ones(4, 6)})


def test_captions_without_an_image(encoders: Path, tmp_path: Path) -> None:  # noqa: F811
    joining = JoinedSpec(Side(str(encoders / "vit")), Side(str(encoders / "bert")))
    pairs = CaptionedImages(pictures()[:1], [[CAPTIONS[0]], [CAPTIONS[1]]])
    with pytest.raises(InputError, match="1 images and captions of 2"):
        write_features(tmp_path / "features", joining, {"train": pairs})
    assert not (tmp_path / "features").exists()


def test_the_command(tmp_path: Path) -> None:
    write(tmp_path, "train", made(40, 2))
    write(tmp_path, "test", made(20, 2, seed=1))
    words = [
        "tune", "heads", "--features", str(tmp_path), "--out", str(tmp_path / "out"), "--tau",
        "0.1,0.01", "--lambda", "1", "--epochs", "3", "--batch-size", "16", "--width", "8",
        "--device", "cpu", "-q",
    ]  # fmt: skip
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "text → image" in shown.output
    assert "Deltas" in shown.output
    again = CliRunner().invoke(app, [*words, "--overwrite", "--json"])
    said = json.loads(again.output)
    assert said == json.loads((tmp_path / "out" / "results.json").read_text())
    assert [run["settings"]["tau"] for run in said["runs"]] == [0.1, 0.01]
    recall = said["runs"][0]["retrieval"]["text_to_image_r1"]
    assert recall["low"] <= recall["value"] <= recall["high"]
    assert recall["count"] == 40
    assert recall["chance"] == pytest.approx(1 / 20)
    assert said["runs"][0]["deltas"][0]["scale"] == 1
    assert (tmp_path / "out" / "tau-0.01" / "heads.safetensors").is_file()
    plot = tmp_path / "plot.svg"
    few = words[: words.index("--out")] + words[words.index("--tau") :]
    one = CliRunner().invoke(app, [*few, "--plot", str(plot)])
    assert "two values" in str(one.exception)
    assert not plot.exists()
    few[few.index("--lambda") + 1] = "0.5,1,2"
    shown = CliRunner().invoke(app, [*few, "--plot", str(plot)])
    assert shown.exit_code == 0, shown.output
    assert "τ = 0.01" in plot.read_text()
    taken = CliRunner().invoke(app, [*few, "--plot", str(plot)])
    assert "there already" in str(taken.exception)


def test_heads_are_measured_on_edit_queries(tmp_path: Path) -> None:
    """Heads that change nothing give the model's own scores; other heads give others."""
    base = load_model("tiny-clip")
    assert isinstance(base, Encoder)
    width = base.embed_texts(["a red cube"]).shape[1]
    side = Side("tiny-clip", kind="model")
    flipped = torch.diag(torch.tensor([1.0, -1.0]).repeat(width)[:width])
    for name, text in (("same", torch.eye(width)), ("other", flipped)):
        heads = {"image.weight": torch.eye(width), "text.weight": text}
        save_joined(tmp_path / name, JoinedSpec(side, side), heads)
    data = simat_scenes(examples=12, size=32)
    runs = evaluate_models(
        ["tiny-clip", f"joined:{tmp_path / 'same'}", f"joined:{tmp_path / 'other'}"],
        EvalRequest((data,), ("itc:delta", "itc:delta:scale=dev"), resamples=100),
    )
    values = [run.results.metrics["simat_n5"].value for run in runs]
    assert values[:2] == pytest.approx(values[2:4])
    curves = [run.spec["edits"]["all"]["dev_scores"] for run in runs[1::2]]
    assert curves[0] == curves[1] != curves[2]


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    features, out = tmp_path / "features", tmp_path / "out"
    features.mkdir()
    write(features, "train", made(20, 2))
    other = made(20, 2)
    np.save(features / "test_images.npy", other.images[:, :5])
    np.save(features / "test_texts.npy", other.texts)
    with pytest.raises(InputError, match="of different encoders"):
        sweep_folder(SweepRequest(features, out, settings=SMALL))
    (features / "test_images.npy").unlink()
    out.mkdir()
    (out / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        sweep_folder(SweepRequest(features, out, settings=SMALL))
    with pytest.raises(InputError, match="holds no heads"):
        sweep_folder(SweepRequest(features, out, settings=SMALL, overwrite=True))
    assert (out / "letter.txt").read_text() == "mine"
    with pytest.raises(InputError, match="both encoders"):
        sweep_folder(SweepRequest(features, settings=SMALL, image="a"))
    with pytest.raises(InputError, match="must not be negative"):
        sweep_folder(SweepRequest(features, settings=SMALL, scales=(-1.0,)))
    unmeasured = sweep_folder(SweepRequest(features, settings=SMALL, taus=(0.1,)))
    assert unmeasured.runs[0].measured is None
