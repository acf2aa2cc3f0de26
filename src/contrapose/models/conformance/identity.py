"""Checks of what a model says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contrapose.models.capabilities import ModelCard
from contrapose.models.conformance.check import METHODS, SHARED, Check, ConformanceError, Subject
from contrapose.models.options import DTYPES


def _text(subject: Subject, attribute: str) -> None:
    value = getattr(subject.model, attribute, None)
    if not isinstance(value, str) or not value.strip() or "\n" in value:
        raise ConformanceError(f"{attribute} is {value!r}")


def _batch_size(subject: Subject) -> None:
    value = getattr(subject.model, "batch_size", None)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConformanceError(f"batch_size is {value!r}")


def _capability(subject: Subject) -> None:
    """At least one capability, and none by halves."""
    whole = False
    for score, needed in METHODS.items():
        there = [name for name in needed if hasattr(subject.model, name)]
        missing = [name for name in needed if name not in there]
        if missing and any(name not in SHARED for name in there):
            raise ConformanceError(
                f"it has {there[0]} and no {missing[0]}, which {score} needs too"
            )
        whole = whole or not missing
    if not whole:
        methods = "; ".join(", ".join(needed) for needed in METHODS.values())
        raise ConformanceError(f"it has none of: {methods}")


def _card(subject: Subject) -> None:
    card = subject.model.card
    if not isinstance(card, ModelCard):
        raise ConformanceError(f"card is a {type(card).__name__}")
    if card.dtype not in DTYPES:
        raise ConformanceError(f"its dtype is {card.dtype!r}, none of {', '.join(DTYPES)}")
    context = getattr(subject.model, "context", card.context)
    if card.context != context:
        raise ConformanceError(f"its context is {card.context}, and the model's is {context}")


def _evaluating(subject: Subject) -> None:
    for name, module in _modules(subject.model):
        if module.training:
            raise ConformanceError(f"{name} is in training mode; call its eval()")


def _modules(model: Any) -> Iterator[tuple[str, Any]]:
    """The torch modules that a model is or holds."""
    held = {"the model": model, **getattr(model, "__dict__", {})}
    for name, value in held.items():
        if hasattr(value, "modules") and hasattr(value, "training"):
            yield name, value


def _stable(subject: Subject) -> None:
    assert subject.load is not None  # noqa: S101 - `unfit` has seen to it
    first, again = subject.model.fingerprint, subject.load().fingerprint
    if first != again:
        raise ConformanceError(f"it is {first!r} and, loaded again, {again!r}")


def _without(attribute: str) -> str:
    return f"the model has no {attribute}"


CHECKS = (
    Check(
        "name",
        "Its name is one line of text.",
        lambda subject: _text(subject, "name"),
        leans=False,
    ),
    Check(
        "fingerprint",
        "Its fingerprint is one line of text.",
        lambda subject: _text(subject, "fingerprint"),
        leans=False,
    ),
    Check(
        "fingerprint-stable",
        "Loaded twice, it has the same fingerprint.",
        _stable,
        lambda subject: "" if subject.load else "no way to load it anew was given",
        leans=False,
    ),
    Check(
        "batch-size",
        "Its batch size is a whole number of at least 1.",
        _batch_size,
        leans=False,
    ),
    Check(
        "capability",
        "It can do at least one thing, and nothing by halves.",
        _capability,
        base=True,
        leans=False,
    ),
    Check(
        "card",
        "Its card is a ModelCard that agrees with the model.",
        _card,
        lambda subject: "" if hasattr(subject.model, "card") else _without("card"),
        leans=False,
    ),
    Check(
        "counted-tokens",
        "It says which tokens its log-probabilities are of.",
        lambda subject: _text(subject, "lm_tokens"),
        lambda subject: "" if hasattr(subject.model, "lm_tokens") else _without("lm_tokens"),
        leans=False,
    ),
    Check(
        "evaluation-mode",
        "The torch modules it holds are in evaluation mode.",
        _evaluating,
        lambda subject: "" if any(_modules(subject.model)) else "it holds no torch module",
        leans=False,
    ),
)  # fmt: skip
