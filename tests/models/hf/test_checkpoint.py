"""Checkpoint folders: every fault is refused in one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import errors
from safetensors.torch import load_file, save_file

from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.hf import checkpoint
from contrapose.models.hf.checkpoint import open_checkpoint
from contrapose.models.options import LoadOptions
from tests.models.hf.small import CAPTIONS, save_clip


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    save_clip(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def test_a_copy_is_the_same_model_and_other_weights_are_not(saved: Path, folder: Path) -> None:
    before = load_model(str(saved)).fingerprint
    assert load_model(str(folder)).fingerprint == before
    (folder / "README.md").write_text("changes nothing")
    assert load_model(str(folder)).fingerprint == before
    weights = load_file(folder / "model.safetensors")
    weights["visual_projection.weight"][0, 0] += 1e-3
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert load_model(str(folder)).fingerprint != before


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "preprocessor_config.json"])
def test_every_file_counts(saved: Path, folder: Path, file: str) -> None:
    before = open_checkpoint(str(saved), None, "m", LoadOptions()).fingerprint
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(content | {"of_ours": 1}))
    assert open_checkpoint(str(folder), None, "m", LoadOptions()).fingerprint != before


def test_a_head_that_was_never_trained_is_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["text_projection.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"no trained weights for 'text_projection.weight', which"):
        load_model(str(folder))
    del weights["visual_projection.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"'text_projection.weight' and 1 more, which CLIPModel"):
        load_model(str(folder))


def test_damage_is_told(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"nonsense" * 9):
        (folder / "model.safetensors").write_bytes(content)
        with pytest.raises(InputError, match=r"the weights of .* cannot be loaded as CLIPModel"):
            load_model(str(folder))
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="holds no weights"):
        load_model(str(folder))


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["visual_projection.weight"] = torch.zeros(8, 32)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="cannot be loaded as CLIPModel"):
        load_model(str(folder))


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("config.json", "the configuration of .* cannot be read"),
        ("tokenizer.json", "the tokeniser of .* cannot be loaded"),
        ("preprocessor_config.json", "the image preprocessing of .* cannot be loaded"),
    ],
)
def test_broken_texts_are_told(folder: Path, file: str, says: str) -> None:
    (folder / file).write_text("{")
    with pytest.raises(InputError, match=says):
        load_model(str(folder))


def test_a_folder_without_a_tokeniser_is_refused(folder: Path) -> None:
    for file in (*folder.glob("*token*"), *folder.glob("vocab*"), *folder.glob("merges*")):
        file.unlink()
    with pytest.raises(InputError, match="has no tokeniser"):
        load_model(str(folder))


def test_a_pickle_is_not_run(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    plain: Any = load_model(str(folder))
    assert plain.embed_texts(CAPTIONS).isfinite().all()

    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (folder / "evil",))

    torch.save({**weights, "x": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(str(folder))
    assert not (folder / "evil").exists()


def test_a_model_of_an_unknown_kind_is_named(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    with pytest.raises(
        InputError, match=r"is a model of type 'bert', which is not known here.*clip"
    ):
        load_model(str(folder))


def test_code_that_comes_with_weights_is_not_run(folder: Path) -> None:
    (folder / "theirs.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "theirs", "auto_map": {"AutoConfig": "theirs.Theirs"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"the configuration of .* cannot be read"):
        load_model(str(folder))
    assert not (folder / "ran").exists()


def refusals() -> list[tuple[Exception, str]]:
    response: Any = type("Response", (), {"headers": {}, "status_code": 401, "request": None})()
    return [
        (
            errors.GatedRepoError("", response=response),
            r"is gated.*huggingface\.co/org/name.*HF_TOKEN",
        ),
        (errors.RepositoryNotFoundError("", response=response), "no model 'org/name' on the hub"),
        (errors.RevisionNotFoundError("", response=response), "org/name has no revision 'v2'"),
        (errors.LocalEntryNotFoundError("x"), "not on this machine and the hub cannot be reached"),
        (errors.OfflineModeIsEnabled("x"), "not on this machine and the hub cannot be reached"),
        (OSError("disk full"), r"cannot be fetched from the hub \(disk full\)"),
    ]


@pytest.mark.parametrize(("error", "says"), refusals(), ids=lambda each: type(each).__name__)
def test_what_the_hub_refuses(monkeypatch: pytest.MonkeyPatch, error: Exception, says: str) -> None:
    def refuse(*args: Any, **arguments: Any) -> str:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(InputError, match=says):
        load_model("hf:org/name@v2")


def test_what_is_fetched(monkeypatch: pytest.MonkeyPatch, saved: Path, tmp_path: Path) -> None:
    """Weights once: safetensors, or else pickles, or else open_clip's."""
    asked: list[tuple[str, ...]] = []
    commit = tmp_path / ("c" * 40)
    shutil.copytree(saved, commit)

    def download(source: str, **arguments: Any) -> str:
        assert source == "org/name"
        asked.append(tuple(arguments["allow_patterns"]))
        assert arguments["revision"] == "v2"
        assert "*.py" not in arguments["allow_patterns"]
        return str(commit)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    model = load_model("hf-hub:org/name@v2")
    assert model.name == "hf:org/name@v2"
    assert model.fingerprint == load_model(str(saved)).fingerprint
    assert len(asked) == 1
    assert "*model*.safetensors" in asked[0]

    (commit / "model.safetensors").rename(commit / "open_clip_model.safetensors")
    asked.clear()
    assert checkpoint.fetch("org/name", "v2", "m") == (commit, "c" * 40)
    assert [patterns[-1] for patterns in asked] == [
        "*model*.safetensors",
        "pytorch_model*.bin",
        "open_clip*.safetensors",
    ]


def test_a_folder_has_no_revision(saved: Path) -> None:
    with pytest.raises(InputError, match="it has no revision 'v2'"):
        checkpoint.fetch(str(saved), "v2", "m")
