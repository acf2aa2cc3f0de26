"""Workers on Ray: a model and a store in a process of its own, and the tasks that are sent to it.

Ids, captions and references of images travel to a worker. It opens the images, scores whole
batches, and writes the parts.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.data import ImageRef
from contrapose.engine.columns import ScoredBatch
from contrapose.engine.context import ScoreRequest, ScoringContext
from contrapose.engine.executor import LocalExecutor
from contrapose.engine.images import EncodedImageCache
from contrapose.engine.part_writer import PartWriter
from contrapose.engine.priors import NoiseSource
from contrapose.engine.score_types import NoiseImages
from contrapose.engine.store import AnswerStore
from contrapose.errors import ContraposeError, InputError, first_line
from contrapose.files import include
from contrapose.metrics import IntArray
from contrapose.models import CardProvider, Model, PromptedCaptioner, load_model
from contrapose.scores import Skips

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
        sent: reference of Ray to the model itself, where it travels.
    """

    fingerprint: str
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    prompt: str | None = None
    files: tuple[str, ...] = ()
    model: Model | None = None
    sent: Any = None

    def send(self, put: Callable[[Any], Any]) -> WorkerModel:
        """Put the model itself where workers get it, when they have included its files.

        Raises:
            InputError: it cannot be sent.
        """
        if self.model is None:
            return self
        try:
            return replace(self, model=None, sent=put(self.model))
        except Exception as error:
            raise InputError(
                f"{self.model.name} cannot be sent to the workers of Ray ({first_line(error)}); "
                "give the name of a model, or FILE.py:CLASS."
            ) from error

    def load(self) -> Model:
        """Load the model.

        Raises:
            InputError: it cannot be loaded, or is another than the one that planned the work.
        """
        for file in self.files:
            include(file)
        model = self.model or self._receive() or load_model(self.name, **self.options)
        if self.prompt is not None and self.name and isinstance(model, PromptedCaptioner):
            model = model.with_prompt(self.prompt)
        if model.fingerprint != self.fingerprint:
            raise InputError(
                f"a Ray worker has loaded other weights under the name {model.name}; put the same "
                "files on all machines."
            )
        return model

    def _receive(self) -> Model | None:
        """Get the model that was sent; None where none was.

        Raises:
            InputError: its class is not to be found here.
        """
        if self.sent is None:
            return None
        ray: Any = import_module("ray")
        try:
            model: Model = ray.get(self.sent)
        except (ImportError, AttributeError, ray.exceptions.RayError) as error:
            raise InputError(
                f"a Ray worker on {socket.gethostname()} cannot make the model that was sent "
                f"({first_line(error)}); put its code on all machines."
            ) from error
        return model

    def can_use_gpu(self, planner: Model) -> bool:
        """Whether a worker's model computes on a GPU where it gets one.

        One that is loaded by name goes to the device, unless it has no weights, as that of a
        server. One that is sent stays on the device on which it lies.

        Args:
            planner: the model that plans the work.
        """
        if self.model is None:
            return not isinstance(planner, CardProvider) or planner.card.parameters > 0
        torch: Any = sys.modules.get("torch")
        networks = [
            value
            for value in getattr(self.model, "__dict__", {}).values()
            if torch is not None and isinstance(value, torch.nn.Module)
        ]
        return any(weight.is_cuda for network in networks for weight in network.parameters())


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
    """Report of a task.

    Attributes:
        tried: pairs that were tried.
        written: scores that were written to the store.
        skips: what was skipped.
        failure: an error of the user's.
    """

    tried: int = 0
    written: int = 0
    skips: Skips = field(default_factory=Skips)
    failure: str = ""


@contextmanager
def _errors_that_travel() -> Iterator[None]:
    """Let errors leave a worker: one that cannot be unpickled elsewhere becomes a plain one."""
    try:
        yield
    except ContraposeError:  # travels as words
        raise
    except Exception as error:
        try:
            pickle.dumps(copy(error))  # it is made anew from its arguments, as on the way
        except Exception:
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        raise


class RayWorker:
    """Worker: a model and a store in a process of its own.

    Args:
        model: the model.
        store: folder or URL of the store.
        threads: threads that decode images.
        folder: working folder of the process that plans the work, to which paths are relative.
        shard: the shard whose share is scored; its parts say so.
    """

    def __init__(
        self,
        model: WorkerModel,
        store: Path | str,
        threads: int | None,
        folder: Path | str = ".",
        shard: str = "",
    ):
        self.recipe, self.store, self.threads, self.folder = model, store, threads, folder
        self.shard = shard
        self.context: ScoringContext | None = None

    def load(self) -> TaskReport:
        """Load the model and open the store, once, in the working folder of the command."""
        if self.context is not None:
            return TaskReport()
        try:
            os.chdir(self.folder)
        except OSError as error:
            return TaskReport(
                failure=f"a worker of Ray cannot enter {self.folder} on {socket.gethostname()}, "
                f"where the command was started ({error.strerror}); start it in a folder that all "
                "machines see."
            )
        try:
            with _errors_that_travel():
                model = self.recipe.load()
            store = AnswerStore(self.store, shard=self.shard)
            self.context = ScoringContext(model, store, executor=LocalExecutor(self.threads))
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
        total, written = len(request.pairs), 0

        def keep(_: object, batch: ScoredBatch) -> None:
            nonlocal written
            written += len(batch.images)
            writer.add(batch)

        try:
            with (
                _errors_that_travel(),
                PartWriter(None, request.table, request.label, total) as writer,
            ):
                jobs = [(request, batch) for batch in task.batches]
                context.executor.run(jobs, keep)
        except ContraposeError as error:
            return TaskReport(failure=str(error))
        return TaskReport(total, written, context.skips)
