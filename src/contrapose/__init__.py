"""Contrapose measures, explains and repairs compositional understanding.

It asks one question of vision-language models in many ways: does the model notice the small
change, in a caption or in an image, that flips the meaning?

    import contrapose as cp

    run = cp.evaluate("tiny-clip", on="scenes", limit=20)
    run.metrics["average"].value

Every name below is imported when it is first used, so that `import contrapose` itself is quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contrapose import losses, metrics
    from contrapose.api.audit import audit
    from contrapose.api.build import build_pairs, build_scenes, build_triplets
    from contrapose.api.build_edits import build_edits, build_review
    from contrapose.api.build_features import build_features
    from contrapose.api.build_video import build_boundaries, build_graph, build_steps
    from contrapose.api.catalog import benchmarks, load_benchmark, load_model, models, scores
    from contrapose.api.check import check_data, check_model
    from contrapose.api.compare import compare, compare_all
    from contrapose.api.data import fetch_data, find_data, list_data, remove_data, verify_data
    from contrapose.api.diagnose import diagnose
    from contrapose.api.evaluate import evaluate
    from contrapose.api.explain import explain
    from contrapose.api.export import export
    from contrapose.api.import_logs import import_logs
    from contrapose.api.index import index, load_index
    from contrapose.api.measure import measure, measure_columns
    from contrapose.api.rank import rank
    from contrapose.api.runs import Run, Runs, load_run, load_runs
    from contrapose.api.search import search
    from contrapose.api.serve import serve
    from contrapose.api.tune import tune
    from contrapose.api.tune_heads import tune_heads
    from contrapose.api.view import view
    from contrapose.data.examples import Example
    from contrapose.data.images import ImageRef
    from contrapose.data.video_clips import VideoRef

__version__ = "0.1.0"

__all__ = [
    "Example",
    "ImageRef",
    "Run",
    "Runs",
    "VideoRef",
    "audit",
    "benchmarks",
    "build_boundaries",
    "build_edits",
    "build_features",
    "build_graph",
    "build_pairs",
    "build_review",
    "build_scenes",
    "build_steps",
    "build_triplets",
    "check_data",
    "check_model",
    "compare",
    "compare_all",
    "diagnose",
    "evaluate",
    "explain",
    "export",
    "fetch_data",
    "find_data",
    "import_logs",
    "index",
    "list_data",
    "load_benchmark",
    "load_index",
    "load_model",
    "load_run",
    "load_runs",
    "losses",
    "measure",
    "measure_columns",
    "metrics",
    "models",
    "rank",
    "remove_data",
    "scores",
    "search",
    "serve",
    "tune",
    "tune_heads",
    "verify_data",
    "view",
]

_MODULES = {
    "Example": "data.examples",
    "ImageRef": "data.images",
    "Run": "api.runs",
    "Runs": "api.runs",
    "VideoRef": "data.video_clips",
    "audit": "api.audit",
    "benchmarks": "api.catalog",
    "build_boundaries": "api.build_video",
    "build_features": "api.build_features",
    "build_graph": "api.build_video",
    "build_edits": "api.build_edits",
    "build_pairs": "api.build",
    "build_review": "api.build_edits",
    "build_scenes": "api.build",
    "build_steps": "api.build_video",
    "build_triplets": "api.build",
    "check_data": "api.check",
    "check_model": "api.check",
    "compare": "api.compare",
    "compare_all": "api.compare",
    "diagnose": "api.diagnose",
    "evaluate": "api.evaluate",
    "explain": "api.explain",
    "export": "api.export",
    "fetch_data": "api.data",
    "find_data": "api.data",
    "import_logs": "api.import_logs",
    "index": "api.index",
    "list_data": "api.data",
    "load_benchmark": "api.catalog",
    "load_index": "api.index",
    "load_model": "api.catalog",
    "load_run": "api.runs",
    "load_runs": "api.runs",
    "measure": "api.measure",
    "measure_columns": "api.measure",
    "models": "api.catalog",
    "rank": "api.rank",
    "remove_data": "api.data",
    "scores": "api.catalog",
    "search": "api.search",
    "serve": "api.serve",
    "tune": "api.tune",
    "tune_heads": "api.tune_heads",
    "verify_data": "api.data",
    "view": "api.view",
}
"""Public name → the module that defines it."""

_SUBPACKAGES = frozenset(("diagnose", "losses", "metrics", "models", "scores", "search", "tune"))
"""Public names that are subpackages too; those that are also functions can be called."""


def _public(name: str) -> Any:
    return getattr(import_module(f"contrapose.{_MODULES[name]}"), name)


class _CallableModule(ModuleType):
    """Subpackage that is also a function: `cp.models()` lists, `cp.models.register_model` is there.

    Python binds a subpackage to its name once anything imports it, so the name must mean both.
    """

    @property
    def __signature__(self) -> Any:
        from inspect import signature

        return signature(_public(self.__name__.rpartition(".")[2]))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return _public(self.__name__.rpartition(".")[2])(*arguments, **options)


class _Package(ModuleType):
    """The package itself; subpackages that share their name with a function become callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SUBPACKAGES and name in _MODULES and isinstance(value, ModuleType):
            value.__class__ = _CallableModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"contrapose.{name}")
    if name in _MODULES:
        value = _public(name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))
