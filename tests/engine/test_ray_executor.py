"""Ray: workers score the batches that one process would, to the byte, also when one is killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from contrapose.data import Example, ImageRef, in_memory_benchmark
from contrapose.data.examples import single_match
from contrapose.engine import AnswerStore, NoiseImages, ScoringContext, plan_examples
from contrapose.engine.columns import ScoredBatch
from contrapose.engine.ray_executor import RayExecutor
from contrapose.engine.ray_workers import WorkerModel
from contrapose.engine.requests import build_pair_request
from contrapose.errors import InputError, MissingExtraError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.models import ModelCard
from contrapose.results import write_run
from tests.engine.killed import Slow
from tests.engine.test_videos import FilmReader, videos
from tests.fakes import Fake, pairs
from tests.videos import encode_video, gray_frames


@dataclass
class Killing(Slow):
    """A model whose process is killed once, when it has scored some batches."""

    flag: str = ""
    calls: int = 0

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        self.calls += 1
        if self.calls == 3 and Path(self.flag).is_file():
            with suppress(FileNotFoundError):  # of two workers that see it one dies
                Path(self.flag).unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        return super().match(images, texts)


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


class RayError(Exception):
    """Ray's error of anything."""


class DeadActorError(RayError):
    """Ray's error of a worker that has died."""


class RayTaskError(RayError):
    """Ray's error of a worker's own code."""


class FakeRay:
    """Ray whose workers live in this process, and die when told so."""

    def __init__(self, dying: Callable[[str, int], bool], cores: Sequence[float] = (4,)):
        self.exceptions = SimpleNamespace(RayTaskError=RayTaskError, RayError=RayError)
        self.killed = 0
        self.error: type[RayError] = DeadActorError
        self.address = ""
        self.dying, self.cores, self.started, self.calls = dying, list(cores), 0, 0
        self.gpus, self.asked = 0, list[dict[str, Any]]()

    def is_initialized(self) -> bool:
        return not self.address

    def init(self, **_options: object) -> None:
        os.write(2, b"rpc_client.h:153: no Ray")
        raise ConnectionError(f"no Ray at {self.address}\nlong tale")

    def nodes(self) -> list[dict[str, Any]]:
        more = {"GPU": self.gpus} if self.gpus else {}
        return [{"Alive": True, "Resources": {"CPU": cores} | more} for cores in self.cores]

    def put(self, value: object) -> object:
        return value

    def remote(self, kind: Any) -> Any:
        def start(*arguments: Any) -> Any:
            self.started += 1
            worker = kind(*arguments)
            cores = self.asked[-1]["num_cpus"]
            calls = {
                name: self._call(getattr(worker, name), name, cores) for name in ("load", "score")
            }
            return SimpleNamespace(**calls)

        def options(**asked: Any) -> Any:
            self.asked.append(asked)
            return SimpleNamespace(remote=start)

        return SimpleNamespace(options=options)

    def _call(self, method: Any, name: str, cores: float) -> Any:
        def later(*arguments: Any) -> Any:
            self.calls += 1
            return self.dying(name, self.calls), method, arguments, cores

        return SimpleNamespace(remote=lambda *a: _Reference(*later(*a)))

    def wait(self, waiting: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], Any]:
        return (waiting[:1], []) if self.cores else ([], waiting)

    def get(self, reference: Any) -> Any:
        if not isinstance(reference, _Reference):
            return reference
        if reference.dies:
            raise self.error("the worker died\nlong tale")
        return reference.method(*reference.arguments)

    def kill(self, worker: Any) -> None:
        self.killed += 1


class _Reference:
    def __init__(self, dies: bool, method: Any, arguments: tuple[Any, ...], cores: float):
        self.dies, self.method, self.arguments, self.cores = dies, method, arguments, cores


