"""Run folders: request, score table, per-example values and results, on disk.

spec.json         the request, and for each run: model, benchmark, score, provenance; a digest of
                  every file but the report
scores.parquet    model, benchmark, score, example, image, text, value, match (absent where the
                  scores are the user's own matrix); of lm and blind logprobs, the log-probability
                  of each token; where a prior is removed, prior; of composed queries only the
                  ranked images, best first, with name and list (gallery or subset)
examples.parquet  model, benchmark, score, and a row an example: id, cluster, tags, captions where
                  they are known, and each metric's value, tie and chance
replies.parquet   of chat: model, benchmark, score, example, question, order, prompt, reply, and the
                  option chosen and the right one
results.json      the results, as the command prints them in JSON
report.html       the report, with every example; report-images: thumbnails that do not fit in

A folder of `contrapose metrics` has one run, of `contrapose eval` one a model, benchmark and score.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contrapose import __version__
from contrapose.errors import InputError, first_line
from contrapose.files import new_folder, require_free, restore_folder, write_bytes, write_text
from contrapose.results.measures import Measurements
from contrapose.results.run_files import (
    DAMAGE,
    EXAMPLES,
    REPLIES,
    RESULTS,
    SCORES,
    SPEC,
    damage_error,
    read_file,
    read_spec,
    read_table,
    write_spec,
    write_tables,
)
from contrapose.results.run_tables import (
    KEYS,
    SPEC_FIELDS,
    build_spec,
    examples_table,
    read_captions,
    read_measurements,
    read_rows,
    with_run_names,
)
from contrapose.results.schema import Evaluation, Results
from contrapose.results.tables import RunRecord

REPORT = "report.html"


def write_run(
    runs: RunRecord | Sequence[RunRecord],
    folder: Path,
    *,
    overwrite: bool = False,
    beside: Callable[[], Mapping[str, str | bytes]] | None = None,
) -> None:
    """Write a run folder atomically.

    Args:
        runs: one run of given scores, or all runs of one evaluation.
        folder: the folder to write.
        overwrite: let it replace an earlier run.
        beside: makes other files of the folder, by name; called while threads write the tables.

    Raises:
        InputError: the place is taken, and not by a run that may be overwritten.
    """
    require_run_target(folder, overwrite=overwrite)
    records = [runs] if isinstance(runs, RunRecord) else list(runs)
    spec: dict[str, Any] = {
        "contrapose": __version__,
        "request": _request_values(records[0].request),
        "runs": [],
    }
    start = 0
    for run in records:
        spec["runs"].append(build_spec(run, start))
        start += len(run.measured)
    given = len(records) == 1 and records[0].results.model is None  # scores of a file or of arrays
    results = records[0].results if given else build_evaluation(records)
    with new_folder(folder, overwrite=overwrite) as target:
        # They are encoded without Python's lock; one by one where there is other work meanwhile.
        names = (SCORES, EXAMPLES, REPLIES)
        with ThreadPoolExecutor(len(names) if beside is None else 1) as pool:
            jobs = [pool.submit(_write_tables, target, name, records) for name in names]
            others = {} if beside is None else beside()
            for job in jobs:
                job.result()
        write_text(target / RESULTS, results.model_dump_json(indent=2) + "\n")
        write_spec(target, spec)
        for name, content in others.items():
            write_bytes(target / name, content if isinstance(content, bytes) else content.encode())


def _write_tables(folder: Path, name: str, runs: Sequence[RunRecord]) -> None:
    """Write one file of tables of the runs that have such; none where no run has."""
    tables: list[dict[str, Any]] = []
    for run in runs:
        table = run.scores if name == SCORES else run.replies
        if name == EXAMPLES:
            table = examples_table(run)
        if table is not None:
            tables.append(with_run_names(run, table))
    if tables:
        write_tables(folder / name, tables)


def build_evaluation(runs: Sequence[RunRecord]) -> Evaluation:
    """Collect the results of several runs, as `contrapose eval` prints them in JSON."""
    return Evaluation(contrapose=__version__, runs=tuple(run.results for run in runs))


def require_run_target(folder: Path, *, overwrite: bool = False) -> None:
    """Check, before a run is made, that it can be written to this folder.

    Raises:
        InputError: the place is taken, and not by a run that may be overwritten.
    """
    require_free(folder, overwrite=overwrite)
    if folder.is_dir() and any(folder.iterdir()) and not is_run(folder):
        raise InputError("is not a run folder; it will not be overwritten.", file=folder)


def is_run(folder: Path) -> bool:
    """Whether the folder holds runs; an interrupted replacement of it is undone first."""
    restore_folder(folder)
    return (folder / SPEC).is_file() and (folder / EXAMPLES).is_file()


def split_choice(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Split a path into run folder and choice: `runs/a@tiny,lm` is the run of tiny and lm.

    Names of models hold slashes and revisions after `@`, so the folder ends at the first `@` that
    follows a run folder.
    """
    text = str(path)
    if is_run(path) or path.exists():
        return path, ()
    marks = [i for i, letter in enumerate(text) if letter == "@" and i]
    ends = [i for i in marks if is_run(Path(text[:i]))]
    ends += [i for i in marks if Path(text[:i]).is_dir() or "/" not in text[i:]]
    if not ends:
        return path, ()
    return Path(text[: ends[0]]), tuple(filter(None, text[ends[0] + 1 :].split(",")))


