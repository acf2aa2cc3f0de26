"""`python -m tools.train_tiny`: two steps make a weight file that can be loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from contrapose.models.tiny import load
from contrapose.models.tiny.model import Tiny, TinyClip
from contrapose.models.tiny.network import TinyNetwork
from contrapose.models.tiny.weights import read_recipe, read_weights, write_weights
from contrapose.world.captions import VOCABULARY
from tools.train_tiny.__main__ import CONFIGS, PHASES, main


@pytest.fixture(autouse=True)
def same_precision() -> Iterator[None]:
    """Training asks for faster products; other tests want the usual ones."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def arguments(out: Path, *more: str) -> list[str]:
    numbers = ("--steps", "2", "--scenes", "16", "--batch", "4", "--workers", "1", "--probe", "2")
    return ["--out", str(out), "--device", "cpu", *numbers, *more]


@pytest.mark.parametrize(("name", "kind"), [("tiny", Tiny), ("tiny-clip", TinyClip)])
def test_two_steps(
    name: str, kind: type[TinyClip], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([name, *arguments(tmp_path / "out", "--keep", str(tmp_path / "kept"))])
    file = tmp_path / "out" / f"{name}.safetensors"
    model = load(name, path=file)
    assert type(model) is kind
    assert model.network.config == CONFIGS[name]
    torch.testing.assert_close(model.embed_texts(["a red ball"]).norm(), torch.tensor(1.0))
    recipe = read_recipe(file)
    phases = len(PHASES[name])
    assert recipe["steps_done"] == [2] * phases
    assert [each["scenes"] for each in recipe["phases"]] == [16] * phases
    assert set(recipe["probe"]["replace-color"]) >= {"itc", "n"}
    log = (tmp_path / "out" / "log.jsonl").read_text()
    assert capsys.readouterr().out == log
    lines = [json.loads(line) for line in log.splitlines()]
    assert len(lines) == 2 * phases + 1
    assert all(line["model"] == name for line in lines)
    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert kept == [f"{name}-{number}.pt" for number in range(phases)]


def test_weights_resume_after_their_phases(tmp_path: Path) -> None:
    began = tmp_path / "first.safetensors"
    torch.manual_seed(0)
    write_weights(began, TinyNetwork(CONFIGS["tiny"]), VOCABULARY, {"steps_done": [7]})
    main(["tiny", *arguments(tmp_path / "out", "--weights", str(began))])
    file = tmp_path / "out" / "tiny.safetensors"
    assert read_recipe(file)["steps_done"] == [7, 2]
    before, after = (read_weights(each)[0].state_dict() for each in (began, file))
    assert torch.equal(
        before["image.blocks.0.think.0.weight"], after["image.blocks.0.think.0.weight"]
    )
    assert not torch.equal(before["text.words.weight"], after["text.words.weight"])


def test_a_batch_larger_than_the_set(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"batch of 17.*16"):
        main(["tiny-clip", *arguments(tmp_path, "--batch", "17")])


def test_an_unknown_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["huge", *arguments(tmp_path)])
    assert "invalid choice: 'huge'" in capsys.readouterr().err
