"""The answer store: index, parts and tables; processes killed at any instant, and two at once."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.arrays import Ragged
from contrapose.engine import (
    AnswerStore,
    ScoringContext,
    default_store_folder,
    part_files,
    part_origins,
    part_reader,
    row_blocks,
    score_examples,
    score_tokens,
    storage,
    store,
)
from contrapose.engine.content_ids import CONTENT_IDS, IMAGE_FILES
from contrapose.engine.part_origins import DamagedVectorsError
from contrapose.engine.storage import FileRange, LocalStorage
from contrapose.errors import DamageWarning, InputError
from tests.engine.killed import Slow
from tests.engine.models import Reader
from tests.fakes import Fake, choices, number, pairs, seen
from tests.special_files import SPECIAL_FILES, make_special_file


def test_round_trip_over_parts_and_programs(tmp_path: Path) -> None:
    first, second = AnswerStore(tmp_path), AnswerStore(tmp_path)
    first.table("m", "itm:logit").add(["a", "b"], ["x", "x"], {"value": np.array([1.0, 2.0])})
    second.table("m", "itm:logit").add(["c"], ["x"], {"value": np.array([3.0])})
    shelf = AnswerStore(tmp_path).table("m", "itm:logit")
    rows = shelf.find(["c", "a", "a"], ["x", "x", "y"])
    assert (rows >= 0).tolist() == [True, True, False]
    assert shelf.values(rows[:2]).tolist() == [3.0, 1.0]
    assert AnswerStore(tmp_path).table("m", "lm").find(["a"], ["x"]).tolist() == [-1]
    parts = sorted(tmp_path.rglob("*.parquet"))
    assert len(parts) == 2
    assert pq.read_table(parts[0]).column_names == ["model", "score", "image", "text", "value"]


def test_vectors(tmp_path: Path) -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    AnswerStore(tmp_path).table("m", "itc").add(["a", "b"], ["", ""], {"vector": vectors})
    shelf = AnswerStore(tmp_path).table("m", "itc")
    assert np.array_equal(shelf.values(shelf.find(["b", "a"], ["", ""]), "vector"), vectors[::-1])


def vector_table(folder: Path, rows: int = 40, parts: int = 3) -> tuple[list[str], np.ndarray]:
    """Write vectors in some parts; return their ids and numbers."""
    vectors = np.random.default_rng(5).normal(size=(rows * parts, 3)).astype(np.float32)
    names = [f"{i:032x}" for i in range(len(vectors))]
    table = AnswerStore(folder).table("m", "itc")
    for k in range(0, len(names), rows):
        some = names[k : k + rows]
        table.add(some, [""] * rows, {"vector": vectors[k : k + rows]})
    return names, vectors


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of four vectors each."""
    monkeypatch.setattr(part_files, "VECTOR_BLOCK_BYTES", 48)
    monkeypatch.setattr(part_origins, "RUN_BYTES", 96)


@pytest.mark.usefixtures("small_blocks")
def test_vectors_are_read_for_the_rows_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, vectors = vector_table(tmp_path)
    read: list[tuple[str, int, int | None]] = []
    plain = LocalStorage.read_ranges

    def watched(self: LocalStorage, folder: str, ranges: list[FileRange]) -> list[bytes]:
        read.extend(ranges)
        return plain(self, folder, ranges)

    monkeypatch.setattr(LocalStorage, "read_ranges", watched)
    table = AnswerStore(tmp_path).table("m", "itc")
    wanted = [7, 41, 42, 43, 44, 6, 99, 7]
    rows = table.find([names[i] for i in wanted], [""] * len(wanted))
    read.clear()
    assert np.array_equal(table.values(rows, "vector"), vectors[wanted])
    assert sum((end or 0) - start for _, start, end in read) == 4 * 48  # rows 4–7, 40–47, 96–99
    every = table.find(names, [""] * len(names))
    assert np.array_equal(table.values(every, "vector"), vectors)
    assert np.isnan(table.values(np.array([-1, 3]), "vector")).all(axis=1).tolist() == [True, False]
    (part, *_) = sorted(tmp_path.rglob("*.parquet"))
    stored = pq.read_table(part)["vector"].to_pylist()  # other programs can read them
    assert np.array_equal(np.frombuffer(b"".join(stored), "<f4").reshape(-1, 3), vectors[:40])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("limit", [1 << 22, 20])
