"""Finding a model by name: built in, or from another package."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from contrapose.errors import InputError
from contrapose.models.capabilities import Model

GROUP = "contrapose.models"
"""Entry points of other packages: each is a function `(name, device) -> Model`."""

Loader = Callable[[str, str], Model]

BUILT_IN: dict[str, str] = {
    "tiny": "contrapose.models.tiny",
    "tiny-clip": "contrapose.models.tiny",
}
"""Model name → module whose `load(name, device)` gives it."""


def model_names() -> tuple[str, ...]:
    """Every name that `load_model` knows, sorted."""
    return tuple(sorted({*BUILT_IN, *_plugins()}))


def load_model(name: str, *, device: str = "cpu") -> Model:
    """The model of this name, on this device.

    Raises:
        InputError: no such name; says which ones come near.
    """
    if name in BUILT_IN:
        built_in: Loader = import_module(BUILT_IN[name]).load
        return built_in(name, device)
    plugin = _plugins().get(name)
    if plugin is None:
        near = difflib.get_close_matches(name, model_names(), n=3, cutoff=0.5)
        known = ", ".join(model_names())
        hint = f"did you mean {' or '.join(near)}?" if near else f"models here: {known}."
        raise InputError(f"there is no model {name!r}: {hint}")
    loader = plugin.load()
    model = loader(name, device) if callable(loader) else loader
    if not isinstance(model, Model):
        raise InputError(f"the plug-in model {name!r} ({plugin.value}) is not a model.")
    return model


@cache
def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
