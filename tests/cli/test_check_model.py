"""`check model`, `list models` and `list scores`: what is printed, the status, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contrapose.engine import SCORES
from contrapose.errors import install_command
from contrapose.models import families
from contrapose.models.conformance import CHECKS
from tests.conftest import Cli

MINE = """
import torch
from contrapose.errors import InputError

class Mine:
    name, fingerprint, batch_size = "mine", "mine-1", 8

    def embed_images(self, images):
        rows = [[float(v) for v in image.resize((1, 1)).getpixel((0, 0))] for image in images]
        return torch.nn.functional.normalize(torch.tensor(rows) + 1, dim=-1)

    def embed_texts(self, texts):
        if not all(text.strip() for text in texts):
            raise InputError("a caption is empty.")
        rows = [[1.0 * len(text), 1.0 * sum(map(ord, text)), 7.0] for text in texts]
        return torch.nn.functional.normalize(torch.tensor(rows), dim=-1)

class Broken(Mine):
    def embed_texts(self, texts):
        return torch.rand(len(texts), 3)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_a_built_in_model_passes(cli: Cli) -> None:
    said = cli("check", "model", "tiny-clip")
    assert said.status == 0, said
    for check in CHECKS:
        assert check.sentence in said.out
    assert "0 failed" in said.out
    assert "may differ by 0.0001" in said.out


def test_ones_own_class_in_a_file(cli: Cli, mine: Path) -> None:
    said = cli("check", "model", f"{mine}:Mine", "--json")
    report = json.loads(said.out)
    assert said.status == 0, [each for each in report["findings"] if each["outcome"] == "failed"]
    assert report["ok"] is True
    assert report["model"] == "mine"
    assert {each["outcome"] for each in report["findings"]} == {"passed", "not applicable"}


def test_a_broken_model_ends_with_one(cli: Cli, mine: Path) -> None:
    said = cli("check", "model", f"{mine}:Broken")
    assert said.status == 1
    assert "failed: deterministic: embed_texts differs by" in said.out
    assert "Traceback" not in said.out + said.err
    assert json.loads(cli("check", "model", f"{mine}:Broken", "--json").out)["ok"] is False


def test_bad_input(cli: Cli, mine: Path, tmp_path: Path) -> None:
    assert "did you mean tiny" in cli("check", "model", "tinny").refused()
    assert "dtype" in cli("check", "model", "tiny", "--dtype", "int8").refused()
    assert "device" in cli("check", "model", "tiny", "--device", "abacus").refused()
    assert "'Miné'" in cli("check", "model", f"{mine}:Miné").refused()
    cli("check", "model", f"{tmp_path / 'none.py'}:Mine").refused()
    cli("check", "model", "tiny", "--include", tmp_path / "none.py").refused()


def test_list_models(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contrapose.models.registry._loaders", {})
    said = cli("list", "models")
    assert said.status == 0
    listed = json.loads(cli("list", "models", "--json").out)
    assert [each["name"] for each in listed["families"]] == [each.name for each in families()]
    for family in families():
        assert family.example in said.out
    assert listed["plugins"] == []


def test_what_is_not_installed_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "contrapose.cli.listing.find_spec", lambda name: None if name == "open_clip" else object()
    )
    said = cli("list", "models").out
    assert install_command("openclip") in said
    assert "[hf]" not in said
    listed = json.loads(cli("list", "models", "--json").out)["families"]
    assert {each["installed"] for each in listed if each["extra"] == "openclip"} == {False}
    assert {each["installed"] for each in listed if each["extra"] == "torch"} == {True}


def test_included_models_are_listed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("contrapose.models.registry._loaders", {})
    file = tmp_path / "more.py"
    file.write_text(
        "from contrapose.models import register_model\n"
        "@register_model('listed-from-a-file')\n"
        "def load(name, device): raise NotImplementedError\n"
    )
    listed = json.loads(cli("list", "models", "--include", file, "--json").out)
    assert "listed-from-a-file" in listed["plugins"]


def test_list_scores(cli: Cli) -> None:
    said = cli("list", "scores")
    assert said.status == 0
    listed = {each["name"]: each for each in json.loads(cli("list", "scores", "--json").out)}
    assert list(listed) == list(SCORES)
    for name, meaning in SCORES.items():
        assert meaning in said.out
        assert listed[name]["meaning"] == meaning
    assert listed["itm"]["needs"] == "Matcher"
    assert "tiny" in listed["lm"]["families"]
    assert "tiny-clip" not in listed["lm"]["families"]