def test_a_damaged_vector_is_never_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(store, "TABLE_ROWS", limit)
    names, vectors = vector_table(tmp_path)
    newer = AnswerStore(tmp_path).table("m", "itc")
    newer.add(names[:10], [""] * 10, {"vector": -vectors[:10]})
    last = max(tmp_path.rglob("*.parquet"))
    good = bytearray(last.read_bytes())
    at = good.index((-vectors[5]).tobytes())
    last.write_bytes(good[: at + 2] + bytes([good[at + 2] ^ 4]) + good[at + 3 :])
    table = AnswerStore(tmp_path).table("m", "itc")
    assert table.find([names[1], names[8]], ["", ""]).tolist() == [121, 128]  # of other blocks
    damaged = table.find(names[:10], [""] * 10)
    assert np.array_equal(table.values(damaged[:1], "vector"), -vectors[:1])
    with (
        pytest.warns(DamageWarning, match="set aside"),
        pytest.raises(DamagedVectorsError, match="damaged part of the cache"),
    ):
        table.values(damaged, "vector")
    rows = table.find(names[:10], [""] * 10)
    assert rows.tolist() == list(range(10))  # the older ones
    assert np.array_equal(table.values(rows, "vector"), vectors[:10])
    assert last.with_name(last.name + ".damaged").exists()
    assert table.rows == 130  # numbers that were given out stay
    table.add(names[:1], [""], {"vector": 2 * vectors[:1]})
    assert table.find(names[:2], ["", ""]).tolist() == [130, 1]
    first = min(tmp_path.rglob("*.parquet"))
    first.write_bytes(first.read_bytes().replace(vectors[4].tobytes(), b"\0" * 12))
    with (
        pytest.warns(DamageWarning, match="set aside"),
        pytest.raises(DamagedVectorsError, match="damaged part of the cache"),
    ):
        table.values(rows, "vector")
    assert table.find(names[:10], [""] * 10).tolist() == [130, *[-1] * 9]


def test_many_vectors_fill_several_parts_and_leave_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "MAX_VECTOR_BYTES", 100)
    monkeypatch.setattr(part_origins, "RECENT_BYTES", 200)
    vectors = np.arange(60, dtype=np.float32).reshape(20, 3)
    names = [f"{i}" for i in range(20)]
    table = AnswerStore(tmp_path).table("m", "itc")
    table.add(names, [""] * 20, {"vector": vectors})
    assert len(list(tmp_path.rglob("*.parquet"))) == 3
    held = [origin.vectors.memory is not None for origin in table._origins if origin.vectors]
    assert held == [False, True, True]
    for some in (table, AnswerStore(tmp_path).table("m", "itc")):
        rows = some.find(names[::-1], [""] * 20)
        assert np.array_equal(some.values(rows, "vector"), vectors[::-1])


@settings(deadline=None, max_examples=12)
@given(st.data())
def test_a_large_table_holds_the_rows_that_were_asked_for(data: st.DataObject) -> None:
    pair = st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz"))
    parts = data.draw(st.lists(st.lists(pair, min_size=1, max_size=8), min_size=4, max_size=8))
    finds = data.draw(st.lists(st.lists(pair, min_size=1, max_size=5), min_size=1, max_size=12))
    known: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "TABLE_ROWS", 3)
        patch.setattr(store, "ROWS_PER_PAIR", 0)
        patch.setattr(store, "MAX_INDEXES", 2)
        patch.setattr(store, "MAX_SCANS", data.draw(st.sampled_from([1, 99])))
        writer = AnswerStore(folder).table("m", "s")
        for k, part in enumerate(parts):
            values = 100.0 * k + np.arange(len(part))
            writer.add([i for i, _ in part], [t for _, t in part], {"value": values})
            known |= dict(zip(part, values.tolist(), strict=True))
        table = AnswerStore(folder).table("m", "s")
        for k, wanted in enumerate(finds):
            if k == 2:
                table.add(["a"], ["new"], {"value": np.array([7.0])})
            if k == 4:
                writer.add(["b"], ["u"], {"value": np.array([8.0])})
                table.read_new()
                known["b", "u"] = 8.0
            rows = table.find([i for i, _ in wanted], [t for _, t in wanted])
            expected = [known.get(pair, float("nan")) for pair in wanted]
            assert table.values(rows).tolist() == pytest.approx(expected, nan_ok=True)
            if table._asked is not None:
                asked = {pair for some in finds[: k + 1] for pair in some}
                held = sum(map(len, table._held.join()))
                assert held <= sum(pair in asked for part in parts for pair in part) + 2
        assert table.rows_at_start == sum(map(len, parts))


