"""Word tables of the package, as JSON files that are read once."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def load_table(name: str) -> Any:
    """Load a JSON table of this folder, cached."""
    return json.loads(files(__package__).joinpath(name).read_text("utf-8"))


def word_list(name: str) -> frozenset[str]:
    """Set of words under a name in `words.json`."""
    return frozenset(load_table("words.json")[name].split())
