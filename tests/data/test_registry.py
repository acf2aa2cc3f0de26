"""Benchmarks are found by name: built in, plugged in, or a file of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contrapose.data import (
    Benchmark,
    Example,
    Suite,
    benchmark_names,
    find_benchmark,
    find_single_benchmark,
    is_user_file,
    register_benchmark,
    registry,
)
from contrapose.errors import InputError
from contrapose.files import Problems, did_you_mean
from tests.fakes import Entry


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    entries: list[Entry] = []

    def entry_points(group: str) -> list[Entry]:
        assert group == "contrapose.benchmarks"
        return entries

    monkeypatch.setattr(registry, "entry_points", entry_points)
    registry._plugins.cache_clear()
    yield entries
    registry._plugins.cache_clear()


def test_every_built_in_benchmark_is_there_under_its_name() -> None:
    assert len(benchmark_names()) >= 10
    for name in benchmark_names():
        result = find_benchmark(name)
        parts = [result] if isinstance(result, Benchmark) else list(result.parts.values())
        assert (result.name if isinstance(result, Suite) else result.card.name) == name
        for card in (part.card for part in parts):
            assert card.title
            assert card.paper
            assert card.license
            assert card.source
            assert card.layout
            assert all(0 <= chance < 1 for chance in card.chance.values())
            assert set(card.by) <= set(card.tags) | {"subset"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("winogroud", "winoground"),
        ("sugarcrep", "sugarcrepe"),
        ("sugarcrepe++", "sugarcrepe-pp"),
        ("coco-retrival", "coco-retrieval"),
        ("flickr30k", "flickr30k-retrieval"),
    ],
)
def test_did_you_mean(typed: str, meant: str) -> None:
    with pytest.raises(InputError, match="did you mean") as refused:
        find_benchmark(typed)
    assert meant in str(refused.value)


@pytest.mark.parametrize("known", [[], [""]])
def test_no_name_is_known(known: list[str]) -> None:
    """As where no example has a subset."""
    assert did_you_mean("x", known) == "there are none."


def test_names_like_none() -> None:
    with pytest.raises(InputError, match="see contrapose list benchmarks"):
        find_benchmark("zzzzqqq")


def test_plug_ins(plugged: list[Entry]) -> None:
    def read(root: Path, problems: Problems) -> list[Example]:
        return []

    card = replace(find_single_benchmark("winoground").card, name="mine")
    registry._plugins.cache_clear()
    plugged.append(Entry("mine", "package:MINE", Benchmark(card, read)))
    assert "mine" in benchmark_names()
    assert find_single_benchmark("mine").read is read
    with pytest.raises(InputError, match="did you mean mine"):
        find_benchmark("mines")


def test_a_plug_in_that_is_no_benchmark(plugged: list[Entry]) -> None:
    plugged.append(Entry("broken", "package:broken", "a string"))
    with pytest.raises(InputError, match=r"'broken' .*not a Benchmark"):
        find_benchmark("mine")


def test_files_are_benchmarks(tmp_path: Path) -> None:
    path = tmp_path / "mine.JSONL"
    path.write_text('{"images": ["a.png"], "texts": ["x", "y"], "right": 0}\n')
    assert is_user_file(str(path))
    assert not is_user_file("winoground")
    assert not is_user_file("notes.txt")
    assert find_single_benchmark(str(path)).card.name == str(path)
    with pytest.raises(InputError, match="does not exist"):
        find_benchmark(str(tmp_path / "none.csv"))


def test_registered_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    taken = find_single_benchmark("winoground")
    with pytest.raises(InputError, match="'winoground' already"):
        register_benchmark(taken)
    mine = Benchmark(replace(taken.card, name="mine"), taken.read)
    register_benchmark(mine)
    register_benchmark(Suite("ours", "Ours", {"mine": mine}))
    assert find_benchmark("mine") is mine
    assert find_benchmark("ours/mine") is mine
    assert {"mine", "ours"} <= set(benchmark_names())
    with pytest.raises(InputError, match="did you mean mine"):
        find_benchmark("mien")