def test_a_table_is_held_whole_when_much_of_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in {"TABLE_ROWS": 3, "ROWS_PER_PAIR": 4, "MANY_ROWS": 3}.items():
        monkeypatch.setattr(store, name, limit)
    names = [f"{i}" for i in range(20)]
    for i in range(0, 20, 5):
        table = AnswerStore(tmp_path).table("m", "s")
        table.add(names[i : i + 5], ["x"] * 5, {"value": np.arange(i, i + 5.0)})
    table = AnswerStore(tmp_path).table("m", "s")
    held = []
    for i in range(8):
        assert table.values(table.find([names[i], "none"], ["x", "x"]))[0] == i
        held.append(sum(map(len, table._held.join())))
    assert held == [1, 2, 3, 20, 20, 20, 20, 20]
    everything = AnswerStore(tmp_path).table("m", "s")
    assert everything.find(names, ["x"] * 20).tolist() == list(range(20))
    assert everything._asked is None


def test_in_memory() -> None:
    answers = AnswerStore(None)
    answers.table("m", "s").add(["a"], ["x"], {"value": np.array([1.0])})
    assert answers.table("m", "s").find(["a", "b"], ["x", "x"]).tolist() == [0, -1]


def test_rows_are_joined_when_they_are_read_and_not_at_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins = []
    join = row_blocks.join_blocks

    def count_rows(parts: list[row_blocks.Block]) -> row_blocks.Block:
        joins.append(len(parts))
        return join(parts)

    monkeypatch.setattr(row_blocks, "join_blocks", count_rows)
    shelf = AnswerStore(tmp_path).table("m", "s")
    for i in range(5):
        shelf.add([f"{i}"], ["x"], {"value": np.array([float(i)])})
    assert joins == []
    rows = shelf.find(["3", "1", "7"], ["x"] * 3)
    assert rows.tolist() == [3, 1, -1]
    assert joins == [5]


def test_parts_are_fetched_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(5):
        AnswerStore(tmp_path).table("m", "s").add([f"{i}"], ["x"], {"value": np.array([float(i)])})
    monkeypatch.setattr(part_reader, "ROWS_PER_FETCH", 2)
    shelf = AnswerStore(tmp_path).table("m", "s")
    rows = shelf.find([str(i) for i in range(6)], ["x"] * 6)
    assert shelf.values(rows)[:5].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert rows[5] == -1
    assert shelf.rows_at_start == 5


@pytest.mark.parametrize("limit", ["BLOCK_ROWS", "BLOCK_BYTES"])
def test_rows_in_several_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    draw = np.random.default_rng(3)
    newest: dict[tuple[str, str], float] = {}
    monkeypatch.setattr(row_blocks, limit, 7 if limit == "BLOCK_ROWS" else 300)
    monkeypatch.setattr(row_blocks, "PAIRS_PER_FIND", 9)
    shelf = AnswerStore(tmp_path).table("m", "s")
    for part in range(12):
        keys = [(f"{draw.integers(6)}", f"{draw.integers(5)}") for _ in range(3)]
        values = np.array([100.0 * part + i for i in range(3)])
        images, texts = zip(*keys, strict=True)
        shelf.add(images, texts, {"value": values})
        newest |= dict(zip(keys, values.tolist(), strict=True))
        if part % 4 == 2:
            shelf.find(["0"], ["0"])
    every = [(f"{i}", f"{j}") for i in range(7) for j in range(5)]
    images, texts = zip(*every, strict=True)
    for table in (shelf, AnswerStore(tmp_path).table("m", "s")):
        values = table.values(table.find(images, texts))
        assert len(table._held.blocks) > 2
        assert values.tolist() == pytest.approx(
            [newest.get(key, float("nan")) for key in every], nan_ok=True
        )


