"""Stores at places that fsspec reaches."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest

from contrapose.engine import AnswerStore, ScoringContext, score_examples
from contrapose.engine.storage import RemoteStorage
from contrapose.errors import DamageWarning, InputError, MissingExtraError, hide_credentials
from tests.fakes import Fake, pairs


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    name = uuid.uuid4().hex
    if request.param == "file":
        yield f"file://{tmp_path}/{name}"
        return
    yield f"memory://{name}/deep"
    fsspec.filesystem("memory").rm(f"/{name}", recursive=True)


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
