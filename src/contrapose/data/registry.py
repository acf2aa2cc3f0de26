"""Registry of benchmarks: built-in, plug-in and user-file benchmarks by name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from contrapose.data.cards import Benchmark, Suite
from contrapose.errors import InputError
from contrapose.files import did_you_mean, local_path

BUILT_IN_MODULES: dict[str, str] = {
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
    "visla": "sugarcrepe_pp",
    "hard-positives-replace": "hard_positives",
    "hard-positives-swap": "hard_positives",
    "cola": "cola",
    "simat": "simat",
    "cirr": "cirr",
    "cirr-test": "cirr",
    "fashioniq": "fashioniq",
    "fashioniq-one-order": "fashioniq",
    "circo": "circo",
    "circo-test": "circo",
    "genecis-change-attribute": "genecis",
    "genecis-change-object": "genecis",
    "genecis-focus-attribute": "genecis",
    "genecis-focus-object": "genecis",
    "vsr": "vsr",
    "vsr-v2": "vsr",
    "vsr-v2-zeroshot": "vsr",
    "vsr-zeroshot": "vsr",
    "tifa160": "ratings",
    "dsg-tifa160": "ratings",
    "seetrue": "ratings",
    "genai-bench": "ratings",
    "predicate-noun": "predicate_noun",
    "naturalbench": "naturalbench",
    "naturalbench-retrieval": "naturalbench",
    "bivlc": "bivlc",
    "colorswap": "colorswap",
    "vismin": "vismin",
    "whatsup": "whatsup",
    "spec": "image_choices",
    "svo-probes": "image_choices",
    "imagecode": "image_choices",
    "mmvp-vlm": "mmvp",
    "mmvp": "mmvp",
    "negbench": "negbench",
    "negrefcocog": "negation",
    "cc-neg": "negation",
    "countbench": "countbench",
    "pope": "yes_no",
    "hallusionbench": "yes_no",
    "vilma": "video_foils",
    "vitatecs": "video_foils",
    "boundaries": "boundaries",
    "boundaries-segment": "boundaries",
    "coco-retrieval": "retrieval",
    "flickr30k-retrieval": "retrieval",
    "rococo": "retrieval",
    "class-folders": "classes",
    "scenes": "contrapose.world.benchmark",
    "scenes-skewed": "contrapose.world.benchmark",
    "simat-scenes": "contrapose.world.benchmark",
}
"""Benchmark name → module, in `contrapose.data.benchmarks` unless it says otherwise, whose
`BENCHMARK`, or entry in `BENCHMARKS`, it is."""

_registered: dict[str, Benchmark | Suite] = {}

USER_FILE_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


def register_benchmark(benchmark: Benchmark | Suite) -> None:
    """Register a benchmark by its card's name, or a suite by its own.

    Raises:
        InputError: there is one of that name already.
    """
    name = benchmark.name if isinstance(benchmark, Suite) else benchmark.card.name
    if name in BUILT_IN_MODULES or name in _plugins():
        raise InputError(f"there is a benchmark {name!r} already: give yours another name.")
    _registered[name] = benchmark


def benchmark_names() -> tuple[str, ...]:
    """List every name that `find_benchmark` knows, sorted."""
    return tuple(sorted({*BUILT_IN_MODULES, *_registered, *_plugins()}))


def find_benchmark(name: str) -> Benchmark | Suite:
    """Find the benchmark, suite, suite part or user file of this name.

    Raises:
        InputError: no such name; suggests close ones.
    """
    if name in BUILT_IN_MODULES:
        path = BUILT_IN_MODULES[name]
        module = import_module(path if "." in path else f"contrapose.data.benchmarks.{path}")
        built_in: Benchmark | Suite = (
            module.BENCHMARKS[name] if hasattr(module, "BENCHMARKS") else module.BENCHMARK
        )
        return built_in
    if name in _registered:
        return _registered[name]
    if name in _plugins():
        return _plugins()[name]
    outer, slash, part = name.partition("/")
    if slash and outer in benchmark_names() and isinstance(suite := find_benchmark(outer), Suite):
        if part in suite.parts:
            return suite.parts[part]
        raise InputError(f"{outer} has no part {part!r}: {did_you_mean(part, suite.parts)}")
    if is_user_file(name):
        from contrapose.data.benchmarks.user_file import load_user_benchmark

        return load_user_benchmark(local_path(name))
    near = did_you_mean(name, benchmark_names(), otherwise="see contrapose list benchmarks.")
    raise InputError(f"there is no benchmark {name!r}: {near}")


def find_single_benchmark(name: str) -> Benchmark:
    """Find a benchmark that is not a suite.

    Raises:
        InputError: no such name, or it is a suite; names its parts.
    """
    benchmark = find_benchmark(name)
    if isinstance(benchmark, Suite):
        parts = ", ".join(f"{name}/{part}" for part in benchmark.parts)
        raise InputError(f"{name} has parts of different shapes; name one of them: {parts}.")
    return benchmark


def is_user_file(name: str) -> bool:
    """Whether the name is a file of the user's examples."""
    return name not in benchmark_names() and name.lower().endswith(USER_FILE_SUFFIXES)


@cache
def _plugins() -> dict[str, Benchmark | Suite]:
    plugins: dict[str, Benchmark | Suite] = {}
    for entry in entry_points(group="contrapose.benchmarks"):
        loaded = entry.load()
        if not isinstance(loaded, Benchmark | Suite):
            raise InputError(
                f"the plug-in benchmark {entry.name!r} ({entry.value}) is not a Benchmark."
            )
        plugins[entry.name] = loaded
    return plugins
