"""Sides of encoders, `image` and `text`, and the spaces of their vectors."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.errors import InputError
from contrapose.models.capabilities import Model


def require_side(model: Model, side: str) -> None:
    """Require that an encoder can embed a side, `image` or `text`.

    An encoder of one side alone has an attribute `sides` with that one.

    Raises:
        InputError: it cannot.
    """
    sides: Sequence[str] = getattr(model, "sides", ("image", "text"))
    if not embeds_side(model, side):
        words = {"image": ("images", "an image encoder"), "text": ("captions", "a text encoder")}
        raise InputError(
            f"{model.name} cannot embed {words[side][0]}: it is {words[sides[0]][1]} alone."
        )


def embeds_side(model: Model, side: str) -> bool:
    """Whether an encoder can embed a side, `image` or `text`."""
    return side in getattr(model, "sides", ("image", "text"))


def vector_space(model: Model) -> str:
    """Space of an encoder's vectors: vectors of encoders of one space can be compared.

    An encoder of one side alone declares the space of the encoder it belongs to in its attribute
    `space`; without one, an encoder has a space of its own, which its fingerprint names.
    """
    return str(getattr(model, "space", "") or model.fingerprint)
