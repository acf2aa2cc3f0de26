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
from contrapose.errors import DamageWarning, InputError, MissingExtraError
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
    with pytest.raises(MissingExtraError, match=r"contrapose\[remote\]"):
        AnswerStore("memory://x")
