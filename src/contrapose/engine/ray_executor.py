"""Executor on Ray: a pool of workers, each with its own model, that write to the shared store.

Ids, captions and references of images travel to the workers. They open the images, score whole
batches, and write the parts; what comes back is how many pairs were tried and which were skipped.
The work of a worker that dies, alone or with its machine, goes to another.

The pool is kept here and not by Ray Data's `map_batches`, whose actors end with each dataset: the
model would be loaded again for every score. It also cuts batches from blocks of rows; these batches
must be those of the plan, so that scores are equal to the byte, and their result is a part in the
store.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.cores import THREADS
from contrapose.engine.columns import ModelError, ScoredBatch
from contrapose.engine.context import ScoreRequest
from contrapose.engine.executor import Jobs, Keep, LocalExecutor
from contrapose.engine.ray_cluster import (
    MAX_PER_CORE,
    connect,
    let_ray_print,
    list_machines,
    share_cores,
    threads_of_workers,
)
from contrapose.engine.ray_workers import RayWorker, TaskReport, WorkerModel, WorkerTask
from contrapose.errors import (
    InputError,
    MissingExtraError,
    first_line,
    hide_credentials,
    option,
)
from contrapose.metrics import IntArray
from contrapose.models import Model

RayTask = tuple[ScoreRequest, list[IntArray]]
"""Task of a worker: a request and some of its batches."""

BATCHES_PER_TASK = 8
"""Batches that a worker scores before it writes a part and reports."""

TASKS_PER_WORKER = 4
"""Tasks of a worker at the least, so that the last ones end at about the same time."""

MAX_TASK_DEATHS = 3
"""Workers that may die of one task; a fourth would die too."""

WAIT_SECONDS = 20.0
"""Seconds without a report after which it is checked that a worker has room somewhere."""


def _death_error(why: str) -> InputError:
    return InputError(f"{why}; what was scored is in the cache, and the same command goes on.")


@dataclass(slots=True, eq=False)
class RayExecutor:
    """Executor on Ray; its workers live until `close`.

    Attributes:
        model: the model that plans the work; requests of another model are run here.
        recipe: the workers' model.
        store: folder or URL that all machines see.
        workers: number of workers; None is one per GPU, or one per machine.
        device: device of the workers, as the user gave it.
        shard: the shard whose share is scored, such as `2/8`; empty for none.
    """

    model: Model
    recipe: WorkerModel
    store: Path | str
    workers: int | None = None
    device: str = "auto"
    shard: str = ""
    _ray: Any = None
    _started: bool = False
    _idle: list[Any] = field(default_factory=list)
    _loading: dict[Any, Any] = field(default_factory=dict)
    _deaths: int = 0
    _options: dict[str, Any] = field(default_factory=dict)
    _per_gpu: int = 0
    _sent: Any = None

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
        tasks = self._bundle(jobs)
        self._check_idle()
        for _ in range(min(self.workers or 1, len(tasks)) - len(self._loading)):
            self._add_worker()
        running: dict[Any, tuple[Any, RayTask]] = {}
        try:
            written = self._run_tasks(tasks, running, keep)
        finally:
            self._kill(worker for worker, _ in running.values())  # of an error or an interrupt
        for request in {id(request): request for request in requests}.values():
            request.table.read_new()
            tried = np.concatenate([batch for work, batch in jobs if work is request])
            self._require_stored(request, tried, written[id(request)])

    def _run_tasks(
        self, bundles: Sequence[RayTask], running: dict[Any, tuple[Any, RayTask]], keep: Keep[Any]
    ) -> Counter[int]:
        """Run tasks on the workers; return by request how many scores they wrote.

        Args:
            bundles: the tasks.
            running: by the reference of a report the worker and its task, also when this raises.
            keep: gets how many pairs were tried.
        """
        tasks = deque(bundles)
        deaths: Counter[int] = Counter()
        written: Counter[int] = Counter()
        while tasks or running:
            while tasks and self._idle:
                worker, task = self._idle.pop(), tasks.popleft()
                running[worker.score.remote(WorkerTask.of(*task))] = worker, task
            waiting = [*running, *self._loading]
            reports, _ = self._ray.wait(waiting, num_returns=1, timeout=WAIT_SECONDS)
            if not reports:
                if not running:
                    self._find_room()
                continue
            ready = reports[0]
            if ready in self._loading:
                has_loaded = self._result(ready, self._loading[ready]) is not None
                worker = self._loading.pop(ready)
                if has_loaded:
                    self._idle.append(worker)
                continue
            report = self._result(ready, running[ready][0])
            worker, task = running.pop(ready)
            if report is None:
                self._check_idle()  # others may have died with the same machine
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
            written[id(task[0])] += report.written
            keep(task[0], ScoredBatch([], [], [], report.tried))
        return written

    def _require_stored(self, request: ScoreRequest, tried: IntArray, written: int) -> None:
        """Raise `InputError` where scores that workers have written are not in the store here."""
        lacking = written - int((request.find_rows(tried) >= 0).sum())
        if lacking > 0:
            store = self.store if isinstance(self.store, str) else self.store.absolute()
            raise InputError(
                f"the workers of Ray wrote to another store: {lacking:,} of {written:,} scores "
                f"({request.label}) are not in {hide_credentials(str(store))}, which all machines "
                "must see under this path."
            )

    def release(self) -> None:
        """End the workers, so that others have room; a later run starts new ones."""
        self._kill((*self._idle, *self._loading.values()))
        self._idle, self._loading = [], {}

    def close(self) -> None:
        """End the workers, and the local Ray that was started for them."""
        if self._ray is None:
            return
        self.release()
        if self._started:
            self._ray.shutdown()
            let_ray_print(True)
        self._ray, self._started = None, False

    def _kill(self, workers: Iterable[Any]) -> None:
        """End workers, also those that are dead."""
        for worker in workers:
            with suppress(self._ray.exceptions.RayError):  # the cluster itself may be gone
                self._ray.kill(worker)

    def _check_idle(self) -> None:
        """Wait for a sign of life of the idle workers before they get a task."""
        for worker in self._idle:
            self._loading[worker.load.remote()] = worker
        self._idle = []

    def _result(self, reference: Any, worker: Any) -> TaskReport | None:
        """Return a worker's report; None where the worker died, and another is started.

        Raises:
            InputError: the worker refuses, or too many have died.
            Exception: what the model has raised.
        """
        errors = self._ray.exceptions
        try:
            report: TaskReport = self._ray.get(reference)
        except errors.RayError as error:  # of its memory, its machine, or a report that was lost
            cause: Any = getattr(error, "cause", None)  # of its own code
            if isinstance(error, errors.RayTaskError) and not isinstance(cause, errors.RayError):
                raise cause from error
            self._deaths += 1
            if self._deaths > 3 + 2 * (self.workers or 1):
                last = first_line(error).rstrip(".")
                raise _death_error(f"{self._deaths} Ray workers died in a row: {last}") from None
            self._kill([worker])  # it may live, out of reach
            self._add_worker()
            return None
        if report.failure:
            raise ModelError(report.failure)
        return report

    def _bundle(self, jobs: Jobs[Any]) -> list[RayTask]:
        """Put successive batches of a request together as tasks."""
        size = len(jobs) // (TASKS_PER_WORKER * (self.workers or 1))
        size = max(1, min(size, BATCHES_PER_TASK))
        tasks: list[RayTask] = []
        for work, batch in jobs:
            request: Any = work
            if not tasks or tasks[-1][0] is not request or len(tasks[-1][1]) == size:
                tasks.append((request, []))
            tasks[-1][1].append(batch)
        return tasks

    def _start(self) -> None:
        """Connect to Ray, or start it on this machine, and share its cores and GPUs out.

        Raises:
            MissingExtraError: Ray is not installed.
            InputError: Ray cannot be reached, there are no GPUs, and the device is one, or there
                are too many workers.
        """
        if self._ray is not None:
            return
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise MissingExtraError("ray", "ray", f"{option('engine', 'ray')}") from None
        if not ray.is_initialized():
            connect(ray)
            self._started = True
        self._ray = ray
        machines = list_machines(ray)
        gpus = int(sum(machine.gpus for machine in machines))
        cores = sum(machine.cores for machine in machines)
        can_use_gpu = self.recipe.can_use_gpu(self.model)
        if can_use_gpu and self.device.startswith("cuda") and not gpus:
            raise InputError(
                f"{option('device', self.device)} needs a GPU, and this Ray cluster has none."
            )
        on_gpu = can_use_gpu and gpus > 0 and self.device.partition(":")[0] in ("auto", "cuda")
        if self.workers is None:
            self.workers = gpus if on_gpu else max(1, sum(one.cores >= 1 for one in machines))
        elif self.workers > MAX_PER_CORE * max(cores, 1):
            raise InputError(
                f"{option('workers', self.workers)} is too much for this Ray cluster of {cores:g} "
                f"cores: {int(MAX_PER_CORE * max(cores, 1)):,} at the most."
            )
        self._per_gpu = -(-self.workers // gpus) if on_gpu else 0
        self._options = {"num_cpus": share_cores(machines, self.workers, self._per_gpu)}
        self._options["max_restarts"] = 0
        if on_gpu:
            self._options["num_gpus"] = 1 / self._per_gpu
        else:  # sums in another number of threads round differently
            self._options["runtime_env"] = {"env_vars": {THREADS: str(threads_of_workers())}}
        self._sent = ray.put(self.recipe.send(ray.put))

    def _find_room(self) -> None:
        """Take smaller workers where no machine that is left has room for one.

        Raises:
            InputError: none has room for any.
        """
        machines = list_machines(self._ray)
        if any(one.count_workers(self._options["num_cpus"], self._per_gpu) for one in machines):
            return
        slots = sum(int(one.gpus) for one in machines) * self._per_gpu
        workers = min(self.workers or 1, slots) if self._per_gpu else self.workers or 1
        cores = share_cores(machines, max(1, workers), self._per_gpu)
        if not any(one.count_workers(cores, self._per_gpu) for one in machines):
            needed = f"{self._options['num_cpus']:g} cores{' and a GPU' if self._per_gpu else ''}"
            raise _death_error(f"no machine of the Ray cluster is left with {needed}")
        self._options["num_cpus"] = cores
        waiting, self._loading = list(self._loading.values()), {}
        self._kill(waiting)
        for _ in waiting:
            self._add_worker()

    def _add_worker(self) -> None:
        threads = max(1, int(self._options["num_cpus"]))
        made = self._ray.remote(RayWorker).options(**self._options)
        worker = made.remote(self._sent, self.store, threads, Path.cwd(), self.shard)
        self._loading[worker.load.remote()] = worker
