"""The output folder of a tuning run: the model, and its log and checkpoints beside it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contrapose import __version__
from contrapose.errors import InputError, option
from contrapose.files import write_text
from contrapose.tune.objective import parse_objective
from contrapose.tune.report import Bill
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
    """

    out: Path
    trained: TrainingResult
    bill: Bill | None


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
    out, there = request.out, (request.out / TRAINING_FOLDER).is_dir()
    if request.resume:
        if not there:
            raise InputError(f"holds no run to resume: leave out {option('resume')}.", file=out)
        earlier = _read_objective(out / TRAINING_FOLDER / REQUEST_FILE)
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
    if out.is_dir() and any(out.iterdir()) and not (request.overwrite and there):
        what = f"choose another {option('out')}"
        if there:
            what = f"pass {option('resume', True)} to go on, or {option('overwrite', True)}"
        raise InputError(f"is not empty: {what}.", file=out)


def prepare_output(request: TuneRequest, kept: Collection[str] = ()) -> None:
    """Create the output folder, or empty it for a new run, and write the request.

    Args:
        request: of the run.
        kept: files of an earlier run's training folder that stay.

    Raises:
        InputError: it cannot be written.
    """
    folder = request.out / TRAINING_FOLDER
    try:
        if not request.resume and request.out.is_dir():
            for path in [*request.out.iterdir(), *(folder.iterdir() if folder.is_dir() else ())]:
                if path == folder or (path.parent == folder and path.name in kept):
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / REQUEST_FILE, json.dumps(request_as_dict(request), indent=2) + "\n")
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}).", file=request.out) from None


def write_model(out: Path, write: Callable[[Path], None]) -> None:
    """Write the model's files, moved into place only when all are complete.

    Args:
        out: where they go.
        write: writes them into a folder that is there.

    Raises:
        InputError: there is no room for them.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".model-", dir=out) as name:
            write(Path(name))
            for file in sorted(Path(name).iterdir()):
                file.replace(out / file.name)
    except OSError as error:
        raise InputError(
            f"the model cannot be written ({error.strerror or error}); its checkpoints are whole: "
            f"make room and pass {option('resume', True)}.",
            file=out,
        ) from None


def write_bill(out: Path, bill: Bill) -> None:
    """Write the bill beside the log."""
    write_text(out / TRAINING_FOLDER / "bill.json", json.dumps(bill.as_dict(), indent=2) + "\n")


def _read_objective(file: Path) -> str | None:
    """Objective of an earlier run, or None."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))["objective"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(said)
