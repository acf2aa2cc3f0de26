"""`import_logs`: other programs' logs of each item as runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from contrapose.api.inputs import PathLike, one_path, require_at_least
from contrapose.api.runs import Run, Runs
from contrapose.files import local_path


def import_logs(
    logs: PathLike | Iterable[PathLike],
    *,
    model: str | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    out: PathLike | None = None,
    overwrite: bool = False,
) -> Runs:
    """Read what other programs log of each item as runs, to be compared and ranked.

    Args:
        logs: samples of lm-eval or lmms-eval (`.jsonl`), logs of inspect (`.eval`, `.json`),
            predictions of mteb's image-text pair classification (`.json`), or result tables of
            VLMEvalKit (`.xlsx`, `.csv`, `.tsv`, `.json`).
        model: name of the model; None takes the log's.
        resamples: of the bootstrap.
        seed: of the bootstrap.
        out: a run folder to write.
        overwrite: let `out` take the place of an earlier run.

    Returns:
        A run for each task, and for each of its filters, scorers or subsets.

    Raises:
        InputError: a log cannot be read, or two are of the same model and task.

    Example:
        >>> import contrapose as cp
        >>> scores = [[[0.9, 0.1], [0.2, 0.8]]] * 20
        >>> import json, pathlib
        >>> log = {"mteb_model_meta": {"model_name": "clip"}, "default": {"test": scores}}
        >>> _ = pathlib.Path("Winoground_predictions.json").write_text(json.dumps(log))
        >>> cp.import_logs("Winoground_predictions.json")[0].metrics["group"].value
        1.0
    """
    from contrapose.results.imports import ImportRequest, import_runs

    require_at_least(100, resamples=resamples)
    require_at_least(0, seed=seed)
    target = one_path(out)
    if target is not None:
        Runs.require_target(target, overwrite=overwrite)
    paths = [logs] if isinstance(logs, str | Path) else list(logs)
    requests = [ImportRequest(local_path(path), model, resamples, seed) for path in paths]
    runs = Runs(Run(record) for record in import_runs(requests))
    if target is not None:
        runs.save(target, overwrite=overwrite)
    return runs