def run_on(
    fake: FakeRay,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers: int = 2,
    batches: tuple[int, ...] = (12,),
) -> RayExecutor:
    """Score some pairs on Ray in so many batches, in as many runs as there are numbers of them."""
    monkeypatch.setitem(sys.modules, "ray", fake)
    model = Fake()
    executor = RayExecutor(model, WorkerModel("fake-1", model=Fake()), folder, workers=workers)
    for number in batches:
        context = ScoringContext(model, AnswerStore(folder))
        request = build_pair_request(context, "itm", plan_examples(pairs(6)))
        some = np.array_split(np.arange(len(request.pairs)), number)
        executor.run([(request, batch) for batch in some], lambda *_: None)
        assert (request.find_rows() >= 0).all()
    return executor


@pytest.mark.parametrize(
    ("gpus", "workers", "device", "weights", "share", "count"),
    [
        (2, None, "auto", 5, 1.0, 2),
        (2, None, "cuda", 5, 1.0, 2),
        (2, 4, "cuda:1", 5, 0.5, 4),
        (2, 3, "auto", 5, 0.5, 3),
        (2, None, "cpu", 5, None, 1),
        (2, None, "auto", 0, None, 1),  # a served model
        (0, None, "auto", 5, None, 1),
        (0, 4, "cuda", 0, None, 4),
    ],
)
def test_gpus_of_a_worker(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: int,
    workers: int | None,
    device: str,
    weights: int,
    share: float | None,
    count: int,
) -> None:
    fake = FakeRay(lambda name, call: False, cores=(8,))
    fake.gpus = gpus
    monkeypatch.setitem(sys.modules, "ray", fake)
    model = Fake()
    model.card = ModelCard("x", weights, "fp32", "x", None)  # type: ignore[attr-defined]
    executor = RayExecutor(model, WorkerModel("fake-1", name="x"), tmp_path, workers, device)
    executor._start()
    executor._add_worker()
    assert executor.workers == count
    assert fake.asked[0].get("num_gpus") == share
    assert fake.asked[0]["num_cpus"] == 8 // count
    same_sums = {"env_vars": {"OMP_NUM_THREADS": str(torch.get_num_threads())}}
    assert fake.asked[0].get("runtime_env") == (None if share else same_sums)


def test_a_device_that_no_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", FakeRay(lambda name, call: False))
    with pytest.raises(InputError, match="needs a GPU"):
        RayExecutor(Fake(), WorkerModel("fake-1", name="x"), tmp_path, None, "cuda")._start()


def test_deaths_that_are_far_apart_do_not_end_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On machines that come and go, workers may die all the time."""
    fake = FakeRay(lambda name, call: name == "score" and call % 3 == 0)
    run_on(fake, tmp_path, monkeypatch)
    assert fake.started > 5


def test_no_more_workers_than_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay(lambda name, call: False)
    run_on(fake, tmp_path / "a", monkeypatch, workers=60, batches=(3,))
    assert fake.started == 3
    with pytest.raises(InputError, match=r"workers=65 is too much .* 4 cores: 64 at the most"):
        run_on(fake, tmp_path / "b", monkeypatch, workers=65)


@pytest.mark.parametrize("lost", [range(13, 19), (19, *range(21, 26))])
def test_workers_that_died_idle_take_no_task_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: Sequence[int]
) -> None:
    """A machine goes with all workers, between two runs or while one of them has a task."""
    fake = FakeRay(lambda name, call: call in lost)  # calls 1 to 12 are loads and scores
    monkeypatch.setattr(fake, "wait", lambda waiting, **_: (waiting[-1:], []))  # all load first
    run_on(fake, tmp_path, monkeypatch, workers=6, batches=(6, 1))
    assert fake.killed == 6


def test_any_death_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that the system ended for their memory have errors of another class."""
    fake = FakeRay(lambda name, call: name == "score" and call == 4)
    fake.error = type("OutOfMemoryError", (RayError,), {})
    run_on(fake, tmp_path, monkeypatch)
    assert fake.killed == 1  # it may live, out of reach


def test_two_models_do_not_wait_for_each_others_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeRay(lambda name, call: False)
    monkeypatch.setitem(sys.modules, "ray", fake)
    request = EvalRequest(
        (in_memory_benchmark(pairs(2), name="plain"),), ("itc", "itm"), resamples=100,
        engine="ray", workers=1, cache=tmp_path,
    )  # fmt: skip
    held: list[int] = []
    monkeypatch.setattr(fake, "kill", lambda worker: held.append(fake.started))
    evaluate_models([Fake(), Fake(fingerprint="fake-2")], request)
    assert held == [1, 2]  # the first is killed before the second starts


