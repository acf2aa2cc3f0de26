"""Finding a benchmark by name: built in, from another package, or a file of the user's own."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
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
}
"""Benchmark name → module in `contrapose.data.benchmarks`, whose `BENCHMARK`, or entry in
`BENCHMARKS`, it is."""

OWN_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A card and the function that reads the files.

    Attributes:
        card: what it is.
        read: from the root folder to its data; malformed records go to the problems.
        submission: for benchmarks with an official submission of one flat array: the example id,
            image and caption that each of its scores is of.
    """

    card: Card
    read: Callable[[Path, Problems], Data]
    submission: Callable[[Path, Problems], Sequence[tuple[str, int, int]]] | None = None


def benchmark_names() -> tuple[str, ...]:
    """Every name that `find_benchmark` knows, sorted."""
    return tuple(sorted({*BUILT_IN, *_plugins()}))


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of this name, or the user's own file of examples.

    Raises:
        InputError: no such name; says which ones come near.
    """
    if name in BUILT_IN:
        module = import_module(f"contrapose.data.benchmarks.{BUILT_IN[name]}")
        found: Benchmark = (
            module.BENCHMARKS[name] if hasattr(module, "BENCHMARKS") else module.BENCHMARK
        )
        return found
    if name in _plugins():
        return _plugins()[name]
    if is_own(name):
        from contrapose.data.benchmarks.own import own_benchmark

        return own_benchmark(Path(name))
    near = difflib.get_close_matches(name, benchmark_names(), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "see contrapose list benchmarks."
    raise InputError(f"there is no benchmark {name!r}: {hint}")


def is_own(name: str) -> bool:
    """Whether the name is a file of the user's own examples."""
    return name not in benchmark_names() and name.lower().endswith(OWN_SUFFIXES)


@cache
def _plugins() -> dict[str, Benchmark]:
    found: dict[str, Benchmark] = {}
    for entry in entry_points(group="contrapose.benchmarks"):
        loaded = entry.load()
        if not isinstance(loaded, Benchmark):
            raise InputError(
                f"the plug-in benchmark {entry.name!r} ({entry.value}) is not a Benchmark."
            )
        found[entry.name] = loaded
    return found
