"""Writing an export: a folder, whole or not at all, that says what it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast, get_args

from contrapose import __version__
from contrapose.data import did_you_mean
from contrapose.errors import InputError
from contrapose.files import new_folder, require_free, write_text
from contrapose.results.exports.lm_eval import lm_eval_exports
from contrapose.results.exports.mteb import mteb_exports
from contrapose.results.exports.source import Source, read_source

ExportFormat = Literal["lm-eval", "mteb"]
FORMATS: tuple[str, ...] = get_args(ExportFormat)

MARK = "export.json"
"""Says of a folder that it is an export, so that --overwrite never takes anything else."""


def export_run(
    folder: Path,
    out: Path,
    format: str,  # noqa: A002 - the option's name
    *,
    time: datetime | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write a run folder's results in the shape of another program.

    Args:
        folder: the run folder.
        out: the folder to write.
        format: `lm-eval` or `mteb`.
        time: when the run was, for names and dates; left out, when the run folder was written.
        overwrite: let it take the place of an earlier export.

    Returns:
        The files, sorted.

    Raises:
        InputError: no such run, no such format, or the place is taken or cannot be written.
    """
    wanted = parse_format(format)
    require_export_place(out, overwrite=overwrite)
    source = read_source(folder, time)
    files = _lm_eval(source) if wanted == "lm-eval" else _mteb(source)
    mark = {"format": wanted, "contrapose": __version__, "time": source.time.isoformat()}
    files[MARK] = _json(mark)
    with new_folder(out, overwrite=overwrite) as place:
        for name, content in files.items():
            write_text(place / name, content)
    return sorted(out / name for name in files)


def parse_format(text: str) -> ExportFormat:
    """An export's format by name.

    Raises:
        InputError: there is none of this name.
    """
    if text not in FORMATS:
        raise InputError(f"there is no format {text!r}: {did_you_mean(text, FORMATS)}")
    return cast(ExportFormat, text)


def require_export_place(out: Path, *, overwrite: bool = False) -> None:
    """Say so when an export cannot be written here, before it is made.

    Raises:
        InputError: the place is taken, and not by an export that may be overwritten.
    """
    require_free(out, overwrite=overwrite)
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise InputError("is not an export; it will not be overwritten.", file=out)


def _lm_eval(source: Source) -> dict[str, str]:
    files: dict[str, str] = {}
    for export in lm_eval_exports(source):
        files[f"{export.folder}/results_{export.stamp}.json"] = _json(export.results)
        for task, lines in export.samples.items():
            name = f"{export.folder}/samples_{task}_{export.stamp}.jsonl"
            files[name] = "".join(
                json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines
            )
    return files


def _mteb(source: Source) -> dict[str, str]:
    return {name: _json(content) for name, content in mteb_exports(source).items()}


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
