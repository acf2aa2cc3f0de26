"""Stores at places that fsspec reaches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from contrapose.engine import AnswerStore, ScoringContext, part_files, part_reader, score_examples
from contrapose.engine.part_origins import DamagedVectorsError
from contrapose.engine.storage import RemoteStorage
from contrapose.errors import DamageWarning, InputError, MissingExtraError, hide_credentials
from tests.fakes import Fake, pairs
from tests.store_urls import STORES, open_url


@pytest.fixture(params=STORES)
def url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    with open_url(request.param, tmp_path, monkeypatch) as opened:
        yield opened


@pytest.mark.parametrize("score", ["itc", "itm"])
def test_stores_at_urls(score: str, url: str) -> None:
    expected = score_examples(ScoringContext(Fake()), score, pairs()).scores
    assert np.array_equal(
        score_examples(ScoringContext(Fake(), AnswerStore(url)), score, pairs()).scores, expected
    )
    again = Fake()
    result = score_examples(ScoringContext(again, AnswerStore(url)), score, pairs()).scores
    assert np.array_equal(result, expected)
    assert not [*again.images, *again.texts, *again.pairs]


def test_parts_and_damage(url: str) -> None:
    one, two = AnswerStore(url), AnswerStore(url)
    one.table("m", "s").add(["a"], ["x"], {"value": np.array([1.0])})
    two.table("m", "s").add(["b"], ["x"], {"value": np.array([2.0])})
    shelf = AnswerStore(url).table("m", "s")
    assert shelf.values(shelf.find(["b", "a"], ["x", "x"])).tolist() == [2.0, 1.0]
    system, root = fsspec.core.url_to_fs(url)
    parts = system.find(root)
    assert len(parts) == 2
    assert all(part.endswith(".parquet") for part in parts)
    system.pipe_file(f"{root}/answers/m/s/.half.parquet", b"PAR1")
    assert len(AnswerStore(url).table("m", "s").find(["a"], ["x"])) == 1
    system.pipe_file(parts[0], b"PAR1")
    with pytest.warns(DamageWarning, match="damaged part of the cache.*set aside") as warned:
        rows = AnswerStore(url).table("m", "s").find(["a", "b"], ["x", "x"])
    assert sorted(rows.tolist()) == [-1, 0]
    assert str(warned[0].message).startswith(url)
    AnswerStore(url).table("m", "s").find(["a"], ["x"])


def test_vectors_at_urls_are_read_by_ranges(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files, "VECTOR_BLOCK_BYTES", 480)
    monkeypatch.setattr(part_reader, "TAIL_BYTES", 64)  # shorter than a footer
    vectors = np.random.default_rng(1).normal(size=(2000, 12)).astype(np.float32)
    names = [f"{i:032x}" for i in range(2000)]
    AnswerStore(url).table("m", "s").add(names, [""] * 2000, {"vector": vectors})
    table = AnswerStore(url).table("m", "s")
    storage = table.storage
    fetched: list[int] = []
    assert isinstance(storage, RemoteStorage)
    plain = storage.system.cat_ranges

    def watched(paths: list[str], starts: list[int], ends: list[int], **options: Any) -> Any:
        contents = plain(paths, starts, ends, **options)
        fetched.extend(map(len, contents))
        return contents

    monkeypatch.setattr(storage.system, "cat_ranges", watched)
    rows = table.find([names[0], names[999], "none"], [""] * 3)
    assert np.array_equal(table.values(rows[:2], "vector"), vectors[[0, 999]])
    assert rows[2] == -1
    assert sum(fetched) < vectors.nbytes
    system, root = fsspec.core.url_to_fs(url)
    (part,) = system.find(root)
    content = system.cat_file(part)
    at = content.index(vectors[1999].tobytes())
    system.pipe_file(part, content[:at] + b"\0\0\0\0" + content[at + 4 :])
    table = AnswerStore(url).table("m", "s")
    rows = table.find(names, [""] * 2000)
    assert np.array_equal(table.values(rows[:1900], "vector"), vectors[:1900])
    with (
        pytest.warns(DamageWarning, match="set aside"),
        pytest.raises(DamagedVectorsError, match="damaged part of the cache"),
    ):
        table.values(rows, "vector")
    assert (table.find(names, [""] * 2000) < 0).all()
    assert [name.rpartition(".")[2] for name in system.find(root)] == ["damaged"]


def test_empty_and_missing_parts_are_damaged_or_gone(url: str) -> None:
    table = AnswerStore(url).table("m", "s")
    for name in "ab":
        table.add([name], ["x"], {"value": np.array([1.0])})
    system, root = fsspec.core.url_to_fs(url)
    parts = sorted(system.find(root))
    system.pipe_file(parts[0], b"")
    with pytest.warns(DamageWarning):
        assert AnswerStore(url).table("m", "s").find(["a", "b"], ["x", "x"]).tolist() == [-1, 0]
    assert table.storage is not None
    gone = "0" * 20 + "-" + "0" * 16 + ".parquet"
    ranges = [(gone, -9, None), (parts[1].rpartition("/")[2], 0, 4)]
    assert table.storage.read_ranges(table.folder, ranges) == [b"", b"PAR1"]


def test_unusable_stores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"zzz://x cannot be opened .*not known"):
        AnswerStore("zzz://x")
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="the cache cannot be written"):
        AnswerStore(f"file://{tmp_path}/taken")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"\[remote\]"):
        AnswerStore("memory://x")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nowhere://key:secret@host/folder", "nowhere://***@host/folder"),
        ("nowhere://host/folder?token=secret&x=1", "nowhere://host/folder?token=***&x=1"),
        ("nowhere://host/f?X-Amz-Signature=secret", "nowhere://host/f?X-Amz-Signature=***"),
    ],
)
def test_credentials_of_a_cache_are_never_shown(url: str, shown: str) -> None:
    assert hide_credentials(url) == shown
    with pytest.raises(InputError) as ended:
        AnswerStore(url)
    assert "secret" not in str(ended.value)
    assert shown in str(ended.value)


def test_credentials_in_the_words_of_a_file_system() -> None:
    class Broken:
        protocol = "s3"

        def pipe_file(self, path: str, _: bytes) -> None:
            raise OSError(f"no access to s3://key:secret@bucket/{path}")

    storage = RemoteStorage("s3://bucket", Broken(), "bucket")
    with pytest.raises(InputError, match="no access") as ended:
        storage.write("a", "b", b"")
    assert "secret" not in str(ended.value)
