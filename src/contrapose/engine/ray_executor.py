"""Executor on Ray: a pool of workers, each with its own model, that write to the shared store.

Ids, captions and references of images travel to the workers. They open the images, score whole
batches, and write the parts; what comes back is how many pairs were tried and which were skipped.
The work of a worker that dies, alone or with its machine, goes to another.

The pool is kept here and not by Ray Data's `map_batches`, which cuts batches from blocks of rows:
these batches must be those of the plan, so that scores are equal to the byte, and their result is a
part in the store.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.data import ImageRef
from contrapose.engine.columns import ModelError, ScoredBatch
from contrapose.engine.context import ScoreRequest, ScoringContext
from contrapose.engine.executor import Jobs, Keep, LocalExecutor
from contrapose.engine.images import EncodedImageCache
from contrapose.engine.part_writer import PartWriter
from contrapose.engine.priors import NoiseSource
from contrapose.engine.score_types import NoiseImages
from contrapose.engine.store import AnswerStore
from contrapose.errors import ContraposeError, InputError, MissingExtraError, first_line, option
from contrapose.files import include
from contrapose.metrics import IntArray
from contrapose.models import Model, PromptedCaptioner, load_model
from contrapose.scores import Skips

BATCHES_PER_TASK = 8
"""Batches that a worker scores before it writes a part and reports."""

TASKS_PER_WORKER = 4
"""Tasks of a worker at the least, so that the last ones end at about the same time."""

MAX_DEFAULT_WORKERS = 4
"""Workers by default where there are no GPUs: each holds a model."""

MAX_TASK_DEATHS = 3
"""Workers that may die of one task; a fourth would die too."""

WAIT_SECONDS = 20.0
"""Seconds without a report after which it is checked that a worker has room somewhere."""

INCLUDED_PREFIX = "contrapose_included_"
"""Names of modules that `include` made begin with it."""


@dataclass(frozen=True, slots=True)
class WorkerModel:
    """Model of a worker: its name and options, or the model itself where it has been loaded.

    Attributes:
        fingerprint: of the model that planned the work; a worker's must be the same.
        name: the model string; empty where `model` is given.
        options: of `load_model`.
        prompt: the text before captions of `lm`.
        files: Python files to include first, which register models.
        model: the model itself.
    """

    fingerprint: str
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    prompt: str | None = None
    files: tuple[str, ...] = ()
    model: Model | None = None

    def load(self) -> Model:
        """Load the model.

        Raises:
            InputError: it cannot be loaded, or is another than the one that planned the work.
        """
        for file in self.files:
            include(file)
        model = self.model or load_model(self.name, **self.options)
        if self.prompt is not None and self.model is None and isinstance(model, PromptedCaptioner):
            model = model.with_prompt(self.prompt)
        if model.fingerprint != self.fingerprint:
            raise InputError(
                f"a Ray worker has loaded other weights under the name {model.name}; put the same "
                "files on all machines."
            )
        return model


def list_included_files() -> tuple[str, ...]:
    """List the Python files that were included in this process."""
    modules = [module for name, module in sys.modules.items() if name.startswith(INCLUDED_PREFIX)]
    return tuple(str(module.__file__) for module in modules if module.__file__)


@dataclass(frozen=True, slots=True, eq=False)
class WorkerTask:
    """Some batches of a score request, with nothing but what they need.

    Attributes:
        kind: class of the request.
        fields: fields of the request that are the same on every machine.
        table: name of the score in the store.
        newest: name of the newest part, behind which new ones sort.
        function: the model call, without the model.
        options: its keyword arguments.
        noise: noise images in place of the request's images.
        encoded: whether encoded images are cached.
        batches: positions in the pairs, batch by batch.
    """

    kind: type[ScoreRequest]
    fields: Mapping[str, Any]
    table: str
    newest: str
    function: Callable[..., Any]
    options: Mapping[str, Any]
    noise: NoiseImages | None
    encoded: bool
    batches: tuple[IntArray, ...]

    @classmethod
    def of(cls, request: ScoreRequest, batches: Sequence[IntArray]) -> WorkerTask:
        """Build the task of some batches of a request."""
        pairs = request.pairs[np.concatenate(batches)]
        call, source = request.call, request.make_image
        if not isinstance(call, partial) or not (source is None or isinstance(source, NoiseSource)):
            raise TypeError(f"{request.label} cannot be sent to another process")
        images, refs = tuple(request.image_ids), tuple[ImageRef, ...]()
        if request.refs:
            used, first = np.unique(pairs[:, 0], return_inverse=True)
            images = tuple(request.image_ids[i] for i in used.tolist())
            refs = tuple(request.refs[i] for i in used.tolist())
            pairs = np.stack([first, pairs[:, 1]], axis=1)
        captions, second = np.unique(pairs[:, 1], return_inverse=True)
        pairs = np.stack([pairs[:, 0], second], axis=1)
        ends = np.cumsum([len(batch) for batch in batches])
        return cls(
            kind=type(request),
            fields={
                "score": request.score,
                "label": request.label,
                "refs": refs,
                "image_ids": images,
                "texts": tuple(request.texts[j] for j in captions.tolist() if request.texts),
                "text_ids": tuple(request.text_ids[j] for j in captions.tolist()),
                "pairs": pairs,
            },
            table=request.table.score,
            newest=request.table.newest,
            function=call.func,
            options=dict(call.keywords),
            noise=None if source is None else source.noise,
            encoded=request.encoded is not None,
            batches=tuple(np.split(np.arange(len(pairs)), ends[:-1])),
        )

    def request(self, context: ScoringContext) -> ScoreRequest:
        """Build the request again, with the model and the store of a worker."""
        table = context.store.append_table(context.model.fingerprint, self.table, self.newest)
        return self.kind(
            context=context,
            table=table,
            call=partial(self.function, context.model, **self.options),
            make_image=None if self.noise is None else NoiseSource(context, self.noise),
            encoded=EncodedImageCache(context.model) if self.encoded else None,
            **self.fields,
        )


@dataclass(frozen=True, slots=True)
class TaskReport:
    """Report of a task: pairs that were tried, what was skipped, and an error of the user's."""

    tried: int = 0
    skips: Skips = field(default_factory=Skips)
    failure: str = ""


