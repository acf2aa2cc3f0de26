"""Features on disk: names, owners, splits, one side alone, what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import contrapose as cp
from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.joined import JoinedSpec, Side, read_joined_spec, save_joined
from contrapose.tune.heads import read_features
from tests.conftest import Cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images, one of them broken, and captions of some."""
    root = tmp_path_factory.mktemp("photos")
    (root / "more").mkdir()
    for name, color in (("b.png", "red"), ("a.png", "blue"), ("more/c.png", "green")):
        Image.new("RGB", (20, 20), color).save(root / name)
    (root / "broken.png").write_bytes(b"no image")
    (root / "captions.csv").write_text(
        "image,caption\nmore/c.png,a green wall\nb.png,a red wall\nbroken.png,a fault\n"
        "more/c.png,a red wall\n"
    )
    (root / "lines.txt").write_text("a green wall\na red wall\n")
    return root


def build(images: Path | None, out: Path, **changes: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"model": "tiny-clip", "device": "cpu", "cache": False}
    return cp.build_features(images, out=out, **options | changes)


def test_captioned_images_are_what_heads_read(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "features"
    manifest = build(folder, out, captions=folder / "captions.csv")
    assert list(manifest["skipped_images"]) == ["broken.png"]
    assert manifest["skipped_captions"] == 1
    features = read_features(out, "train")
    assert features.image_of_text.tolist() == [0, 1, 0]
    assert (out / "train_images.txt").read_text().splitlines() == ["more/c.png", "b.png"]
    captions = (out / "train_captions.txt").read_text().splitlines()
    assert captions == ["a green wall", "a red wall", "a red wall"]
    model: Any = load_model("tiny-clip")
    images = [Image.open(folder / name).convert("RGB") for name in ("more/c.png", "b.png")]
    np.testing.assert_allclose(features.images, model.embed_images(images), atol=1e-5)
    np.testing.assert_allclose(features.texts, model.embed_texts(captions), atol=1e-5)
    spec = read_joined_spec(out / "joined.json")
    assert spec.image == spec.text == Side("tiny-clip", kind="model")
    # another split goes beside it, in its own format; the same one is refused
    build(folder, out, captions=folder / "captions.csv", split="test", save_as="float16")
    assert read_features(out, "test").images.dtype == np.float16
    assert read_features(out, "train").images.dtype == np.float32
    with pytest.raises(InputError, match="holds train features already"):
        build(folder, out, captions=folder / "captions.csv")
    build(folder / "more", out, overwrite=True)
    assert sorted(file.name for file in out.glob("train*")) == [
        "train.json", "train_images.npy", "train_images.txt",
    ]  # fmt: skip


def test_a_stopped_build_goes_on_from_the_cache(folder: Path, tmp_path: Path) -> None:
    seen: list[str] = []

    def progress(what: str, done: int, total: int) -> None:
        seen.append(what)

    build(folder, tmp_path / "one", cache=tmp_path / "cache", progress=progress)
    assert any("images" in what for what in seen)
    stored = sorted((tmp_path / "cache").rglob("*.parquet"))
    assert stored
    again = build(folder, tmp_path / "two", cache=tmp_path / "cache")
    assert sorted((tmp_path / "cache").rglob("*.parquet")) == stored
    assert again["arrays"]["images"][0] == 3
    one, two = (np.load(tmp_path / name / "train_images.npy") for name in ("one", "two"))
    assert np.array_equal(one, two)


def test_paths_survive_another_working_directory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    width = load_model("tiny-clip").embed_texts(["a"]).shape[1]  # type: ignore[attr-defined]
    side = Side("tiny-clip", kind="model")
    heads = {"image.weight": torch.eye(4, width), "text.weight": torch.eye(4, width)}
    save_joined(tmp_path / "heads", JoinedSpec(side, side), heads)
    monkeypatch.chdir(tmp_path)
    build(folder, Path("features"), model="joined:heads", captions=folder / "captions.csv")
    manifest = json.loads((tmp_path / "features" / "train.json").read_text())
    assert manifest["root"] == str(folder)
    assert manifest["captions_file"] == str(folder / "captions.csv")
    spec = read_joined_spec(tmp_path / "features" / "joined.json")
    assert spec.image is not None
    assert str(tmp_path / "heads") in spec.image.source
    monkeypatch.chdir(folder)
    assert load_model(spec.image.source)
    with pytest.raises(InputError, match="holds features of"):
        build(folder, tmp_path / "features", split="test")


def test_one_side_alone(folder: Path, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "images"
    said = cli(
        "build", "features", folder, "--model", "tiny-clip", "--out", out, "--no-cache", "--quiet"
    )
    assert said.status == 0
    assert "train_images.npy: 3 ×" in said.out
    assert "1 images left out" in said.out
    assert not (out / "train_texts.npy").exists()
    with pytest.raises(InputError, match="SPLIT_texts"):
        cp.tune_heads(out)
    spec = json.loads((out / "joined.json").read_text())
    (out / "joined.json").write_text(json.dumps(spec | {"text": None}))
    with pytest.raises(InputError, match="one side alone, by tiny-clip"):
        cp.tune_heads(out)
    manifest = build(None, tmp_path / "texts", captions=folder / "lines.txt")
    assert list(manifest["arrays"]) == ["texts"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": None}, "nothing to embed"),
        ({"model": None}, "pass either model"),
        ({"text_encoder": "x"}, "pass either model"),
        ({"split": "../x"}, "split must be a word"),
        ({"save_as": "int8"}, "save_as"),
        ({"captions": "lines.txt"}, "has no image"),
        ({"captions": "away.csv"}, "not in"),
        ({"captions": "out.csv"}, "out.png"),
        ({"captions": "nothing.csv"}, "no caption|nothing can be embedded"),
    ],
)
def test_what_cannot_be_embedded(
    folder: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    (folder / "away.csv").write_text("image,caption\ngone.png,a wall\n")
    (folder / "out.csv").write_text("image,caption\n../out.png,a wall\n")
    (folder / "nothing.csv").write_text("image,caption\nbroken.png,a wall\n")
    asked: dict[str, Any] = {"images": folder} | changes
    if "captions" in asked:
        asked["captions"] = folder / asked["captions"]
    with pytest.raises(InputError, match=message):
        build(asked.pop("images"), tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()
