"""Files of a run folder, each with a digest in `spec.json`: a damaged file is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.arrays import Ragged
from contrapose.data import Example
from contrapose.data.example_columns import ExampleMap
from contrapose.data.text_columns import TextColumn
from contrapose.errors import InputError, first_line, shortage_error
from contrapose.files import arrow_path, digest, read_bytes, read_json, write_text

SPEC, SCORES, EXAMPLES, RESULTS = "spec.json", "scores.parquet", "examples.parquet", "results.json"

REPLIES = "replies.parquet"

LAYOUT = 3
"""Version of the folder's layout."""


def write_spec(folder: Path, spec: dict[str, Any]) -> None:
    """Write the request and the digests of the files that are in the folder, and of itself."""
    digests = {
        name: digest((folder / name).read_bytes())
        for name in (SCORES, EXAMPLES, REPLIES, RESULTS)
        if (folder / name).is_file()
    }
    content = {"layout": LAYOUT, **spec, "digests": digests}
    values = json.loads(json.dumps(content, default=str))
    values["digest"] = _spec_digest(values)
    write_text(folder / SPEC, json.dumps(values, indent=2) + "\n")


def read_spec(folder: Path) -> dict[str, Any]:
    """Read the request of a folder.

    Raises:
        InputError: the folder was written by another version, or the file is damaged.
    """
    spec = read_json(folder / SPEC)
    layout = spec.get("layout") if isinstance(spec, dict) else None
    if layout != LAYOUT:
        raise InputError(
            f"is a run folder of layout {layout}; this program reads {LAYOUT}.", file=folder
        )
    if spec.pop("digest", None) != _spec_digest(spec):
        raise _damaged_error(folder, SPEC)
    return dict(spec)


DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OSError)
"""Errors that a damaged folder causes."""


def damage_error(error: Exception, folder: Path) -> InputError:
    """Error of a folder whose files do not hold what their readers expect."""
    return shortage_error(error, folder) or InputError(
        f"is a damaged run folder ({first_line(error)}).", file=folder
    )


PROVENANCE = {"made": dict, "loaded": dict, "skipped": dict, "edits": dict, "fingerprint": str,
              "stored_as": str, "model_string": str, "skipped_candidates": dict}  # fmt: skip
"""Fields of a run's provenance that reports read, and their types."""


def check_entry(run: Any) -> None:
    """Check the types of a run's entry in the spec, as far as reports rely on them.

    Raises:
        TypeError: a field is of another type.
    """
    for name, kind in PROVENANCE.items():
        if not isinstance(run.get(name, kind()), kind):
            raise TypeError(f"{name} is no {kind.__name__}")
    if not isinstance(run.get("made", {}).get("versions", {}), dict):
        raise TypeError("versions is no dict")
    reasons = run.get("skipped", {})
    if not all(isinstance(why, str) for why in reasons.values()):
        raise TypeError("skipped holds no reasons")
    start, stop = run["rows"]
    if type(start) is not int or type(stop) is not int or not 0 <= start <= stop:
        raise TypeError("rows is no span")


def read_file(folder: Path, name: str, spec: dict[str, Any]) -> bytes | None:
    """Read a file of the folder; None where the run has no such file.

    Raises:
        InputError: it is damaged or missing.
    """
    wanted = spec["digests"].get(name)
    if wanted is None:
        return None
    try:
        content = read_bytes(folder / name)
    except OSError as error:
        raise shortage_error(error, folder) or InputError(
            f"is a damaged run folder ({name}: {error.strerror}).", file=folder
        ) from None
    if digest(content) != wanted:
        raise _damaged_error(folder, name)
    return content


def read_table(folder: Path, name: str, spec: dict[str, Any]) -> Any:
    """Read a table of the folder; None where the run has no such table.

    Raises:
        InputError: it is damaged or missing.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = read_file(folder, name, spec)
    if content is None:
        return None
    return pq.read_table(pa.BufferReader(content), page_checksum_verification=True)


def read_column(column: Any) -> Any:
    """Array of a column; ragged where it holds lists, of objects where it has nulls."""
    import pyarrow as pa

    if pa.types.is_list(column.type):
        return Ragged.from_arrow(column)
    if column.null_count:
        values = np.empty(len(column), dtype=object)
        values[:] = column.to_pylist()
        return values
    return column.to_numpy()


def array_column(values: Any) -> Any:
    """Arrow array of a NumPy array of numbers, truth values or texts; others as they are.

    The memory is shared where it can be, and Arrow does not import pandas to look at it.
    """
    import pyarrow as pa

    if not isinstance(values, np.ndarray) or values.ndim != 1:
        return values
    if values.dtype == np.bool_:
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    if values.dtype in (np.int32, np.int64, np.float64):
        kind = pa.from_numpy_dtype(values.dtype)
        buffer = pa.py_buffer(np.ascontiguousarray(values))
        return pa.Array.from_buffers(kind, len(values), [None, buffer])
    if values.dtype == object and len(values) and set(map(type, values)) == {str}:
        return TextColumn.of(values.tolist()).to_arrow().cast(pa.string())
    return values


def id_column(ids: Sequence[str], cases: Mapping[str, Example]) -> Any:
    """Arrow column of the ids of examples."""
    import pyarrow as pa

    known = isinstance(cases, ExampleMap) and cases.lists_exactly(ids)
    column = cases.columns.ids if known and isinstance(cases, ExampleMap) else TextColumn.of(ids)
    return column.to_arrow().cast(pa.string())


def caption_column(
    ids: Sequence[str],
    cases: Mapping[str, Example],
    captions: Mapping[str, tuple[str, ...]],
) -> Any:
    """Arrow column of the captions of examples, null where they are not known; None without any.

    Args:
        ids: of the examples.
        cases: the examples by id; may be empty.
        captions: their captions by id, where there are no cases.
    """
    import pyarrow as pa

    if isinstance(cases, ExampleMap) and cases.lists_exactly(ids):
        columns = cases.columns
        starts = array_column(columns.text_starts.astype(np.int32))
        return pa.ListArray.from_arrays(starts, columns.texts.to_arrow().cast(pa.string()))
    captions = {unit: case.texts for unit, case in cases.items()} or captions
    if not captions:
        return None
    return pa.array([captions.get(unit) for unit in ids], pa.list_(pa.string()))


def write_tables(path: Path, tables: Sequence[dict[str, Any]]) -> None:
    """Write stacked tables; columns that one of them lacks are null there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stacked = pa.concat_tables(map(pa.table, tables), promote_options="permissive")
    pq.write_table(stacked, arrow_path(path), compression="zstd", write_page_checksum=True)


def _spec_digest(spec: dict[str, Any]) -> str:
    return digest(json.dumps(spec).encode())


def _damaged_error(folder: Path, name: str) -> InputError:
    return InputError(
        f"is a damaged run folder ({name} is not as it was written); make the run again.",
        file=folder,
    )