def test_deaths_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="died in a row"):
        run_on(FakeRay(lambda name, call: name == "load"), tmp_path, monkeypatch)
    with pytest.raises(InputError, match="died of the same batches"):
        run_on(FakeRay(lambda name, call: name == "score"), tmp_path, monkeypatch)
    monkeypatch.setattr(WorkerModel, "can_use_gpu", lambda *_: True)
    for gpus in (0, 1):
        fake = LosingRay([], 0, gpus)
        with pytest.raises(InputError, match=f"is left with 2 cores{' and a GPU' * gpus};"):
            run_on(fake, tmp_path, monkeypatch)
    with pytest.raises(InputError, match=r"is left with .* and a GPU;"):
        run_on(LosingRay([8], 0, 1), tmp_path, monkeypatch)


class LosingRay(FakeRay):
    """Ray that loses its machines at the first death, and has others then, perhaps without GPUs."""

    def __init__(self, left: Sequence[float], gpus: int = 0, gpus_before: int | None = None):
        super().__init__(lambda name, call: call == 3)
        self.left, self.gpus_left = left, gpus
        self.gpus = gpus if gpus_before is None else gpus_before

    def get(self, reference: Any) -> Any:
        if not isinstance(reference, _Reference):
            return reference
        if reference.dies:
            self.cores, self.gpus = list(self.left), self.gpus_left
        return super().get(reference)

    def wait(self, waiting: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], Any]:
        room = max(self.cores, default=0) * (self.gpus > 0 or not self.asked[0].get("num_gpus"))
        fits = [one for one in waiting if one.cores <= room]
        return fits[:1], []


@pytest.mark.parametrize("gpus", [0, 1])
def test_smaller_machines_take_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int
) -> None:
    """Workers of two cores each find no room when the machine of four is lost."""
    monkeypatch.setattr(WorkerModel, "can_use_gpu", lambda *_: True)
    fake = LosingRay([1], gpus)
    run_on(fake, tmp_path, monkeypatch)
    assert [asked["num_cpus"] for asked in fake.asked] == [2, 2, 2, 0.5, 0.5]


