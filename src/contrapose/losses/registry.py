"""Losses by name: the built-in ones, those of installed packages, and those of included files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from torch import Tensor

from contrapose.errors import InputError, first_line
from contrapose.files import did_you_mean
from contrapose.losses.batch import NEEDS, LossBatch

ENTRY_POINT_GROUP = "contrapose.losses"


class Loss(Protocol):
    """A loss of one batch; `register_loss` makes it known to `contrapose tune` by its name.

    Optional class attributes: `implied` (add it to every objective of a model that has what it
    needs), `contrastive` (it takes the place of the model's contrastive loss), `match_label` (the
    label of its captions, 0 or 1, for a model that judges pairs), `on_match_scores` (a method that
    gives its form for the match scores of such a model).
    """

    name: ClassVar[str]
    weight: ClassVar[float]
    """Default weight in an objective."""
    needs: ClassVar[frozenset[str]]
    """What it needs beyond images and captions: keys of `NEEDS`."""

    def __call__(self, batch: LossBatch, /) -> Tensor:
        """The loss of the whole batch, over all processes; a number with gradients."""


LossFactory = Callable[[], Loss]
T = TypeVar("T", bound=LossFactory)

_FACTORIES: dict[str, LossFactory] = {}


def register_loss(factory: T, name: str | None = None) -> T:
    """Register a loss class, or a function that makes a loss; usable as a decorator.

    Args:
        factory: called without arguments.
        name: the name to register it by; without it, the loss's own.

    Raises:
        InputError: it is no loss, or the name is taken.
    """
    name = name or getattr(factory, "name", None)
    _require_loss(factory(), name)
    assert name is not None  # noqa: S101 - checked in the line above
    if _FACTORIES.setdefault(name, factory) is not factory:
        raise InputError(f"there is already a loss named {name!r}.")
    return factory


def loss_names() -> list[str]:
    """Names of all losses: built-in, registered, and of entry points."""
    _load_built_in()
    return sorted({*_FACTORIES, *_entry_points()})


def load_loss(name: str, options: Mapping[str, str] | None = None) -> Loss:
    """The loss of a name, with its default settings or some of them replaced.

    Args:
        name: of the loss.
        options: settings as text, by the names of the loss's dataclass fields.

    Raises:
        InputError: there is no such loss or option, or an entry point does not give a loss.
    """
    _load_built_in()
    if name not in _FACTORIES and name in _entry_points():
        entry = _entry_points()[name]
        try:
            factory = entry.load()
        except Exception as error:  # an installed package may fail in any way
            raise InputError(
                f"the loss {name!r} of {entry.value} cannot be loaded: {first_line(error)}"
            ) from error
        _FACTORIES.setdefault(name, factory)
    if name not in _FACTORIES:
        raise InputError(f"there is no loss {name!r}: {did_you_mean(name, loss_names())}")
    loss = _FACTORIES[name]()
    _require_loss(loss, name)
    return _with_options(loss, name, options) if options else loss


def implied_losses() -> list[Loss]:
    """Losses of every objective of a model that has what they need: captioning and matching."""
    _load_built_in()
    losses = [make() for _, make in sorted(_FACTORIES.items())]
    return [loss for loss in losses if getattr(loss, "implied", False)]


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


@cache
def _load_built_in() -> None:
    """Import the modules of this package, which register their losses."""
    import_module("contrapose.losses")


def _with_options(loss: Loss, name: str, options: Mapping[str, str]) -> Loss:
    """A loss with some of its fields replaced by values given as text."""
    if not is_dataclass(loss) or isinstance(loss, type) or not fields(loss):
        raise InputError(f"the loss {name} takes no options.")
    known, kinds = [field.name for field in fields(loss)], get_type_hints(type(loss))
    values: dict[str, Any] = {}
    for key, text in options.items():
        if key not in known:
            raise InputError(f"the loss {name} has no option {key!r}: {did_you_mean(key, known)}")
        values[key] = _parse_option(text, kinds[key], f"{key} of {name}")
    return replace(loss, **values)


def _parse_option(text: str, kind: Any, subject: str) -> Any:
    """A value of a field's type from text.

    Raises:
        InputError: the text is no such value, or the type cannot be written as text.
    """
    choices = get_args(kind) if get_origin(kind) in (UnionType, Union) else (kind,)
    words: list[str] = []
    values: dict[str, Any]
    for choice in choices:
        if choice is NoneType:
            values = {"none": None}
        elif choice is bool:
            values = {"yes": True, "no": False}
        elif get_origin(choice) is Literal:
            values = {str(word): word for word in get_args(choice)}
        elif choice in (int, float):
            words.append("a whole number" if choice is int else "a number")
            with suppress(ValueError, OverflowError):
                number = choice(text)
                if "_" not in text and math.isfinite(number):
                    return number
            continue
        else:
            raise InputError(f"{subject} cannot be given as text: set it in Python.")
        words += values
        if text in values:
            return values[text]
    raise InputError(f"{subject} must be {' or '.join(words)}, not {text!r}.")


def _require_loss(loss: object, name: object) -> None:
    """Raise `InputError` unless an object has what a loss has."""
    if not isinstance(name, str) or not name or set(name) & set("+:= ,"):
        raise InputError(f"a loss needs a name without spaces, commas, +, : and =, not {name!r}.")
    if not callable(loss) or not isinstance(getattr(loss, "name", None), str):
        raise InputError(f"the loss {name!r} must be callable and have a `name`.")
    weight, needs = getattr(loss, "weight", None), getattr(loss, "needs", None)
    if not isinstance(weight, int | float) or weight <= 0:
        raise InputError(f"the loss {name!r} needs a default `weight` above zero, not {weight!r}.")
    if not isinstance(needs, set | frozenset) or not needs <= NEEDS.keys():
        raise InputError(
            f"the `needs` of the loss {name!r} must be a set of {', '.join(NEEDS)}, not {needs!r}."
        )
