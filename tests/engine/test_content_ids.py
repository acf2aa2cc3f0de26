"""Content ids of image files: read once, and again whenever a file may have changed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from contrapose.data import Example, ImageRef, content_id
from contrapose.data.ref_columns import FileColumn
from contrapose.data.text_columns import TextColumn
from contrapose.engine import AnswerStore, ScoringContext, content_ids, score_examples
from contrapose.engine.content_ids import CONTENT_IDS, IMAGE_FILES, ContentIdReader
from contrapose.engine.shards import Shard
from contrapose.engine.store import AnswerTable
from contrapose.errors import DamageWarning, InputError
from contrapose.scores import Skip
from tests.fakes import Tower


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read; files that were just made count as settled."""
    names: list[str] = []

    def note(ref: ImageRef) -> str:
        assert ref.path is not None
        names.append(ref.path.name)
        return content_id(ref)

    monkeypatch.setattr(content_ids, "content_id", note)
    monkeypatch.setattr(content_ids, "SETTLED_SECONDS", -60.0)
    return names


def make(folder: Path, count: int = 4) -> list[ImageRef]:
    """Image files, the last of which holds no image."""
    folder.mkdir(exist_ok=True)
    refs = []
    for i in range(count):
        path = folder / f"{i}.png"
        Image.new("RGB", (3, 3), (i, 2 * i, 7)).save(path)
        refs.append(ImageRef(path.name, path))
    return refs


def reader(store: AnswerStore, **options: Any) -> content_ids.ContentIdReader:
    return ScoringContext(Tower(), store, **options).content_id_reader()


