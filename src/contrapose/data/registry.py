"""Finding a benchmark by name: built in, from another package, or a file of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from contrapose.data.card import Card
from contrapose.data.example import Example
from contrapose.data.gallery import EditSet, Gallery
from contrapose.errors import InputError
from contrapose.files import Problems
from contrapose.files.near import did_you_mean

Data = Iterable[Example] | Gallery | EditSet
"""What a reader gives: a stream of examples, one gallery, or one set of edit queries."""

BUILT_IN: dict[str, str] = {
    "winoground": "winoground",
    "sugarcrepe": "sugarcrepe",
    "eqben": "eqben",
    "eqben-mini": "eqben",
    "valse": "valse",
    "aro-relation": "aro",
    "aro-attribution": "aro",
    "aro-coco-order": "aro_order",
    "aro-flickr-order": "aro_order",
    "crepe": "crepe",
    "vl-checklist": "vl_checklist",
    "sugarcrepe-pp": "sugarcrepe_pp",
    "hard-positives-replace": "hard_positives",
    "hard-positives-swap": "hard_positives",
    "cola": "cola",
    "simat": "simat",
    "coco-retrieval": "retrieval",
    "flickr30k-retrieval": "retrieval",
    "class-folders": "classes",
    "scenes": "contrapose.world.benchmark",
    "scenes-skewed": "contrapose.world.benchmark",
}
"""Benchmark name → module, in `contrapose.data.benchmarks` unless it says otherwise, whose
`BENCHMARK`, or entry in `BENCHMARKS`, it is."""

_registered: dict[str, Benchmark | Suite] = {}

OWN_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A card and the function that reads the files.

    Attributes:
        card: what it is.
        read: from the root folder to its data; malformed records go to the problems.
        submission: for benchmarks with an official submission of one flat array: the example id,
            image and caption that each of its scores is of.
        generated: made by the program itself, so that no folder is needed.
    """

    card: Card
    read: Callable[[Path, Problems], Data]
    submission: Callable[[Path, Problems], Sequence[tuple[str, int, int]]] | None = None
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Suite:
    """Benchmarks of different shapes under one name, each measured by its own card.

    Attributes:
        name: what the user types; a part is called `name/part`.
        title: one line.
        parts: by name, in the order of the report.
    """

    name: str
    title: str
    parts: Mapping[str, Benchmark]


def register_benchmark(benchmark: Benchmark | Suite) -> None:
    """Make a benchmark known by its card's name, or a suite by its own.

    Raises:
        InputError: there is one of that name already.
    """
    name = benchmark.name if isinstance(benchmark, Suite) else benchmark.card.name
    if name in BUILT_IN or name in _plugins():
        raise InputError(f"there is a benchmark {name!r} already: give yours another name.")
    _registered[name] = benchmark


def benchmark_names() -> tuple[str, ...]:
    """Every name that `find_benchmark` knows, sorted."""
    return tuple(sorted({*BUILT_IN, *_registered, *_plugins()}))


def find_benchmark(name: str) -> Benchmark | Suite:
    """The benchmark or suite of this name, a suite's part, or the user's own file of examples.

    Raises:
        InputError: no such name; says which ones come near.
    """
    if name in BUILT_IN:
        place = BUILT_IN[name]
        module = import_module(place if "." in place else f"contrapose.data.benchmarks.{place}")
        found: Benchmark | Suite = (
            module.BENCHMARKS[name] if hasattr(module, "BENCHMARKS") else module.BENCHMARK
        )
        return found
    if name in _registered:
        return _registered[name]
    if name in _plugins():
        return _plugins()[name]
    whole, slash, part = name.partition("/")
    if slash and whole in benchmark_names() and isinstance(suite := find_benchmark(whole), Suite):
        if part in suite.parts:
            return suite.parts[part]
        raise InputError(f"{whole} has no part {part!r}: {did_you_mean(part, suite.parts)}")
    if is_own(name):
        from contrapose.data.benchmarks.own import own_benchmark

        return own_benchmark(Path(name))
    near = did_you_mean(name, benchmark_names(), otherwise="see contrapose list benchmarks.")
    raise InputError(f"there is no benchmark {name!r}: {near}")


def one_benchmark(name: str) -> Benchmark:
    """As `find_benchmark`, where a suite will not do.

    Raises:
        InputError: no such name, or it is a suite; names its parts.
    """
    found = find_benchmark(name)
    if isinstance(found, Suite):
        parts = ", ".join(f"{name}/{part}" for part in found.parts)
        raise InputError(f"{name} has parts of different shapes; name one of them: {parts}.")
    return found


def is_own(name: str) -> bool:
    """Whether the name is a file of the user's own examples."""
    return name not in benchmark_names() and name.lower().endswith(OWN_SUFFIXES)


@cache
def _plugins() -> dict[str, Benchmark | Suite]:
    found: dict[str, Benchmark | Suite] = {}
    for entry in entry_points(group="contrapose.benchmarks"):
        loaded = entry.load()
        if not isinstance(loaded, Benchmark | Suite):
            raise InputError(
                f"the plug-in benchmark {entry.name!r} ({entry.value}) is not a Benchmark."
            )
        found[entry.name] = loaded
    return found
