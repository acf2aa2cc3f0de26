"""The folder that a repair is written to: the model, and what belongs to its training."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from contrapose.errors import InputError
from contrapose.files import write_text
from contrapose.tune.bill import Bill
from contrapose.tune.objective import HEADS
from contrapose.tune.request import Request

TRAINING = "training"
"""The folder beside the model that holds the log, checkpoints and the bill."""
REQUEST = "request.json"


def require_place(request: Request) -> None:
    """Say so when a repair cannot be written where it should go, before any work.

    Raises:
        InputError: the place is taken, or there is nothing of the kind to resume.
    """
    out, there = request.out, (request.out / TRAINING).is_dir()
    if request.resume:
        if not there:
            raise InputError("holds no run to resume: leave out --resume.", file=out)
        earlier = _objective(out / TRAINING / REQUEST)
        if earlier is not None and (earlier == HEADS) != request.for_heads:
            raise InputError(
                f"holds a run --with {earlier}: name that, or pass --overwrite.", file=out
            )
        return
    if out.exists() and not out.is_dir():
        raise InputError("is there already and is not a folder; choose another --out.", file=out)
    if out.is_dir() and any(out.iterdir()) and not (request.overwrite and there):
        what = "pass --resume to go on, or --overwrite" if there else "choose another --out"
        raise InputError(f"is not empty: {what}.", file=out)


def make_place(request: Request, kept: Collection[str] = ()) -> None:
    """Make the folder, or empty it for a new run, and write down what was asked.

    Args:
        request: what was asked.
        kept: what of an earlier run's training is not thrown away.

    Raises:
        InputError: it cannot be written.
    """
    folder = request.out / TRAINING
    try:
        if not request.resume and request.out.is_dir():
            for each in [*request.out.iterdir(), *(folder.iterdir() if folder.is_dir() else ())]:
                if each == folder or (each.parent == folder and each.name in kept):
                    continue
                if each.is_dir() and not each.is_symlink():
                    shutil.rmtree(each)
                else:
                    each.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / REQUEST, json.dumps(request.as_dict(), indent=2) + "\n")
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}).", file=request.out) from None


def write_model(out: Path, write: Callable[[Path], None]) -> None:
    """The model's files, each moved to its place when all are whole.

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
            "make room and pass --resume.",
            file=out,
        ) from None


def write_bill(out: Path, found: Bill) -> None:
    """The bill, beside the log."""
    write_text(out / TRAINING / "bill.json", json.dumps(found.as_dict(), indent=2) + "\n")


def _objective(file: Path) -> str | None:
    """What an earlier run minimised, where that is known."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))["objective"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(said)
