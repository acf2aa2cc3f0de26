from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp

from contrapose.tune.together import joined
from tests.tune import pair

COUNT = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    mp.spawn(pair.main, args=(COUNT, str(folder)), nprocs=COUNT)  # type: ignore[attr-defined,no-untyped-call]
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


def test_one_of_them_writes(folder: Path) -> None:
    lines = (folder / "run0" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line).get("step") for line in lines] == [1, 2, None, 3, None]
    names = {each.name for each in (folder / "run0" / "checkpoints").iterdir()}
    assert names == {"step-00000002.safetensors", "step-00000003.safetensors"}


def test_alone_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined("cpu") as device:
        assert device == "cpu"
        assert not torch.distributed.is_initialized()
