"""Export of a run folder: files of lm-eval and mteb, model cards, FiftyOne, and submissions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast, get_args

from contrapose import __version__
from contrapose.errors import InputError
from contrapose.files import did_you_mean, new_folder, require_free, write_bytes
from contrapose.results.exports.lm_eval import LmEvalExport, lm_eval_exports
from contrapose.results.exports.model_index import model_index_files
from contrapose.results.exports.mteb import mteb_exports
from contrapose.results.exports.submissions import SUBMISSIONS, submission_files
from contrapose.results.exports.tasks import FolderRun, RunFolder, parse_time, read_run_folder

__all__ = [
    "FORMATS",
    "ExportFormat",
    "FolderRun",
    "LmEvalExport",
    "RunFolder",
    "export_run",
    "lm_eval_exports",
    "mteb_exports",
    "parse_format",
    "parse_time",
    "read_run_folder",
]


ExportFormat = Literal["lm-eval", "mteb", "model-index", "fiftyone", "cirr", "circo", "eqben"]
FORMATS: tuple[str, ...] = get_args(ExportFormat)

MARK = "export.json"
"""File that marks a folder as an export: nothing else is ever overwritten."""


def export_run(
    folder: Path,
    out: Path,
    format: str,  # noqa: A002 - the option's name
    *,
    time: datetime | None = None,
    overwrite: bool = False,
    root: Path | None = None,
    beside: Mapping[str, bytes] | None = None,
) -> list[Path]:
    """Export a run folder's results to the format of another program.

    Args:
        folder: the run folder.
        out: the folder to write.
        format: `lm-eval`, `mteb`, `model-index` or `fiftyone`; `cirr`, `circo` or `eqben` for the
            submission to its server.
        time: when the run was, for names and dates; left out, when the run folder was written.
        overwrite: let it take the place of an earlier export.
        root: folder of EqBen's annotations; None takes the one that the run was made with.
        beside: files of a format that needs the images, which a higher layer makes.

    Returns:
        The files, sorted.

    Raises:
        InputError: no such run, no such format, or the place is taken or cannot be written.
    """
    wanted = parse_format(format)
    require_export_target(out, overwrite=overwrite)
    source = read_run_folder(folder, time)
    if wanted in SUBMISSIONS:
        files = submission_files(folder, wanted, root)
    elif beside is not None:
        files = dict(beside)
    else:
        makers = {
            "lm-eval": _lm_eval_files, "mteb": _mteb_files, "model-index": model_index_files,
        }  # fmt: skip
        files = {name: text.encode() for name, text in makers[wanted](source).items()}
    mark = {"format": wanted, "contrapose": __version__, "time": source.time.isoformat()}
    files[MARK] = _dump_json(mark).encode()
    with new_folder(out, overwrite=overwrite) as target:
        for name, content in files.items():
            write_bytes(target / name, content)
    return sorted(out / name for name in files)


def parse_format(text: str) -> ExportFormat:
    """Parse the name of an export format.

    Raises:
        InputError: there is none of this name.
    """
    if text not in FORMATS:
        raise InputError(f"there is no format {text!r}: {did_you_mean(text, FORMATS)}")
    return cast(ExportFormat, text)


def require_export_target(out: Path, *, overwrite: bool = False) -> None:
    """Check, before an export is made, that it can be written to this folder.

    Raises:
        InputError: the place is taken, and not by an export that may be overwritten.
    """
    require_free(out, overwrite=overwrite)
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise InputError("is not an export; it will not be overwritten.", file=out)


def _lm_eval_files(source: RunFolder) -> dict[str, str]:
    files: dict[str, str] = {}
    for export in lm_eval_exports(source):
        files[f"{export.folder}/results_{export.stamp}.json"] = _dump_json(export.results)
        for task, lines in export.samples.items():
            name = f"{export.folder}/samples_{task}_{export.stamp}.jsonl"
            files[name] = "".join(
                json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines
            )
    return files


def _mteb_files(source: RunFolder) -> dict[str, str]:
    return {name: _dump_json(content) for name, content in mteb_exports(source).items()}


def _dump_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
