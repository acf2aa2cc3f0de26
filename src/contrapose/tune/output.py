"""The output folder of a tuning run: the model, and its log and checkpoints beside it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contrapose import __version__
from contrapose.data import Example
from contrapose.errors import InputError, MissingExtraError, first_line, option
from contrapose.files import (
    hold_folder,
    publish_folder,
    require_no_link,
    require_regular,
    restore_folder,
    temporary_folder,
    write_text,
)
from contrapose.files.syncing import sync_folder, sync_tree
from contrapose.results import RunRecord
from contrapose.results.records import build_record
from contrapose.results.tables import ScoreTable
from contrapose.tune.objective import parse_objective
from contrapose.tune.report import Bill, PanelMeasurements
from contrapose.tune.settings import HEADS, SCENES, TuneRequest
from contrapose.tune.trainer import TrainingResult

TRAINING_FOLDER = "training"
"""The folder beside the model that holds the log, checkpoints and the bill."""
REQUEST_FILE = "request.json"


@dataclass(frozen=True, slots=True)
class TuneResult:
    """Result of a tuning run.

    Attributes:
        out: the folder of the model, as `load_model` takes it.
        trained: how the training ended.
        bill: before and after; None in all processes but the first.
        records: the examples before and after, for each score.
    """

    out: Path
    trained: TrainingResult
    bill: Bill | None
    records: tuple[RunRecord, ...] = ()


def panel_records(
    model: str,
    source: str,
    measured: PanelMeasurements,
    tables: Mapping[str, ScoreTable],
    cases: Mapping[str, Example],
) -> list[RunRecord]:
    """Records of an evaluation on a panel, one for each score.

    Args:
        model: its name on the page.
        source: what it was evaluated on.
        measured: measures of each part; those of a matching head are named `itm/PART`.
        tables: scores, by `SCORE/PART`; none where they were not kept.
        cases: the examples by their ids in the tables.
    """
    records = []
    for score in ("itc", "itm"):
        parts = {
            name.removeprefix("itm/"): part
            for name, part in measured.items()
            if name.startswith("itm/") == (score == "itm")
        }
        if parts:
            kept = [tables[key] for name in parts if (key := f"{score}/{name}") in tables]
            records.append(build_record(source, model, score, parts, kept, cases=cases))
    return records


def request_as_dict(request: TuneRequest) -> dict[str, Any]:
    """JSON values of a request, stored beside the model."""
    objective = {"name": HEADS}
    if not request.for_heads:
        objective = parse_objective(request.objective).as_dict()
    of_scenes = request.data == SCENES
    return {
        "contrapose": __version__,
        "model": request.model,
        "data": request.data,
        "scenes": request.scenes if of_scenes else None,
        "world": request.world if of_scenes else None,
        "kinds": list(request.kinds),
        "objective": objective,
        "settings": request.settings.as_dict(),
        "heads": None if request.heads is None else asdict(request.heads),
        "teacher": request.teacher,
        "zero_shot": None if request.zero_shot is None else str(request.zero_shot),
        "guards": dict(request.guards),
        "best": request.best,
    }


def require_output(request: TuneRequest) -> None:
    """Check, before any work, that the output folder can be written.

    Raises:
        InputError: the folder is taken, or there is nothing of the kind to resume.
    """
    out = request.out
    restore_folder(out.resolve())
    require_no_link(_staging_folder(out))
    there = (working_folder(request) / TRAINING_FOLDER).is_dir()
    if request.resume:
        if not there:
            raise InputError(f"holds no run to resume: leave out {option('resume')}.", file=out)
        earlier = _read_objective(working_folder(request) / TRAINING_FOLDER / REQUEST_FILE)
        if earlier is not None and (earlier == HEADS) != request.for_heads:
            raise InputError(
                f"holds a run {option('losses', earlier)}: name that, or pass "
                f"{option('overwrite', True)}.",
                file=out,
            )
        return
    if out.exists() and not out.is_dir():
        raise InputError(
            f"is there already and is not a folder; choose another {option('out')}.", file=out
        )
    there = (out / TRAINING_FOLDER).is_dir()
    if out.is_dir() and any(out.iterdir()) and not (request.overwrite and there):
        what = f"choose another {option('out')}"
        if there:
            what = f"pass {option('resume', True)} to go on, or {option('overwrite', True)}"
        raise InputError(f"is not empty: {what}.", file=out)


def working_folder(request: TuneRequest) -> Path:
    """Folder that a run writes to: `out`, or one beside it while an earlier result is in `out`.

    The earlier result stays until `finish_output` replaces it. A run that was killed before is
    resumed in the folder beside `out`.
    """
    beside = _staging_folder(request.out)
    if request.resume:
        return beside if (beside / TRAINING_FOLDER).is_dir() else request.out
    earlier = request.overwrite and (request.out / TRAINING_FOLDER).is_dir()
    return beside if earlier else request.out


def finish_output(request: TuneRequest, work: Path, trained: TrainingResult) -> None:
    """Let a complete result take the place of an earlier one.

    Raises:
        InputError: it cannot be moved; it stays whole in `work`.
    """
    if work == request.out:
        return
    try:
        publish_folder(work, request.out.resolve(), overwrite=True)
    except OSError as error:
        raise InputError(
            f"cannot be replaced ({error.strerror or error}); the new result is whole in {work}.",
            file=request.out,
        ) from None
    if trained.best is not None:
        trained.best = request.out / trained.best.relative_to(work)


def _staging_folder(out: Path) -> Path:
    path = out.resolve()
    return path.parent / f".{path.name}-next"


def prepare_output(request: TuneRequest, kept: Collection[str] = ()) -> None:
    """Create the working folder and write the request.

    Args:
        request: of the run.
        kept: folders of an earlier run's training folder that the new one has too.

    Raises:
        InputError: it cannot be written.
    """
    work = working_folder(request)
    folder = work / TRAINING_FOLDER
    require_no_link(folder)
    try:
        if not request.resume:
            with hold_output(request, _staging_folder(request.out)):
                shutil.rmtree(_staging_folder(request.out), ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=request.resume)
        for name in kept:
            if not (folder / name).exists():
                earlier = request.out / TRAINING_FOLDER / name
                shutil.copytree(earlier, folder / name, copy_function=_link_file)
        write_text(folder / REQUEST_FILE, json.dumps(request_as_dict(request), indent=2) + "\n")
    except FileExistsError:
        raise InputError("another run has begun there meanwhile.", file=request.out) from None
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}).", file=request.out) from None


@contextmanager
def hold_output(request: TuneRequest, work: Path | None = None) -> Iterator[None]:
    """Hold the folder that a run writes to, so that no other run writes there at the same time.

    Args:
        request: of the run.
        work: the folder; None for the one that the request names now.

    Raises:
        InputError: another run is writing there.
    """
    with hold_folder((work or working_folder(request)) / TRAINING_FOLDER) as free:
        if not free:
            raise InputError(
                f"is being written by another run: wait for it, or choose another {option('out')}.",
                file=request.out,
            )
        yield


def _link_file(source: str, target: str) -> None:
    """Link a file, or copy it where links cannot be made."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def write_model(out: Path, write: Callable[[Path], None]) -> None:
    """Write the model's files, moved into place only when all are complete.

    Args:
        out: where they go.
        write: writes them into a folder that is there.

    Raises:
        InputError: there is no room for them.
    """
    try:
        with temporary_folder(out, "model") as folder:
            write(folder)
            sync_tree(folder)
            for file in sorted(folder.iterdir()):
                file.replace(out / file.name)
        sync_folder(out)
    except OSError as error:
        raise InputError(
            f"the model cannot be written ({error.strerror or error}); its checkpoints are whole: "
            f"make room and pass {option('resume', True)}.",
            file=out,
        ) from None