def test_workers_that_write_to_another_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", FakeRay(lambda name, call: False))
    model = Fake()
    context = ScoringContext(model, AnswerStore(tmp_path / "here"))
    request = build_pair_request(context, "itm", plan_examples(pairs(1)))
    executor = RayExecutor(model, WorkerModel("fake-1", model=Fake()), tmp_path / "there", 1)
    with pytest.raises(InputError, match=r"wrote to another store: 2 of 2 .*itm"):
        executor.run([(request, np.arange(2))], lambda *_: None)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray of two cores, where it is installed."""
    module = pytest.importorskip("ray")
    module.shutdown()
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield module
    module.shutdown()


def test_equal_to_the_local_engine_also_when_a_node_is_lost(tmp_path: Path) -> None:
    """A machine of the cluster goes away with its workers, and another one comes."""
    ray = pytest.importorskip("ray")
    cluster_type = pytest.importorskip("ray.cluster_utils").Cluster
    benchmark = in_memory_benchmark(pairs(12), name="plain")
    ray.shutdown()
    cluster = cluster_type(initialize_head=True, head_node_args={"num_cpus": 1})
    node = cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    lost: list[int] = []

    def run(engine: Any, name: str) -> dict[str, bytes]:
        def lose(_: str, done: int, total: int) -> None:
            assert done <= total
            if engine == "ray" and done and not lost:
                lost.append(done)
                cluster.remove_node(node, allow_graceful=False)
                cluster.add_node(num_cpus=1)

        request = EvalRequest(
            (benchmark,), ("itc", "itm", "lm"), resamples=200, batch_size=3, engine=engine,
            workers=3, cache=tmp_path / f"store-{name}",
        )  # fmt: skip
        runs = evaluate_models([Killing(flag=str(tmp_path / "none"))], request, progress=lose)
        write_run(runs, tmp_path / name)
        return contents(tmp_path / name)

    try:
        assert run("ray", "ray") == run("local", "local")
        assert lost
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_messages_of_ray_stay_out_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = pytest.importorskip("ray")
    ray.shutdown()
    monkeypatch.setenv("RAY_ADDRESS", "local")
    say = import_module("ray._private.worker").print_to_stdstream
    executor = RayExecutor(Fake(), WorkerModel("fake-1", model=Fake()), tmp_path, workers=1)
    for name, shown in (("started", False), ("ended", True)):
        if name == "started":
            executor._start()
        else:
            executor.close()
        data = {"lines": [f"(raylet) A worker died: {name}"], "pid": "raylet", "is_err": False}
        say(data, ignore_prefix=False)
        assert (name in capsys.readouterr().out) == shown


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


def test_relative_paths_in_a_cluster_that_began_elsewhere(
    ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (4, 4), (200, 10, 10)).save("red.png")
    red = Example("red", (ImageRef("red", Path("red.png")),), ("red", "not"), single_match(2, 0))
    benchmark = in_memory_benchmark([red], name="plain")
    request = EvalRequest(
        (benchmark,), ("itm",), resamples=100, engine="ray", workers=1, cache=Path("store")
    )
    (run,) = evaluate_models([Slow()], request)
    assert run.results.skipped is None
    assert list(tmp_path.glob("store/answers/**/*.parquet"))


class Counting(Fake):
    """A model whose score is the number of its threads."""

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        return torch.full((len(texts),), float(torch.get_num_threads()))


def test_workers_compute_with_as_many_threads_as_this_process(ray: Any, tmp_path: Path) -> None:
    benchmark = in_memory_benchmark(pairs(2), name="plain")
    request = EvalRequest((benchmark,), ("itm",), engine="ray", workers=2, cache=tmp_path)
    (run,) = evaluate_models([Counting()], request)
    assert run.scores is not None
    assert set(run.scores["value"].tolist()) == {torch.get_num_threads()}


@dataclass
class Raising(Fake):
    """A model with a fault of its own."""

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        raise ValueError("boom in the model")


def test_a_model_that_raises_does_so_as_in_this_process(ray: Any, tmp_path: Path) -> None:
    benchmark = in_memory_benchmark(pairs(2), name="plain")
    request = EvalRequest((benchmark,), ("itm",), engine="ray", workers=1, cache=tmp_path)
    with pytest.raises(ValueError, match=r"^boom in the model$") as error:
        evaluate_models([Raising()], request)
    assert error.type is ValueError
    assert evaluate_models([Slow()], request)  # the worker's cores are free again


@dataclass
class KillingReader(FilmReader):
    """A reader of videos, by frames or at once, whose process is killed in the middle."""

    flag: str = ""
    calls: int = 0

    def match(self, images: Sequence[Any], texts: Sequence[str]) -> torch.Tensor:
        self.calls += 1
        if self.calls == 2:
            with suppress(FileNotFoundError):
                Path(self.flag).unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().match(images, texts) + 1e-6 * len(texts)


@pytest.mark.parametrize("frames", [(3, False), (3, True)])
def test_videos_equal_those_of_the_local_engine(
    ray: Any, tmp_path: Path, frames: tuple[int, bool]
) -> None:
    names = [f"v{i}" for i in range(6)]
    for i, name in enumerate(names):
        encode_video(tmp_path / f"{name}.mp4", gray_frames(8 + i)[:: 1 - 2 * (i % 2)])
    benchmark = in_memory_benchmark(videos(tmp_path, *names, "none"), name="films")
    flag = tmp_path / "flag"

    def run(engine: Any, name: str) -> dict[str, bytes]:
        request = EvalRequest(
            (benchmark,), ("itm",), resamples=200, batch_size=2, engine=engine, workers=2,
            cache=tmp_path / f"store-{name}", frames=frames,
        )  # fmt: skip
        model = KillingReader(video_input="video", flag=str(flag))
        write_run(evaluate_models([model], request), tmp_path / name)
        return contents(tmp_path / name)

    local = run("local", "local")
    assert run("ray", "ray") == local
    flag.touch()
    assert run("ray", "killed") == local
    assert not flag.exists()