def matches_choice(names: Iterable[str | None], choice: Sequence[str]) -> bool:
    """Whether a run of these names is meant by the words after `@`.

    A name that holds commas was split into several words. Paths join doubled slashes, so a name
    may be written that way too.
    """
    known = {form for name in names if name for form in (name, str(Path(f"@{name}"))[1:])}

    def fits(words: Sequence[str]) -> bool:
        return not words or any(
            ",".join(words[:end]) in known and fits(words[end:]) for end in range(1, len(words) + 1)
        )

    return fits(choice)


def read_run(folder: Path, choice: Sequence[str] = ()) -> tuple[str, Measurements]:
    """Read the benchmark's name and the measures of the one run that is meant.

    Raises:
        InputError: as `read_measured`; or the choice fits several runs.
    """
    (result, measured), *others = read_measured(folder, choice)
    if others:
        raise _choice_error("several runs", read_results(folder), folder)
    return result.benchmark, measured


def read_measured(folder: Path, choice: Sequence[str] = ()) -> list[tuple[Results, Measurements]]:
    """Read results and measures of the runs of a folder, without their scores.

    Args:
        folder: the run folder.
        choice: the model, benchmark or score of the runs that are meant; none means all.

    Raises:
        InputError: the folder was written by another version, is damaged, or holds no such run.
    """
    import pyarrow as pa

    spec, results = read_spec(folder), read_results(folder)
    names = [tuple(getattr(run, key) for key in KEYS) for run in results]
    fits = [i for i, name in enumerate(names) if matches_choice(name, choice)]
    if not fits:
        raise _choice_error(f"no run of {','.join(choice)}", results, folder)
    try:
        table = read_table(folder, EXAMPLES, spec)
        return [(results[i], read_measurements(table, spec["runs"][i])) for i in fits]
    except (*DAMAGE, IndexError, pa.ArrowException) as error:
        raise damage_error(error, folder) from None


def read_runs(folder: Path) -> list[RunRecord]:
    """Read every run of a folder: what `write_run` was given, but for notes of the measures.

    Raises:
        InputError: the folder was written by another version, or is damaged.
    """
    import pyarrow as pa

    spec = read_spec(folder)
    results = read_results(folder)
    try:
        tables = {name: read_table(folder, name, spec) for name in (EXAMPLES, SCORES, REPLIES)}
        if len(spec["runs"]) != len(results):
            raise KeyError("results are missing")
        return [
            RunRecord(
                request=spec["request"],
                scores=read_rows(tables[SCORES], run),
                measured=read_measurements(tables[EXAMPLES], run),
                results=result,
                spec={name: value for name, value in run.items() if name not in SPEC_FIELDS},
                replies=read_rows(tables[REPLIES], run),
                captions=read_captions(tables[EXAMPLES], run),
            )
            for run, result in zip(spec["runs"], results, strict=True)
        ]
    except (*DAMAGE, pa.ArrowException) as error:
        raise damage_error(error, folder) from None


def read_results(folder: Path) -> tuple[Results, ...]:
    """Read the results of every run of a folder.

    Raises:
        InputError: the file is damaged, or of another version.
    """
    content = read_file(folder, RESULTS, read_spec(folder)) or b""
    try:
        if "runs" in json.loads(content):
            return Evaluation.model_validate_json(content).runs
        return (Results.model_validate_json(content),)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"is a damaged run folder ({RESULTS}: {first_line(error)}).", file=folder
        ) from None


def _choice_error(which: str, results: Sequence[Results], folder: Path) -> InputError:
    names = (filter(None, (getattr(run, key) for key in KEYS)) for run in results)
    shown = "; ".join(map(",".join, names))
    return InputError(f"holds {which}; pass {folder}@ and one of: {shown}.", file=folder)


def _request_values(request: Any) -> dict[str, Any]:
    """Options of a run by name; those of a run that was read are a mapping already."""
    return dict(request) if isinstance(request, Mapping) else asdict(request)
