"""Columns of a run folder: as Arrow itself makes them, without looking at every value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contrapose.data import TagValue
from contrapose.results.run_files import array_column, write_tables
from contrapose.results.run_tables import _constant_column, _tag_column


@pytest.mark.parametrize(
    "values",
    [
        np.array([True, False, True] * 5),
        np.arange(10)[::2],
        np.array([1, 2], dtype=np.int32),
        np.array([0.5, np.nan, -np.inf]),
        np.array([0.5], dtype=np.float32),
        np.array(["a", "ä", ""], dtype=object),
        np.array(["a", None], dtype=object),
        np.array([None, None], dtype=object),
        np.zeros(0),
        np.zeros(0, dtype=object),
        np.array([1, "a"], dtype=object)[:1],
    ],
)
def test_arrays_as_columns(values: Any) -> None:
    made, expected = pa.table({"x": array_column(values)}), pa.table({"x": values})
    assert made.schema == expected.schema
    assert str(made["x"].to_pylist()) == str(expected["x"].to_pylist())


def test_one_text_for_all_rows() -> None:
    for text in ("model", "ä", "", None):
        column = _constant_column(text, 3)
        assert column.equals(pa.array([text] * 3, pa.string()))


@pytest.mark.parametrize("values", [("a", "", "ä"), ("a", ("b", "c"), ())])
def test_tags_as_lists(values: tuple[TagValue, ...]) -> None:
    lists = [list(value) if isinstance(value, tuple) else [value] for value in values]
    assert pa.array(_tag_column(values)).equals(pa.array(lists))


@pytest.mark.parametrize("folder", ["~", "gs:b"])
def test_folders_with_names_that_arrow_would_read_in_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir()
    write_tables(Path(folder, "a.parquet"), [{"x": [1]}])
    assert [path.name for path in (tmp_path / folder).iterdir()] == ["a.parquet"]
