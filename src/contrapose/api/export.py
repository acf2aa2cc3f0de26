"""`export`: a run in another program's format."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from contrapose.api.inputs import PathLike
from contrapose.api.runs import Run, Runs, load_runs
from contrapose.files import local_path


def export(
    run: Run | Runs | PathLike,
    *,
    out: PathLike,
    format: Literal["lm-eval", "mteb", "model-index", "fiftyone", "cirr", "circo", "eqben"] | str,  # noqa: A002 - the option's name
    time: str | datetime | None = None,
    overwrite: bool = False,
    root: PathLike | None = None,
) -> list[Path]:
    """Write a run's results as lm-eval or mteb would, or its submission to a benchmark's server.

    Args:
        run: a run, runs, or a run folder.
        out: the folder to write.
        format: `lm-eval` or `mteb`, for programs that read those; `model-index`, the YAML of a
            model card; `fiftyone`, a dataset of images with captions and outcomes; `cirr`, `circo`
            or `eqben`, the submission of a run of that benchmark.
        time: when the run was, such as `2026-01-31T12:00:00` (UTC), for names and dates; None is
            when the run folder was written.
        overwrite: let `out` take the place of an earlier export.
        root: folder of EqBen's annotations, for the order of its submission; None takes the one
            that the run was made with.

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
    from contrapose.results.exports import export_run, parse_time, require_export_target

    moment = parse_time(time) if isinstance(time, str) else time
    annotations = None if root is None else local_path(root)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        if isinstance(run, str | Path):
            folder = local_path(run)
        else:
            run.save(folder)
        beside = None
        if format == "fiftyone":
            from contrapose.report.fiftyone import fiftyone_files

            require_export_target(local_path(out), overwrite=overwrite)
            records = load_runs(folder) if isinstance(run, str | Path) else run
            beside = fiftyone_files([one.record for one in records])
        return export_run(
            folder,
            local_path(out),
            format,
            time=moment,
            overwrite=overwrite,
            root=annotations,
            beside=beside,
        )
