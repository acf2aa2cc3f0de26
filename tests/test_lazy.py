"""Lazy exports of packages, and how few modules a command imports."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import contrapose
from contrapose.lazy import lazy_exports

SOURCE = Path(contrapose.__file__).parent
PACKAGES = ("engine", "files", "metrics", "report", "results", "scores")


def _typed_names(package: str) -> dict[str, str]:
    """Exported name → submodule, as type checkers see them."""
    tree = ast.parse((SOURCE / package / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_types_and_table_list_the_same_names(package: str) -> None:
    module, names = import_module(f"contrapose.{package}"), _typed_names(package)
    assert sorted(names) == module.__all__
    assert set(names) <= set(dir(module))
    for name, source in names.items():
        assert getattr(module, name) is getattr(import_module(source), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'acuracy'"):
        _ = import_module("contrapose.metrics").acuracy
    assert not hasattr(import_module("contrapose.scores"), "nothing")


def test_a_name_of_a_submodule_is_refused() -> None:
    with pytest.raises(ValueError, match="audit is a submodule"):
        lazy_exports("contrapose.metrics", {"audit": "audit Audit"})


def test_parts_that_eval_may_not_need_are_imported_later() -> None:
    program = (
        "import sys, contrapose.api.evaluate, contrapose.report.evaluation, contrapose.cli.eval\n"
        "print(*(name for name in sys.modules if name.startswith('contrapose.')))"
    )
    run = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    names = set(run.stdout.split())
    unused = (
        "data.fetch", "data.downloads", "data.decoders", "data.video", "data.benchmarks",
        "engine.chat", "engine.composed", "engine.edits", "evaluation.chat", "evaluation.shards",
        "files.download", "report.audit", "report.explorer", "report.html", "results.compare",
        "results.debias", "results.runs", "results.score_files", "scores.files", "scores.logs",
        "models.endpoint.client", "search", "tune", "diagnose", "build",
    )  # fmt: skip
    assert not names & {f"contrapose.{name}" for name in unused}
    assert len(names) <= 110
