from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp

from contrapose.tune.parameters import process_group
from tests.processes import start_processes
from tests.tune import pair

COUNT = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    start_processes(pair.main, COUNT, str(folder))
    return folder


@pytest.mark.parametrize("objective", pair.RUNS)
def test_two_processes_train_as_one(objective: str, folder: Path) -> None:
    number = list(pair.RUNS).index(objective)
    expected = pair.run(objective)
    for rank in range(COUNT):
        found = torch.load(folder / f"{number}-{rank}.pt", weights_only=True)
        for name, weight in expected.items():
            if name.endswith("key_value.bias"):
                continue  # keys' biases change no attention: their gradients are rounding alone
            torch.testing.assert_close(found[name], weight, rtol=1e-3, atol=2e-4, msg=name)


@pytest.mark.parametrize("pieces", pair.PIECES)
def test_two_processes_judge_as_one(pieces: int, folder: Path) -> None:
    expected = pair.judged(1)
    assert {"itm", "itm_hn", "itm_hp", "lm", "eqsim-match"} < expected["losses"].keys()
    for rank in range(COUNT):
        found = torch.load(folder / f"judged-{pieces}-{rank}.pt", weights_only=True)
        for kind, theirs in expected.items():
            assert found[kind].keys() == theirs.keys()
            for name, value in theirs.items():
                mine = found[kind][name]
                torch.testing.assert_close(mine, value, rtol=1e-4, atol=2e-6, msg=name)


def test_killed_processes_go_on_as_unbroken(folder: Path) -> None:
    with pytest.raises(mp.ProcessExitedException, match="SIGKILL"):  # type: ignore[attr-defined]
        start_processes(pair.broken, COUNT, str(folder), False)
    checkpoints = {each.name for each in (folder / "part" / "checkpoints").iterdir()}
    assert checkpoints == {"step-00000002.safetensors", "step-00000004.safetensors"}
    assert not (folder / "part-0.pt").exists()
    start_processes(pair.broken, COUNT, str(folder), True)
    for rank in range(COUNT):
        whole, part = (
            torch.load(folder / f"{name}-{rank}.pt", weights_only=True)
            for name in ("whole", "part")
        )
        assert all(torch.equal(part[name], whole[name]) for name in whole)


def test_one_of_them_writes(folder: Path) -> None:
    lines = (folder / "run0" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line).get("step") for line in lines] == [1, 2, None, 3, None]
    names = {each.name for each in (folder / "run0" / "checkpoints").iterdir()}
    assert names == {"step-00000002.safetensors", "step-00000003.safetensors"}


def test_alone_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with process_group("cpu") as device:
        assert device == "cpu"
        assert not torch.distributed.is_initialized()
