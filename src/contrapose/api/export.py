"""`export`: a run in another program's format."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from contrapose.api.inputs import PathLike
from contrapose.api.runs import Run, Runs
from contrapose.files import local_path


def export(
    run: Run | Runs | PathLike,
    *,
    out: PathLike,
    format: Literal["lm-eval", "mteb", "cirr", "circo"] | str,  # noqa: A002 - the option's name
    time: str | datetime | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write a run's results as lm-eval or mteb would, or its rankings for CIRR's or CIRCO's server.

    Args:
        run: a run, runs, or a run folder.
        out: the folder to write.
        format: `lm-eval` or `mteb`, for programs that read those; `cirr` or `circo`, the
            submission of a run of that benchmark.
        time: when the run was, such as `2026-01-31T12:00:00` (UTC), for names and dates; None is
            when the run folder was written.
        overwrite: let `out` take the place of an earlier export.

    Returns:
        The files, sorted.

    Raises:
        InputError: there is no such format, the folder holds no run, or `out` is taken.

    Example:
        >>> import contrapose as cp
        >>> run = cp.evaluate("tiny-clip", on="scenes/replace-color", limit=10)
        >>> len(cp.export(run, out="exported", format="mteb")) > 0
        True
    """
    from contrapose.results.exports import export_run, parse_time

    moment = parse_time(time) if isinstance(time, str) else time
    if isinstance(run, str | Path):
        return export_run(
            local_path(run), local_path(out), format, time=moment, overwrite=overwrite
        )
    with TemporaryDirectory() as folder:
        run.save(Path(folder) / "run")
        return export_run(
            Path(folder) / "run", local_path(out), format, time=moment, overwrite=overwrite
        )