def test_a_part_says_which_shard_wrote_it(tmp_path: Path) -> None:
    for shard in ("1/4", "3/8", ""):
        table = AnswerStore(tmp_path, shard=shard).table("m", "s")
        table.add(["a"], [shard], {"value": np.array([1.0])})
    assert AnswerStore(tmp_path).table("m", "s").shard_count[1] == 8
    assert AnswerStore(tmp_path).table("m", "other").shard_count == ("", 0)


def test_unfinished_parts_are_not_read(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    store.table("m", "s").add(["a"], ["x"], {"value": np.array([1.0])})
    (part,) = tmp_path.rglob("*.parquet")
    part.with_name(".half.parquet").write_bytes(part.read_bytes()[:40])
    assert AnswerStore(tmp_path).table("m", "s").find(["a"], ["x"]).tolist() == [0]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1 nothing PAR1"])
def test_damaged_parts_are_named_and_set_aside(tmp_path: Path, content: bytes) -> None:
    AnswerStore(tmp_path).table("m", "s").add(["a"], ["x"], {"value": np.array([1.0])})
    (part,) = tmp_path.rglob("*.parquet")
    part.write_bytes(content)
    with pytest.warns(DamageWarning, match="damaged part of the cache.*set aside") as warned:
        assert AnswerStore(tmp_path).table("m", "s").find(["a"], ["x"]).tolist() == [-1]
    assert str(part) in str(warned[0].message)
    assert [file.name for file in part.parent.iterdir()] == [f"{part.name}.damaged"]
    again = AnswerStore(tmp_path).table("m", "s")
    again.add(["a"], ["x"], {"value": np.array([1.0])})
    assert again.find(["a"], ["x"]).tolist() == [0]


@pytest.mark.parametrize("column", ["value", "vector"])
@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("other", [("other", "s"), ("m", "t"), (IMAGE_FILES, CONTENT_IDS)])
def test_parts_of_another_table_are_not_used(
    tmp_path: Path,
    other: tuple[str, str],
    metadata: bool,
    column: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parts copied from another table are set aside; the model is in metadata, or in columns."""
    if not metadata:
        monkeypatch.setattr(part_files, "MODEL_KEY", b"none")
    values = np.array([1.0, 2.0]).reshape((2,) if column == "value" else (2, 1))
    tables = [AnswerStore(tmp_path).table(*names) for names in (("m", "s"), other)]
    for k, table in enumerate(tables):
        table.add(["a", f"b{k}"], ["x", "x"], {column: values + 2 * k})
    own, foreign = (next((tmp_path / table.folder).iterdir()) for table in tables)
    copied = own.with_name(foreign.name)
    copied.write_bytes(foreign.read_bytes())
    which = "model" if other[0] != "m" else "score"
    table = AnswerStore(tmp_path).table("m", "s")
    with pytest.warns(DamageWarning, match=f"another {which}.*set aside.*not used") as said:
        rows = table.find(["a", "b0", "b1"], ["x"] * 3)
    assert str(copied) in str(said[0].message)
    assert rows.tolist() == [0, 1, -1]
    assert table.values(rows[:2], column).ravel().tolist() == [1.0, 2.0]
    assert not copied.exists()
    assert AnswerStore(tmp_path).table("m", "s").find(["b1"], ["x"]).tolist() == [-1]


@pytest.mark.parametrize("number", ["9" * 20, "8" + "9" * 19])
def test_a_number_of_a_part_leaves_room_for_the_next(tmp_path: Path, number: str) -> None:
    AnswerStore(tmp_path).table("m", "s").add(["a"], ["x"], {"value": np.array([1.0])})
    (part,) = tmp_path.rglob("*.parquet")
    part.rename(part.with_name(number + part.name[20:]))
    for name in "bc":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamageWarning)
            table = AnswerStore(tmp_path).table("m", "s")
            table.add([name], ["x"], {"value": np.array([2.0])})
    table = AnswerStore(tmp_path).table("m", "s")
    assert (table.find(["b", "c"], ["x", "x"]) >= 0).all()


@pytest.mark.parametrize("at", ["open", "read"])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.ENOMEM, errno.ESTALE])
@pytest.mark.parametrize("column", ["value", "vector", "lists"])
def test_a_passing_fault_damages_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, number: int, column: str
) -> None:
    """What cannot be read now is no damage: one sentence, and the answers stay where they are."""
    columns: dict[str, np.ndarray | Ragged] = {
        "value": np.array([1.0]),
        "vector": np.array([[1.0]]),
        "lists": Ragged.of([[1]]),
    }
    AnswerStore(tmp_path).table("m", "s").add(["a"], ["x"], {column: columns[column]})
    (part,) = tmp_path.rglob("*.parquet")
    faults = [True]
    broken = "os.open" if at == "open" else "_read_bytes"
    real: Any = os.open if at == "open" else storage._read_bytes

    def read(*words: Any) -> Any:
        if faults:
            raise OSError(number, os.strerror(number))
        return real(*words)

    monkeypatch.setattr(f"contrapose.engine.storage.{broken}", read)
    for _ in range(2):
        with pytest.raises(InputError, match=r"cannot be read \(") as ended:
            AnswerStore(tmp_path, read_only=True).table("m", "s").find(["a"], ["x"])
        assert str(part) in str(ended.value)
    faults.clear()
    table = AnswerStore(tmp_path, read_only=True).table("m", "s")
    rows = table.find(["a"], ["x"])
    assert rows.tolist() == [0]
    faults.append(True)
    if column != "value":
        with pytest.raises(InputError, match=r"cannot be read \("):
            table.values(rows, column) if column == "vector" else table.lists(rows, column)
    assert part.exists()


@pytest.mark.parametrize(
    ("sound", "error"),
    [
        (0, pa.ArrowMemoryError("out of memory")),
        (0, OSError("Couldn't deserialize thrift: std::bad_alloc")),
        (1, MemoryError()),
        (1, pa.ArrowMemoryError("out of memory")),
        (1, OSError("zstd is not built")),
    ],
)
def test_low_memory_damages_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sound: int, error: Exception
) -> None:
    """Neither while the footer is read nor, once its digest has matched, while it is decoded."""
    AnswerStore(tmp_path).table("m", "s").add(["a"], ["x"], {"value": np.array([1.0])})
    calls: list[Exception | None] = [*[None] * sound, *[error] * 3]
    real = pq.ParquetFile

    def open_file(*words: Any, **options: Any) -> Any:
        if (fault := calls.pop(0) if calls else None) is not None:
            raise fault
        return real(*words, **options)

    monkeypatch.setattr(pq, "ParquetFile", open_file)
    with pytest.raises((MemoryError, InputError)):
        AnswerStore(tmp_path).table("m", "s").find(["a"], ["x"])
    calls.clear()
    assert AnswerStore(tmp_path).table("m", "s").find(["a"], ["x"]).tolist() == [0]


@pytest.mark.parametrize("kind", SPECIAL_FILES)
def test_what_is_no_file_is_no_part(tmp_path: Path, kind: str) -> None:
    """A pipe in the place of a part, which would never end, is set aside."""
    AnswerStore(tmp_path).table("m", "s").add(["a"], ["x"], {"value": np.array([1.0])})
    (part,) = tmp_path.rglob("*.parquet")
    other = part.with_name("0" * 20 + part.name[20:])
    make_special_file(other, kind)
    with pytest.warns(DamageWarning, match="set aside"):
        assert AnswerStore(tmp_path).table("m", "s").find(["a"], ["x"]).tolist() == [0]
    assert [name.name for name in part.parent.glob("*.parquet")] == [part.name]


@pytest.mark.parametrize("score", ["itc", "lm"])
def test_no_flipped_bit_changes_a_score(score: str, tmp_path: Path) -> None:
    expected = score_examples(ScoringContext(Fake(), AnswerStore(tmp_path)), score, pairs()).scores
    parts = sorted(tmp_path.rglob("*.parquet"))
    draw = random.Random(23)  # noqa: S311
    for part in parts:
        good = part.read_bytes()
        for at in [0, len(good) - 1, *(draw.randrange(len(good)) for _ in range(25))]:
            damaged = bytearray(good)
            damaged[at] ^= 1 << draw.randrange(8)
            part.write_bytes(damaged)
            model = Fake()
            with pytest.warns(DamageWarning, match=part.name):
                scores = score_examples(
                    ScoringContext(model, AnswerStore(tmp_path)), score, pairs()
                ).scores
            assert [*model.images, *model.texts, *model.pairs]
            assert np.array_equal(scores, expected)
            for file in part.parent.iterdir():
                file.unlink()
            part.write_bytes(good)


def test_a_clock_set_back_does_not_revive_old_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, now in ((1.0, 5 * 10**18), (2.0, 4 * 10**18), (3.0, 10**18)):
        monkeypatch.setattr("contrapose.engine.part_files.time.time_ns", lambda now=now: now)
        AnswerStore(tmp_path).table("m", "s").add(["a"], ["x"], {"value": np.array([value])})
        table = AnswerStore(tmp_path).table("m", "s")
        assert table.values(table.find(["a"], ["x"])).tolist() == [value]


def test_unsafe_names_have_distinct_folders(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    for name in ("a/b", "a:b", "a_b", "../a", "x" * 300):
        store.table("m", name).add(["i"], ["t"], {"value": np.array([1.0])})
    folders = list((tmp_path / "answers" / "m").iterdir())
    assert len(folders) == 5


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        AnswerStore(tmp_path / "file")
    with pytest.raises(InputError, match="cannot be written"):
        AnswerStore(tmp_path / "file" / "inside")


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_store_folder() == tmp_path / "contrapose"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_store_folder() == Path.home() / ".cache" / "contrapose"


def test_the_newest_answer_counts(tmp_path: Path) -> None:
    for value in (1.0, 2.0, 3.0):
        shelf = AnswerStore(tmp_path).table("m", "s")
        shelf.add(["a", "b"], ["x", "x"], {"value": np.array([value, -value])})
        assert shelf.values(shelf.find(["b", "a"], ["x", "x"])).tolist() == [-value, value]
    fresh = AnswerStore(tmp_path).table("m", "s")
    assert fresh.values(fresh.find(["a"], ["x"])).tolist() == [3.0]
    assert fresh.rows_at_start == 6
    names = [part.name for part in tmp_path.rglob("*.parquet")]
    assert len(set(names)) == 3


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.floats(-9, 9))),
    st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("xyzw"))),
    st.integers(1, 5),
)
def test_lookups_match_a_dictionary(
    added: list[tuple[str, str, float]], wanted: list[tuple[str, str]], size: int
) -> None:
    shelf = AnswerStore().table("m", "s")
    known: dict[tuple[str, str], float] = {}
    for start in range(0, len(added), size):
        some = added[start : start + size]
        images, texts, values = zip(*some, strict=True)
        shelf.add(images, texts, {"value": np.array(values)})
        known |= {(image, text): value for image, text, value in some}
    rows = shelf.find([image for image, _ in wanted], [text for _, text in wanted])
    result = shelf.values(rows)
    for pair, row, value in zip(wanted, rows, result, strict=True):
        assert (row >= 0) == (pair in known)
        assert value == known.get(pair) or (pair not in known and np.isnan(value))
    pairs = np.array([[0, 1], [2, 0]])
    named = shelf.find(("a", "q", "c"), ("x", "y"), pairs)
    assert (named >= 0).tolist() == [("a", "y") in known, ("c", "x") in known]


@pytest.mark.parametrize("cached", [True, False])
def test_every_token_of_every_pair(cached: bool, tmp_path: Path) -> None:
    examples = [*pairs(4), *choices(4)]
    answers = AnswerStore(tmp_path if cached else None)
    score_examples(ScoringContext(Fake(), answers), "lm", examples[:3])
    context = ScoringContext(Fake(), answers)
    lists, places = score_tokens(context, "lm", examples)
    scores = score_examples(context, "lm", examples).scores
    for k, example in enumerate(examples):
        for i, ref in enumerate(example.images):
            assert ref.source is not None
            shown = seen(type(ref.source).open_many([ref.source])[0])
            for j, text in enumerate(example.texts):
                tokens = lists[places[k, i, j]]
                words = [*text.split(), "."]
                expected = [-number(shown, word, n) for n, word in enumerate(words)]
                np.testing.assert_allclose(tokens, expected, atol=1e-6)
                assert tokens.dtype == np.float32
                assert tokens.mean() == pytest.approx(scores[k, i, j], abs=1e-6)
    if cached:
        again = Fake()
        fresh, _ = score_tokens(ScoringContext(again, AnswerStore(tmp_path)), "lm", examples)
        assert not again.pairs
        assert np.array_equal(fresh.values, lists.values)
        (first, *_) = sorted(tmp_path.rglob("*.parquet"))
        assert pq.read_schema(first).field("logprobs").type == pa.list_(pa.float32())


def test_blind_has_tokens_and_others_have_none() -> None:
    lists, places = score_tokens(ScoringContext(Reader()), "blind", pairs(2))
    assert len(lists[places[0, 1, 1]]) == len(pairs(2)[0].texts[1].split())
    with pytest.raises(InputError, match="'itm' has no token"):
        score_tokens(ScoringContext(Fake()), "itm", pairs(2))


def test_ragged_columns_are_read_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score_examples(ScoringContext(Fake(), AnswerStore(tmp_path)), "lm", pairs())
    read: list[list[str]] = []
    plain = pq.ParquetFile.read

    def watched(self: pq.ParquetFile, columns: list[str], **options: object) -> pa.Table:
        read.append(columns)
        return plain(self, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read", watched)
    context = ScoringContext(Fake(), AnswerStore(tmp_path))
    score_examples(context, "lm", pairs())
    assert read == [["image", "text"], ["value", "sum", "tokens"]]
    score_tokens(context, "lm", pairs())
    assert read[2:] == [["logprobs"]]


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    context = ScoringContext(Fake(), AnswerStore(tmp_path))
    score_examples(context, "lm", pairs(2))
    (part,) = tmp_path.rglob("*.parquet")
    part.write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match="damaged part of the cache"):
        score_tokens(context, "lm", pairs(2))


ROOT = Path(__file__).resolve().parents[2]


KILLS = 6


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Folder of the runs of `killed`, and how many kills came before the end."""
    folder = tmp_path_factory.mktemp("processes")
    draw = random.Random(7)  # noqa: S311
    delays = [str(draw.uniform(0.0, 0.12)) for _ in range(KILLS)]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "tests.engine.killed", str(folder), *delays],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, int(done.stdout.split()[-1])


def contents(run: Path) -> dict[str, bytes]:
    """The files of a run, but for the one that says where the cache was."""
    return {file.name: file.read_bytes() for file in run.iterdir() if file.name != "spec.json"}


def test_random_kills(processes: tuple[Path, int]) -> None:
    runs, hit = processes
    assert hit  # however fast the machine is
    assert contents(runs / "run") == contents(runs / "run-calm")
    # Every thing that was kept was kept once.
    for folder in (runs / "store" / "answers").glob("*/*"):
        rows = [
            (row["image"], row["text"])
            for part in folder.glob("[!.]*.parquet")
            for row in pq.read_table(part, columns=["image", "text"]).to_pylist()
        ]
        assert len(rows) == len(set(rows)) > 0


def test_a_killed_shard_of_three_at_once(processes: tuple[Path, int]) -> None:
    runs = processes[0]
    assert contents(runs / "run-sharded") == contents(runs / "run-calm")


def test_two_processes_at_once(processes: tuple[Path, int]) -> None:
    folder = processes[0] / "both"
    parts = list(folder.rglob("*.parquet"))
    assert len(parts) > 20
    assert all(pq.read_table(part).num_rows for part in parts)
    for score in ("itc", "itm", "lm"):
        model = Slow()
        result = score_examples(ScoringContext(model, AnswerStore(folder)), score, pairs()).scores
        assert not [*model.images, *model.texts, *model.pairs]
        assert np.allclose(
            result, score_examples(ScoringContext(Fake()), score, pairs()).scores, atol=1e-4
        )