def test_a_file_is_read_once(tmp_path: Path, read: list[str]) -> None:
    refs = make(tmp_path / "images")
    expected = [content_id(ref) for ref in refs]
    assert reader(AnswerStore(tmp_path / "store")).content_ids(refs) == expected
    assert read == ["0.png", "1.png", "2.png", "3.png"]
    more = make(tmp_path / "images" / "more", 1)
    again = [refs[2], more[0], *refs]
    ids = list(reader(AnswerStore(tmp_path / "store")).content_ids(again))
    assert ids == [expected[2], content_id(more[0]), *expected]
    assert read[4:] == ["0.png"]  # the new one
    assert list(reader(AnswerStore(tmp_path / "store")).content_ids([])) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_a_column_of_files_is_known_as_a_list(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(content_ids, "count_workers", lambda *_: workers)
    refs = make(tmp_path / "images", 5)
    column = FileColumn(TextColumn.of([ref.key for ref in refs]), tmp_path / "images")
    expected = reader(AnswerStore(tmp_path / "store")).content_ids(refs)
    assert len(read) == 5
    hashed: list[tuple[list[ImageRef], list[str | Skip]]] = []
    known = ContentIdReader(
        AnswerStore(tmp_path / "store").table(IMAGE_FILES, CONTENT_IDS),
        hashed=lambda some, ids: hashed.append((list(some), list(ids))),
    )
    assert list(known.content_ids(column)) == list(expected)
    assert hashed == [(refs, list(expected))]
    assert len(read) == 5
    _write(tmp_path / "images" / "3.png")
    (tmp_path / "images" / "4.png").unlink()
    again = reader(AnswerStore(tmp_path / "store")).content_ids(column)
    assert read[5:] == ["3.png", "4.png"]
    assert [again[i] == expected[i] for i in range(5)] == [True, True, True, False, False]
    assert isinstance(again[4], Skip)


def test_every_run_reads_files_that_were_just_changed(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_ids, "SETTLED_SECONDS", 60.0)
    refs = make(tmp_path, 2)
    for _ in range(2):
        reader(AnswerStore(tmp_path / "store")).content_ids(refs)
    assert read == ["0.png", "1.png"] * 2
    assert not (tmp_path / "store" / "answers").exists()


def _write(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes()[:-1] + b"?")
    other.replace(path)


def _link(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes()[:-1] + b"?")
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize("change", [_write, _replace, _link])
def test_a_changed_file_is_read_whatever_its_size_and_time(
    change: Any, tmp_path: Path, read: list[str]
) -> None:
    refs = make(tmp_path / "images", 3)
    before = reader(AnswerStore(tmp_path / "store")).content_ids(refs)
    path = refs[1].path
    assert path is not None
    old = path.stat()
    change(path)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert path.stat().st_size == old.st_size
    assert path.stat().st_mtime_ns == old.st_mtime_ns
    after = reader(AnswerStore(tmp_path / "store")).content_ids(refs)
    assert read[3:] == ["1.png"]
    assert after[1] == content_id(refs[1]) != before[1]
    assert [after[0], after[2]] == [before[0], before[2]]


def test_crops_and_forms_of_a_file_have_ids_of_their_own(tmp_path: Path, read: list[str]) -> None:
    (ref,) = make(tmp_path / "images", 1)
    assert ref.path is not None
    refs = [
        ref,
        ImageRef("a", ref.path, crop=(0, 0, 2, 2)),
        ImageRef("b", ref.path, square=True),
        ImageRef("c", ref.path, channels="bgr"),
    ]
    expected = [content_id(one) for one in refs]
    assert len(set(expected)) == 4
    for _ in range(2):
        assert list(reader(AnswerStore(tmp_path / "store")).content_ids(refs)) == expected
    assert len(read) == 4


def test_relative_paths_are_of_their_folder(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, color in (("a", 1), ("b", 200)):
        (tmp_path / name).mkdir()
        Image.new("RGB", (3, 3), (color, 2, 7)).save(tmp_path / name / "x.png")
    ids: list[str | Skip] = []
    for name in ("a", "b", "a"):
        monkeypatch.chdir(tmp_path / name)
        ids += reader(AnswerStore(tmp_path / "store")).content_ids([ImageRef("x", Path("x.png"))])
    assert ids[0] == ids[2] != ids[1]
    assert len(read) == 2


def test_files_that_cannot_be_read_are_tried_again(tmp_path: Path, read: list[str]) -> None:
    refs = [*make(tmp_path, 1), ImageRef("gone", tmp_path / "gone.png"), ImageRef("d", tmp_path)]
    for _ in range(2):
        ids = reader(AnswerStore(tmp_path / "store")).content_ids(refs)
        assert ids[0] == content_id(refs[0])
        assert all(isinstance(name, Skip) for name in ids[1:])
    assert sorted(read) == sorted(["0.png", "gone.png", tmp_path.name, "gone.png", tmp_path.name])


def test_what_a_run_may_do_with_the_store(tmp_path: Path, read: list[str]) -> None:
    refs = make(tmp_path / "images", 2)
    store = tmp_path / "store"
    reader(AnswerStore(store), cache_use="only").content_ids(refs)
    assert not (store / "answers").exists()
    reader(AnswerStore(store)).content_ids(refs)
    reader(AnswerStore(store), cache_use="only").content_ids(refs)
    assert len(read) == 4
    reader(AnswerStore(store), cache_use="refresh").content_ids(refs)
    assert len(read) == 6
    memory = AnswerStore()
    for _ in range(2):  # two scores of one run
        reader(memory).content_ids(refs)
    assert len(read) == 8


def test_a_store_that_cannot_be_written_is_no_error(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = make(tmp_path / "images", 2)

    def refuse(*arguments: Any) -> None:
        raise InputError("the disk is full")

    monkeypatch.setattr(AnswerTable, "add_rows", refuse)
    for _ in range(2):
        ids = reader(AnswerStore(tmp_path / "store")).content_ids(refs)
        assert ids == [content_id(ref) for ref in refs]
    assert read == ["0.png", "1.png"] * 2


def test_each_shard_adds_a_share(tmp_path: Path, read: list[str]) -> None:
    refs = make(tmp_path / "images", 20)
    rows = []
    for number in (1, 2, 3):
        store = AnswerStore(tmp_path / str(number))
        reader(store, shard=Shard(number, 3)).content_ids(refs)
        rows.append(store.table(IMAGE_FILES, CONTENT_IDS).rows)
    assert sum(rows) == 20
    assert max(rows) < 20


def test_a_damaged_part_is_not_believed(tmp_path: Path, read: list[str]) -> None:
    refs = make(tmp_path / "images", 3)
    expected = reader(AnswerStore(tmp_path / "store")).content_ids(refs)
    (part,) = (tmp_path / "store").rglob("*.parquet")
    content = bytearray(part.read_bytes())
    for position in np.linspace(4, len(content) - 5, 23).astype(int).tolist():
        for old in part.parent.glob("*"):
            old.unlink()
        changed = bytearray(content)
        changed[position] ^= 1
        part.write_bytes(changed)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ids = reader(AnswerStore(tmp_path / "store")).content_ids(refs)
        assert ids == expected
        assert [warning.category for warning in said] == [DamageWarning]
    assert len(read) == 3 + 23 * 3


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.lists(st.integers(0, 9)))
def test_ids_are_those_of_the_contents(
    tmp_path_factory: pytest.TempPathFactory, first: list[int], second: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("images")
    refs = make(folder, 10)
    settled, content_ids.SETTLED_SECONDS = content_ids.SETTLED_SECONDS, -60.0
    try:
        handed: list[tuple[ImageRef, str | Skip]] = []

        def hand(some: Sequence[ImageRef], ids: Sequence[str | Skip]) -> None:
            handed.extend(zip(some, ids, strict=True))

        for asked in (first, second):
            some = [refs[i] for i in asked]
            context = ScoringContext(Tower(), AnswerStore(folder / "store"))
            handed.clear()
            expected = [content_id(ref) for ref in some]
            assert list(context.content_id_reader(hand).content_ids(some)) == expected
            assert sorted(handed, key=lambda pair: pair[0].key) == sorted(
                zip(some, expected, strict=True), key=lambda pair: pair[0].key
            )
    finally:
        content_ids.SETTLED_SECONDS = settled


def test_a_run_on_an_image_that_was_changed_scores_the_new_one(
    tmp_path: Path, read: list[str]
) -> None:
    refs = make(tmp_path / "images", 2)
    examples = [Example(ref.key, (ref,), ("a", "b b"), ((True, False),)) for ref in refs]
    model = Tower()
    score_examples(ScoringContext(model, AnswerStore(tmp_path / "store")), "itc", examples)
    assert refs[0].path is not None
    Image.new("RGB", (3, 3), (250, 250, 250)).save(refs[0].path)
    fresh = score_examples(ScoringContext(Tower()), "itc", examples)
    again = score_examples(ScoringContext(model, AnswerStore(tmp_path / "store")), "itc", examples)
    assert np.array_equal(again.scores, fresh.scores)
