from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from contrapose.losses import all_gather, all_reduce_sum, global_mean, processes
from tests.losses import job
from tests.processes import start_processes

COUNT = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes, with half the batch each, left what they found."""
    folder = tmp_path_factory.mktemp("job")
    start_processes(job.main, COUNT, str(folder))
    return folder


@pytest.fixture(scope="module")
def whole() -> dict[str, Tensor]:
    return job.run()


@pytest.mark.parametrize("name", job.LOSSES)
def test_two_processes_are_as_one(name: str, folder: Path, whole: dict[str, Tensor]) -> None:
    for rank in range(COUNT):
        found = torch.load(folder / f"{rank}.pt", weights_only=True)
        assert found.keys() == whole.keys()
        for key in (name, *(f"{name}: {it}" for it in job.parameters())):
            torch.testing.assert_close(found[key], whole[key], rtol=1e-9, atol=1e-12, msg=key)
    assert whole[name] > 0
    assert any(whole[f"{name}: {it}"].abs().max() > 1e-6 for it in job.parameters())


def test_uneven_batches_are_refused(folder: Path) -> None:
    for rank in range(COUNT):
        assert "2, 3 rows" in (folder / f"{rank}.txt").read_text(encoding="utf-8")


def test_one_process_needs_nothing() -> None:
    rows = torch.randn(3, 2, requires_grad=True)
    assert processes().count == 1
    assert all_gather(rows) is rows
    assert all_reduce_sum(rows) is rows
    torch.testing.assert_close(global_mean(rows), rows.mean())
    assert float(global_mean(rows, torch.zeros(3, 2)).detach()) == 0