class RayWorker:
    """Worker: a model and a store in a process of its own."""

    def __init__(self, model: WorkerModel, store: Path | str, threads: int | None):
        self.recipe, self.store, self.threads = model, store, threads
        self.context: ScoringContext | None = None

    def load(self) -> TaskReport:
        """Load the model and open the store."""
        try:
            model = self.recipe.load()
            self.context = ScoringContext(
                model, AnswerStore(self.store), executor=LocalExecutor(self.threads)
            )
        except ContraposeError as error:
            return TaskReport(failure=str(error))
        return TaskReport()

    def score(self, task: WorkerTask) -> TaskReport:
        """Score the batches of a task, and write them as one part."""
        if self.context is None:
            raise RuntimeError("the model is not loaded")
        context = replace(self.context, skips=Skips())
        request = task.request(context)
        if request.refs:
            context.images.expect(request.image_ids, request.refs)
        total = len(request.pairs)
        try:
            with PartWriter(None, request.table, request.label, total) as writer:
                jobs = [(request, batch) for batch in task.batches]
                context.executor.run(jobs, lambda _, batch: writer.add(batch))
        except ContraposeError as error:
            return TaskReport(failure=str(error))
        return TaskReport(total, context.skips)


def _death_error(why: str) -> InputError:
    return InputError(f"{why}; what was scored is in the cache, and the same command goes on.")


