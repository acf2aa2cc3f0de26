"""Lazy exports of a package: a submodule is imported when one of its names is first used.

Type checkers see ordinary imports, Python sees a table:

    if TYPE_CHECKING:
        from contrapose.scores.answers import Answers as Answers, Frame as Frame
    else:
        __getattr__, __dir__, __all__ = lazy_exports(__name__, {"answers": "Answers Frame"})

A name that is also the name of a submodule must be imported at once, since Python binds the
submodule to it as soon as anything imports that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Build `__getattr__`, `__dir__` and `__all__` of a package.

    Args:
        package: its dotted name.
        modules: submodule → the names that it defines, separated by spaces.

    Raises:
        ValueError: a name is also the name of a submodule of the table.
    """
    sources = {name: module for module, names in modules.items() for name in names.split()}
    if clashes := sources.keys() & modules.keys():
        raise ValueError(f"{package}: {', '.join(sorted(clashes))} is a submodule too.")

    def get_attribute(name: str) -> Any:
        if name not in sources:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        value = getattr(import_module(f"{package}.{sources[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *sources})

    return get_attribute, list_names, sorted(sources)