class TensorBoardWriter:
    """Event files for TensorBoard: losses and learning rate of every step, and the bill.

    A resumed run hides the steps that it does again. Without a folder nothing is written.
    """

    def __init__(self, folder: Path | None):
        """Require that event files can be written.

        Raises:
            MissingExtraError: tensorboard is not installed.
            InputError: the folder cannot be written.
        """
        self.folder = folder
        self._events: Any = None
        if folder is None:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("tensorboard", "tensorboard", option("tensorboard")) from None
        self._open: Callable[..., Any] = SummaryWriter
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._refuse(error) from None

    def write_step(self, step: int, losses: Mapping[str, float], rate: float) -> None:
        """Write the losses and the learning rate of a step."""
        if self.folder is not None:
            values = {f"loss/{name}": value for name, value in losses.items()}
            self._add(step, {**values, "learning_rate": rate})

    def write_bill(self, step: int, bill: Bill) -> None:
        """Write every metric of the bill, before as of step 0 and after as of the last step."""
        if self.folder is not None:
            self._add(0, {f"bill/{item.name}": item.before for item in bill.items})
            self._add(step, {f"bill/{item.name}": item.after for item in bill.items})
            self.close()

    def close(self) -> None:
        """Close the event file."""
        if self._events is not None:
            self._events.close()

    def _add(self, step: int, values: Mapping[str, float]) -> None:
        try:
            if self._events is None:
                purge = step if step > 1 else None
                self._events = self._open(log_dir=str(self.folder), purge_step=purge)
            for name, value in values.items():
                self._events.add_scalar(name, value, step)
        except OSError as error:
            raise self._refuse(error) from None

    def _refuse(self, error: OSError) -> InputError:
        return InputError(
            f"the event files cannot be written ({error.strerror or first_line(error)}); choose "
            f"another {option('tensorboard')}.",
            file=self.folder,
        )


def write_bill(out: Path, bill: Bill) -> None:
    """Write the bill beside the log."""
    write_text(out / TRAINING_FOLDER / "bill.json", json.dumps(bill.as_dict(), indent=2) + "\n")


def _read_objective(file: Path) -> str | None:
    """Objective of an earlier run, or None."""
    require_regular(file)
    try:
        said = json.loads(file.read_text(encoding="utf-8"))["objective"]["name"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return str(said)
