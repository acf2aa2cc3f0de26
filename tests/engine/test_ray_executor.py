"""Ray: workers score the batches that one process would, to the byte, also when one is killed."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from contrapose.data import ImageRef, in_memory_benchmark
from contrapose.engine import AnswerStore, NoiseImages, ScoringContext, plan_examples
from contrapose.engine.context import ScoredBatch, build_embedding_requests, build_pair_request
from contrapose.engine.ray_executor import RayExecutor, RayWorker, WorkerModel, WorkerTask
from contrapose.errors import InputError, MissingExtraError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.results import write_run
from tests.engine.killed import Slow
from tests.fakes import Fake, pairs


@dataclass
class Killing(Slow):
    """A model whose process is killed once, when it has scored some batches."""

    flag: str = ""
    calls: int = 0

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        self.calls += 1
        if self.calls == 3 and Path(self.flag).is_file():
            Path(self.flag).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        return super().match(images, texts)


def test_a_task_travels_and_its_worker_writes_the_scores(tmp_path: Path) -> None:
    torn = tmp_path / "torn.png"
    torn.write_bytes(b"nothing")
    examples = pairs(4)
    examples[1] = replace(examples[1], images=(examples[1].images[0], ImageRef("torn", torn)))
    store = AnswerStore(tmp_path / "store")
    context = ScoringContext(Slow(), store, batch_size=3)
    plan = plan_examples(examples)
    request = build_pair_request(context, "lm", plan)
    task = WorkerTask.of(request, [np.array([0, 5, 2]), np.array([7, 8])])
    worker = RayWorker(WorkerModel("fake-1", model=Slow()), tmp_path / "store", 1)
    assert worker.load().failure == ""
    report = worker.score(pickle.loads(pickle.dumps(task)))  # noqa: S301
    assert report.tried == 5
    request.table.read_new()
    rows = request.find_rows()
    readable = [
        p for p in (0, 2, 5, 7, 8) if plan.image_ids[plan.pairs[p, 0]] not in report.skips.images
    ]
    assert np.flatnonzero(rows >= 0).tolist() == readable
    assert len(report.skips.images) <= 1
    for of_vectors in build_embedding_requests(context, plan.images, plan.image_ids, plan.texts):
        assert worker.score(WorkerTask.of(of_vectors, [np.arange(2)])).failure == ""
        of_vectors.table.read_new()
        assert (of_vectors.find_rows() >= 0).sum() == 2


def test_a_worker_with_other_weights_refuses(tmp_path: Path) -> None:
    worker = RayWorker(WorkerModel("other", model=Fake()), tmp_path, 1)
    assert "other weights" in worker.load().failure


def test_a_broken_model_is_named(tmp_path: Path) -> None:
    model = Fake(broken=float("nan"))
    worker = RayWorker(WorkerModel("fake-1", model=model), tmp_path, 1)
    worker.load()
    request = build_pair_request(
        ScoringContext(model, AnswerStore(tmp_path)), "itm", plan_examples(pairs(1))
    )
    assert "not a number" in worker.score(WorkerTask.of(request, [np.arange(2)])).failure


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = in_memory_benchmark(pairs(2), name="plain")
    with pytest.raises(InputError, match="Ray needs a cache"):
        evaluate_models([Fake()], EvalRequest((benchmark,), ("itm",), engine="ray"))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"\[ray\]"):
        evaluate_models([Fake()], EvalRequest((benchmark,), ("itm",), engine="ray", cache=tmp_path))


def test_another_model_is_scored_here(tmp_path: Path) -> None:
    context = ScoringContext(Fake(), AnswerStore(tmp_path))
    request = build_pair_request(context, "itm", plan_examples(pairs(1)))
    executor = RayExecutor(Fake(), WorkerModel("fake-1"), tmp_path)
    kept: list[ScoredBatch] = []
    executor.run([(request, np.arange(2))], lambda _, batch: kept.append(batch))
    assert len(kept[0].images) == 2


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray of two cores, where it is installed."""
    module = pytest.importorskip("ray")
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield module
    module.shutdown()


def contents(run: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in run.iterdir() if file.name != "spec.json"}


def test_equal_to_the_local_engine_also_when_a_worker_is_killed(ray: Any, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    benchmark = in_memory_benchmark(pairs(12), name="plain")

    def run(engine: Any, name: str) -> dict[str, bytes]:
        done: list[tuple[int, int]] = []
        request = EvalRequest(
            (benchmark,), ("itc", "itm", "lm"), resamples=200, batch_size=3, engine=engine,
            workers=2, cache=tmp_path / f"store-{name}", prior=NoiseImages(2), tokens=True,
        )  # fmt: skip
        runs = evaluate_models(
            [Killing(flag=str(flag))], request, progress=lambda _, a, b: done.append((a, b))
        )
        write_run(runs, tmp_path / name)
        assert all(a <= b for a, b in done)
        return contents(tmp_path / name)

    local = run("local", "local")
    assert run("ray", "ray") == local
    flag.touch()
    assert run("ray", "killed") == local
    assert not flag.exists()
