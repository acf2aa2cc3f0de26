"""The map of a side: linear, or with one hidden layer beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

NEEDED = ("weight",)
LINEAR = ("weight", "bias")
HIDDEN = ("hidden.weight", "hidden.bias", "out.weight")
"""A head has all of these or none."""


def through(vectors: Tensor, heads: Mapping[str, Tensor], side: str) -> Tensor:
    """Vectors (n, p) through a side's head: Wx + b, and V·gelu(Ux + u) added where it has that."""
    from torch.nn.functional import gelu, linear

    found = linear(vectors, heads[f"{side}.weight"], heads.get(f"{side}.bias"))
    if f"{side}.hidden.weight" not in heads:
        return found
    weight, bias, out = (heads[f"{side}.{name}"] for name in HIDDEN)
    return found + linear(gelu(linear(vectors, weight, bias)), out)


def wrong(heads: Mapping[str, Tensor], side: str) -> str:
    """What is wrong with a side's head, in words; empty when it is one."""
    own = {name.removeprefix(f"{side}."): head.shape for name, head in heads.items()
           if name.startswith(f"{side}.")}  # fmt: skip
    if not set(NEEDED) <= set(own) or set(own) - {*LINEAR, *HIDDEN}:
        return "names"
    if 0 < len(set(HIDDEN) & set(own)) < len(HIDDEN):
        return "names"
    weight = own["weight"]
    if len(weight) != 2:
        return "shapes"
    width, given = weight
    wanted = {"weight": (width, given), "bias": (width,)}
    if HIDDEN[0] in own:
        middle = own[HIDDEN[0]][0] if own[HIDDEN[0]] else 0
        wanted |= dict(zip(HIDDEN, ((middle, given), (middle,), (width, middle)), strict=True))
    return "" if all(tuple(own[name]) == wanted[name] for name in own) else "shapes"
