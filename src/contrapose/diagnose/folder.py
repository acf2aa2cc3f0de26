"""A diagnosis on disk.

diagnosis.json     what the command printed with --json
examples.parquet   a row a comparison and metric: model, score, example, metric, side, exchanged,
                   kept, right and wrong (positions from 0), cluster, the scores of right and wrong,
                   their dividends, and the sensitivity
dividends.parquet  a row a coalition: model, score, example, image, text, the regions and the words
                   in it, the score with these alone, and their dividend
report.html        the same to look at
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.model_diagnosis import ModelGames
from contrapose.diagnose.run import DiagnosisRun
from contrapose.diagnose.sensitivity import Comparisons
from contrapose.errors import InputError
from contrapose.files import new_folder, require_free, write_text
from contrapose.metrics.dividends import dividends, pattern_name

RESULTS, EXAMPLES, DIVIDENDS = "diagnosis.json", "examples.parquet", "dividends.parquet"

MAX_ROWS = 5_000_000
"""Coalitions beyond which they are not written out one by one."""

Columns = dict[str, Any]


def write_diagnosis(
    run: DiagnosisRun,
    folder: Path,
    *,
    overwrite: bool = False,
    beside: Mapping[str, str] | None = None,
) -> None:
    """Write the folder atomically.

    Args:
        run: what was found.
        folder: where.
        overwrite: let it take the place of an earlier diagnosis.
        beside: other files of the folder, by name.

    Raises:
        InputError: the place is taken, and not by a diagnosis that may be overwritten.
    """
    require_diagnosis_folder(folder, overwrite=overwrite)
    compared = [
        table
        for model in run.models
        for compared in model.diagnosis.comparisons.values()
        for table in _comparison_columns(model, compared)
    ]
    with new_folder(folder, overwrite=overwrite) as place:
        write_text(place / RESULTS, run.report.model_dump_json(indent=2) + "\n")
        _write_parquet(place / EXAMPLES, compared)
        if sum(model.counts.cells for model in run.report.models) <= MAX_ROWS:
            tables = [
                _coalition_columns(model, block) for model in run.models for block in model.played
            ]
            _write_parquet(place / DIVIDENDS, tables)
        for name, content in (beside or {}).items():
            write_text(place / name, content)


def require_diagnosis_folder(folder: Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that a diagnosis cannot be written to, before it is computed.

    Raises:
        InputError: the place is taken, and not by a diagnosis that may be overwritten.
    """
    require_free(folder, overwrite=overwrite)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RESULTS).is_file():
        raise InputError(
            "holds no diagnosis, and is not written over; choose another.", file=folder
        )


def _comparison_columns(model: ModelGames, compared: Comparisons) -> Iterator[Columns]:
    """Columns of one table per metric."""
    family = compared.family
    for place, key in enumerate(family.keys):
        rows = np.flatnonzero(compared.there[:, place])
        if not len(rows):
            continue
        yield {
            **_model_columns(model, len(rows)),
            "example": [compared.ids[row] for row in rows],
            "metric": [key] * len(rows),
            "side": [family.side] * len(rows),
            "exchanged": [family.exchanged] * len(rows),
            "kept": compared.kept[rows],
            "right": compared.right[rows],
            "wrong": compared.wrong[rows],
            "cluster": compared.clusters[rows],
            "score_right": compared.rewards[rows, 0],
            "score_wrong": compared.rewards[rows, 1],
            "dividend_right": compared.dividends[rows, 0, place],
            "dividend_wrong": compared.dividends[rows, 1, place],
            "sensitivity": compared.sensitivities[rows, place],
        }


def _coalition_columns(model: ModelGames, block: GameBlock) -> Columns:
    shape = block.values.shape
    example, image, text, seen, read = (each.reshape(-1) for each in np.indices(shape))
    regions = [pattern_name(block.image_players, each) for each in range(shape[3])]
    words = [pattern_name(block.text_players, each) for each in range(shape[4])]
    return {
        **_model_columns(model, block.values.size),
        "example": np.array(block.ids, dtype=object)[example],
        "image": image,
        "text": text,
        "regions": np.array(regions, dtype=object)[seen],
        "words": np.array(words, dtype=object)[read],
        "score_with": block.values.reshape(-1),
        "dividend": dividends(block.values).reshape(-1),
    }


def _model_columns(model: ModelGames, rows: int) -> Columns:
    return {"model": [model.model] * rows, "score": [model.score] * rows}


def _write_parquet(path: Path, tables: list[Columns]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if tables:
        pq.write_table(pa.concat_tables([_to_arrow(table) for table in tables]), path)


def _to_arrow(columns: Columns) -> Any:
    """Arrow table in which NaN is null."""
    import pyarrow as pa

    return pa.table({name: pa.array(each, from_pandas=True) for name, each in columns.items()})
