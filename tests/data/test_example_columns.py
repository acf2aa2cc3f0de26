"""Examples as columns: a sequence like a list of examples, in plans, frames and runs too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.data import example_columns, find_benchmark, in_memory_benchmark
from contrapose.data.cards import examples_card
from contrapose.data.example_columns import (
    ExampleColumns,
    ExampleMap,
    number_by_appearance,
    store_many,
)
from contrapose.data.text_columns import TextColumn
from contrapose.engine import plan_examples
from contrapose.errors import InputError
from contrapose.evaluation.selection import select
from contrapose.report.explorer.table import ExampleTable, RowKeys
from contrapose.scores import build_frame

RECORDS = [
    {"id": "a", "images": ["0.png", "1.png"], "texts": ["x", "y"],
     "match": [[True, False], [False, True]], "tags": {"subset": "s"}},
    {"id": "b", "images": ["2.png"], "texts": ["x", "z", "w"], "match": [[False, True, False]]},
    {"id": "c", "images": ["1.png", "2.png"], "texts": ["v"], "match": [[True], [False]],
     "tags": {"subset": "t"}},
    {"id": "d", "images": ["0.png", "1.png"], "texts": ["y", "y"],
     "match": [[True, False], [False, True]]},
]  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("columns")
    for i in range(3):
        Image.new("RGB", (8, 8), (90 * i, 7, 7)).save(folder / f"{i}.png")
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path


@pytest.fixture(scope="module")
def columns(file: Path) -> ExampleColumns:
    data = select(str(file)).parts[""][1]
    assert isinstance(data, ExampleColumns)
    return data


def test_a_sequence(columns: ExampleColumns) -> None:
    listed = list(columns)
    assert [example.id for example in listed] == ["a", "b", "c", "d"]
    assert columns[-1] == listed[3]
    assert columns[1:3] == listed[1:3]
    assert listed[2] in columns
    with pytest.raises(IndexError):
        columns[4]
    assert columns[3].images[0] is columns[0].images[0]


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [3, 1], [2], [1, 1]])
def test_a_selection_is_as_of_a_list(columns: ExampleColumns, chosen: list[int]) -> None:
    taken = columns.take(np.array(chosen))
    listed = [replace(columns[k], id=str(i)) for i, k in enumerate(chosen)]
    taken = replace(taken, ids=TextColumn.of([example.id for example in listed]))
    assert list(taken) == listed
    one, other = build_frame(taken), build_frame(listed)
    assert (one.ids, one.tags) == (other.ids, other.tags)
    assert list(one.texts or ()) == list(other.texts or ())
    assert one.image_keys == other.image_keys
    for name in ("match", "present", "clusters"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    plan, same = plan_examples(taken), plan_examples(listed)
    for name in ("images", "image_ids", "texts", "text_ids"):
        assert list(getattr(plan, name)) == list(getattr(same, name))
    assert np.array_equal(plan.pairs, same.pairs)
    assert np.array_equal(plan.pair_index, same.pair_index)
    names = {"name": "n", "title": "t", "source": "s"}
    assert examples_card(taken, **names) == examples_card(listed, **names)


def test_very_many_examples_are_stored_by_column(
    file: Path, columns: ExampleColumns, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = list(columns)
    assert store_many(listed) is listed
    monkeypatch.setattr(example_columns, "MANY_EXAMPLES", 4)
    stored = store_many(listed)
    assert isinstance(stored, ExampleColumns)
    assert list(stored) == listed
    for name in ("refs", "images", "image_starts", "text_starts", "matches", "match_index"):
        assert list(getattr(stored, name)) == list(getattr(columns, name))
    assert (stored.tags, stored.texts.ids[:]) == (columns.tags, columns.texts.ids[:])
    memory = in_memory_benchmark([replace(e, tags={"subset": "s"}) for e in listed], "m", "pairs")
    assert isinstance(select(memory, subsets=("s",)).parts[""][1], ExampleColumns)
    half = [replace(listed[0], id="\udc80"), *listed[1:]]
    assert store_many(half) is half


def test_two_equal_ids_are_refused(columns: ExampleColumns) -> None:
    with pytest.raises(InputError, match="'a'"):
        build_frame(replace(columns, ids=TextColumn.of(["a", "b", "a", "c"])))


def test_examples_by_id(columns: ExampleColumns) -> None:
    cases = ExampleMap(columns)
    assert dict(cases) == {example.id: example for example in columns}
    assert cases.shapes(["c", "b"]).tolist() == [[2, 1], [1, 3]]
    assert cases.lists_exactly(("a", "b", "c", "d"))
    assert not cases.lists_exactly(("a", "b", "d", "c"))
    assert not cases.lists_exactly(("a", "b", "c"))


def test_numbers_in_order_of_appearance() -> None:
    assert number_by_appearance(np.array([5, 2, 5, 0])).tolist() == [0, 1, 0, 2]
    assert number_by_appearance(np.array([0, 1, 0, 2])).tolist() == [0, 1, 0, 2]


def brightness(image: Image.Image, text: str) -> float:
    pixel = image.resize((1, 1)).getpixel((0, 0))
    return float(pixel[0]) * len(text) + ord(text[0])  # type: ignore[index]


def test_a_run_is_that_of_a_list(file: Path, columns: ExampleColumns, tmp_path: Path) -> None:
    listed = list(columns)
    family = find_benchmark(str(file)).card.family  # type: ignore[union-attr]
    memory = in_memory_benchmark(listed, str(file), family)
    runs = [cp.evaluate(brightness, on=on, resamples=100) for on in (str(file), memory)]
    assert runs[0].results.metrics == runs[1].results.metrics  # type: ignore[union-attr]
    one_table, other_table = (ExampleTable([run.record]) for run in runs)  # type: ignore[union-attr]
    assert isinstance(one_table.keys, RowKeys)
    assert list(one_table.keys) == list(other_table.keys)
    assert one_table.keys[1:] == list(other_table.keys)[1:]
    assert one_table.describe() == other_table.describe()
    for row in range(len(listed)):
        assert one_table.row(row) == other_table.row(row)
    for i, run in enumerate(runs):
        run.save(tmp_path / str(i))
    for name in ("scores", "examples"):
        one, other = ((tmp_path / str(i) / f"{name}.parquet").read_bytes() for i in (0, 1))
        assert one == other
    pages = [(tmp_path / str(i) / "report.html").read_text() for i in (0, 1)]
    assert pages[0].count("a.png") == pages[1].count("a.png")
    assert '"captions":["x","z","w"]' in pages[0].replace(" ", "")


def test_a_subset_and_a_limit_give_the_same_examples(file: Path, columns: ExampleColumns) -> None:
    assert list(select(str(file), subsets=("t",)).parts[""][1]) == [columns[2]]  # type: ignore[arg-type]
    assert next(iter(select(str(file), limit=1).parts[""][1])) == columns[0]  # type: ignore[arg-type]
