"""Workers on Ray, in this process: tasks travel as bytes, and scores land in the store."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from contrapose.data import ImageRef
from contrapose.engine import AnswerStore, ScoringContext, plan_examples
from contrapose.engine.ray_workers import (
    RayWorker,
    WorkerModel,
    WorkerTask,
    list_included_files,
)
from contrapose.engine.requests import (
    build_caption_request,
    build_image_request,
    build_pair_request,
)
from contrapose.engine.videos import expand_videos
from contrapose.errors import InputError
from contrapose.models import ModelCard, load_model
from tests.engine.killed import Slow
from tests.engine.test_videos import FilmReader, videos
from tests.fakes import Fake, pairs
from tests.videos import encode_video, gray_frames


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
    of_images = build_image_request(context, plan.images, plan.image_ids)
    for of_vectors in (build_caption_request(context, plan.texts), of_images):
        assert worker.score(WorkerTask.of(of_vectors, [np.arange(2)])).failure == ""
        of_vectors.table.read_new()
        assert (of_vectors.find_rows() >= 0).sum() == 2


def test_a_worker_with_other_weights_refuses(tmp_path: Path) -> None:
    worker = RayWorker(WorkerModel("other", model=Fake()), tmp_path, 1)
    assert "other weights" in worker.load().failure


def test_a_worker_works_in_the_folder_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # where Ray was started
    worker = RayWorker(WorkerModel("fake-1", model=Fake()), "store", 1, tmp_path)
    assert worker.load().failure == ""
    request = build_pair_request(
        ScoringContext(Fake(), AnswerStore(tmp_path / "store")), "itm", plan_examples(pairs(1))
    )
    report = worker.score(WorkerTask.of(request, [np.arange(2)]))
    request.table.read_new()
    assert report.written == report.tried == (request.find_rows() >= 0).sum() == 2
    lost = RayWorker(WorkerModel("fake-1", model=Fake()), "store", 1, tmp_path / "not there")
    assert f"cannot enter {tmp_path / 'not there'} on " in lost.load().failure


def test_a_broken_model_is_named(tmp_path: Path) -> None:
    model = Fake(broken=float("nan"))
    worker = RayWorker(WorkerModel("fake-1", model=model), tmp_path, 1)
    worker.load()
    request = build_pair_request(
        ScoringContext(model, AnswerStore(tmp_path)), "itm", plan_examples(pairs(1))
    )
    assert "not a number" in worker.score(WorkerTask.of(request, [np.arange(2)])).failure


@pytest.mark.parametrize("model", [Fake(), FilmReader(video_input="video")], ids=["mean", "own"])
def test_videos_travel_as_paths_and_times(tmp_path: Path, model: Fake) -> None:
    encode_video(tmp_path / "a.mp4", gray_frames(9))
    encode_video(tmp_path / "b.mp4", gray_frames(6)[::-1])
    plan = plan_examples(expand_videos(model, videos(tmp_path, "a", "b", "none")).examples)

    def score(folder: Path) -> tuple[bytes, np.ndarray]:
        request = build_pair_request(ScoringContext(model, AnswerStore(folder)), "itm", plan)
        task = pickle.dumps(WorkerTask.of(request, [np.arange(len(plan.pairs))]))
        worker = RayWorker(WorkerModel("fake-1", model=model), folder, 1)
        worker.load()
        assert worker.score(pickle.loads(task)).failure == ""  # noqa: S301
        request.table.read_new()
        rows = request.find_rows()
        return task, request.table.values(rows[rows >= 0])

    task, values = score(tmp_path / "store")
    assert len(task) < 20_000  # no frame is in it
    local = ScoringContext(model, AnswerStore(tmp_path / "local"))
    request = build_pair_request(local, "itm", plan)
    expected = request.answer(
        np.arange(len(plan.pairs)), {i: request.prepare(i) for i in range(len(plan.images))}
    )
    assert values.tobytes() == np.concatenate([c["value"] for c in expected.columns()]).tobytes()
    assert len(values) == (4 if isinstance(model, FilmReader) else 12)


class Network(torch.nn.Module):
    """Network of one weight, which says that it lies on a GPU."""

    def __init__(self, is_cuda: bool):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.is_cuda = is_cuda

    def parameters(self, recurse: bool = True):  # type: ignore[no-untyped-def]
        class Weight:
            is_cuda = self.is_cuda

        return iter([Weight()])


class Carded(Fake):
    def __init__(self, parameters: int):
        super().__init__()
        self.card = ModelCard("x", parameters, "fp32", "x", None)


@pytest.mark.parametrize(
    ("model", "network", "expected"),
    [
        (Carded(5), None, True),
        (Carded(0), None, False),  # served elsewhere
        (Fake(), None, True),
        (Fake(), False, False),
        (Fake(), True, True),
    ],
)
def test_which_models_can_use_a_gpu(model: Fake, network: bool | None, expected: bool) -> None:
    if network is None:
        assert WorkerModel("fake-1", name="x").can_use_gpu(model) == expected
        return
    model.network = Network(network)  # type: ignore[attr-defined]
    assert WorkerModel("fake-1", model=model).can_use_gpu(model) == expected


class StrangeError(Exception):
    """An error that pickle can write and not read."""

    def __init__(self, first: str, second: str):
        super().__init__(f"{first} and {second}")


class Strange(Fake):
    """A model that raises it."""

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        raise StrangeError("this", "that")


def test_an_error_that_cannot_be_unpickled_is_told(tmp_path: Path) -> None:
    """Ray would take it for the worker's death."""
    worker = RayWorker(WorkerModel("fake-1", model=Strange()), tmp_path, 1)
    worker.load()
    request = build_pair_request(
        ScoringContext(Fake(), AnswerStore(tmp_path)), "itm", plan_examples(pairs(1))
    )
    with pytest.raises(RuntimeError, match=r"^StrangeError: this and that$"):
        worker.score(WorkerTask.of(request, [np.arange(2)]))


