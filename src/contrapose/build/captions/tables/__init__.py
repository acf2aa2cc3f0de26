"""What the package knows of words, as data: facts in JSON, read once."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def table(name: str) -> Any:
    """A table of this folder."""
    return json.loads(files(__package__).joinpath(name).read_text("utf-8"))


def words(name: str) -> frozenset[str]:
    """A list of words, by its name in `words.json`."""
    return frozenset(table("words.json")[name].split())