def share_cores(nodes: Sequence[float], workers: int) -> float:
    """Cores of a worker, as many as let all workers find room on machines with so many cores."""
    for cores in range(int(max(nodes, default=0)), 0, -1):
        if sum(int(node // cores) for node in nodes) >= workers:
            return cores
    return sum(nodes) / workers or 1.0


@dataclass(slots=True, eq=False)
class RayExecutor:
    """Executor on Ray; its workers live until `close`.

    Attributes:
        model: the model that plans the work; requests of another model are run here.
        recipe: the workers' model.
        store: folder or URL that all machines see.
        workers: number of workers; None is one per GPU, or one per core, at most four.
        device: device of the workers, as the user gave it.
    """

    model: Model
    recipe: WorkerModel
    store: Path | str
    workers: int | None = None
    device: str = "auto"
    _ray: Any = None
    _started: bool = False
    _idle: list[Any] = field(default_factory=list)
    _loading: dict[Any, Any] = field(default_factory=dict)
    _deaths: int = 0
    _options: dict[str, float] = field(default_factory=dict)

    def run(self, jobs: Jobs[Any], keep: Keep[Any], upcoming: Jobs[Any] = ()) -> None:
        """Score the batches on the workers; `keep` gets how many were tried, in any order.

        Raises:
            InputError: the model's output is invalid, or workers die again and again.
        """
        requests = [work for work, _ in jobs if isinstance(work, ScoreRequest)]
        if len(requests) < len(jobs) or any(r.context.model is not self.model for r in requests):
            LocalExecutor().run(jobs, keep, upcoming)
            return
        if not jobs:
            return
        self._start()
        bundles = self._bundle(jobs)
        tasks = deque(bundles)
        deaths: Counter[int] = Counter()
        running: dict[Any, tuple[Any, tuple[ScoreRequest, list[IntArray]]]] = {}
        while tasks or running:
            while tasks and self._idle:
                worker, task = self._idle.pop(), tasks.popleft()
                running[worker.score.remote(WorkerTask.of(*task))] = worker, task
            waiting = [*running, *self._loading]
            reports, _ = self._ray.wait(waiting, num_returns=1, timeout=WAIT_SECONDS)
            if not reports:
                if not running:
                    self._require_room()
                continue
            ready = reports[0]
            if ready in self._loading:
                worker = self._loading.pop(ready)
                if self._result(ready) is not None:
                    self._idle.append(worker)
                continue
            worker, task = running.pop(ready)
            report = self._result(ready)
            if report is None:
                deaths[id(task)] += 1
                if deaths[id(task)] > MAX_TASK_DEATHS:
                    raise _death_error(f"{deaths[id(task)]} Ray workers died of the same batches")
                tasks.appendleft(task)
                continue
            self._deaths = 0
            self._idle.append(worker)
            skips = task[0].context.skips
            skips.images.update(report.skips.images)
            skips.texts.update(report.skips.texts)
            skips.pairs.update(report.skips.pairs)
            keep(task[0], ScoredBatch([], [], [], report.tried))
        for request in {id(request): request for request in requests}.values():
            request.table.read_new()

    def close(self) -> None:
        """End the workers, and the local Ray that was started for them."""
        if self._ray is None:
            return
        for worker in (*self._idle, *self._loading.values()):
            self._ray.kill(worker)
        self._idle, self._loading = [], {}
        if self._started:
            self._ray.shutdown()
        self._ray = None

    def _result(self, reference: Any) -> TaskReport | None:
        """Return a worker's report; None where the worker died, and another is started.

        Raises:
            InputError: the worker refuses, or too many have died.
        """
        errors = self._ray.exceptions
        try:
            report: TaskReport = self._ray.get(reference)
        except (errors.RayActorError, errors.ObjectLostError) as error:  # or a report with its node
            self._deaths += 1
            if self._deaths > 3 + 2 * (self.workers or 1):
                last = first_line(error).rstrip(".")
                raise _death_error(f"{self._deaths} Ray workers died in a row: {last}") from None
            self._add_worker()
            return None
        if report.failure:
            raise ModelError(report.failure)
        return report

    def _bundle(self, jobs: Jobs[Any]) -> list[tuple[ScoreRequest, list[IntArray]]]:
        """Put successive batches of a request together as tasks."""
        size = len(jobs) // (TASKS_PER_WORKER * (self.workers or 1))
        size = max(1, min(size, BATCHES_PER_TASK))
        tasks: list[tuple[ScoreRequest, list[IntArray]]] = []
        for work, batch in jobs:
            request: Any = work
            if not tasks or tasks[-1][0] is not request or len(tasks[-1][1]) == size:
                tasks.append((request, []))
            tasks[-1][1].append(batch)
        return tasks

    def _start(self) -> None:
        """Connect to Ray, or start it on this machine, and start the workers.

        Raises:
            MissingExtraError: Ray is not installed.
            InputError: there are no GPUs, and the device is one.
        """
        if self._ray is not None:
            return
        try:
            self._ray = import_module("ray")
        except ImportError:
            raise MissingExtraError("ray", "ray", f"{option('engine', 'ray')}") from None
        if not self._ray.is_initialized():
            self._ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            self._started = True
        resources = self._ray.cluster_resources()
        gpus, cores = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
        if self.device.startswith("cuda") and not gpus:
            raise InputError(
                f"{option('device', self.device)} needs a GPU, and this Ray cluster has none."
            )
        on_gpu = gpus > 0 and self.device.partition(":")[0] in ("auto", "cuda")
        if self.workers is None:
            self.workers = gpus if on_gpu else max(1, min(cores, MAX_DEFAULT_WORKERS))
        self._options = {"num_cpus": share_cores(self._node_cores(), self.workers)}
        self._options["max_restarts"] = 0
        if on_gpu:
            self._options["num_gpus"] = 1 / max(1, -(-self.workers // gpus))
        for _ in range(self.workers):
            self._add_worker()

    def _node_cores(self) -> list[float]:
        """Cores of each machine of the cluster that is there."""
        return [one["Resources"].get("CPU", 0.0) for one in self._ray.nodes() if one["Alive"]]

    def _require_room(self) -> None:
        """Raise `InputError` where all machines that are left are too small for a worker."""
        needed = self._options["num_cpus"]
        if not any(cores >= needed for cores in self._node_cores()):
            raise _death_error(f"no machine of the Ray cluster is left with {needed:g} cores")

    def _add_worker(self) -> None:
        threads = max(1, int(self._options["num_cpus"]))
        made = self._ray.remote(RayWorker).options(**self._options)
        worker = made.remote(self.recipe, self.store, threads)
        self._loading[worker.load.remote()] = worker