class Objects:
    """Objects of Ray: what is put is pickled, and unpickled where it is got."""

    exceptions = SimpleNamespace(RayError=OSError)
    put, get = staticmethod(pickle.dumps), staticmethod(pickle.loads)


def test_a_model_of_an_included_file_is_received_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", Objects)
    (tmp_path / "own.py").write_text(
        "class Own:\n    name, fingerprint, batch_size = 'own', 'own-1', 8\n"
        "    def match(self, images, texts): ...\n"
    )
    model = load_model(f"{tmp_path / 'own.py'}:Own")
    recipe = WorkerModel(model.fingerprint, model=model, files=list_included_files())
    sent = recipe.send(Objects.put)
    assert sent.model is None
    monkeypatch.delitem(sys.modules, type(model).__module__)  # as in a worker
    assert type(sent.load()).__name__ == "Own"
    monkeypatch.delitem(sys.modules, type(model).__module__, raising=False)
    with pytest.raises(InputError, match="cannot make the model that was sent"):
        replace(sent, files=()).load()
    with pytest.raises(InputError, match="cannot be sent to the workers of Ray"):
        WorkerModel("fake-1", model=Fake(broken=lambda: 0)).send(Objects.put)  # type: ignore[arg-type]


def test_parts_of_a_shard_say_so(tmp_path: Path) -> None:
    worker = RayWorker(WorkerModel("fake-1", model=Fake()), tmp_path, 1, shard="2/3")
    assert worker.load().failure == worker.load().failure == ""  # loads once
    request = build_pair_request(
        ScoringContext(Fake(), AnswerStore(tmp_path)), "itm", plan_examples(pairs(1))
    )
    worker.score(WorkerTask.of(request, [np.arange(2)]))
    request.table.read_new()
    assert request.table.shard_count[1] == 3
