"""A plain function `f(image, text) -> float` as a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from contrapose.models.capabilities import UNSTORED

ScoreFunction = Callable[[Any, str], Any]
"""From an RGB image of Pillow and a caption to a number, higher for a better fit."""


class FunctionModel:
    """Matcher (score `itm`) made of a function of an image and a caption.

    What a function computes cannot be told from its name, so its scores are kept in memory and
    never stored; each wrapping has a fingerprint of its own.

    Attributes:
        function: from an image and a caption to a number.
        name: the function's own, unless another is given.
        fingerprint: different for every object.
        batch_size: pairs between two reports of progress.
    """

    def __init__(self, function: ScoreFunction, name: str | None = None):
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.fingerprint = f"{UNSTORED}{uuid4().hex}"
        self.batch_size = 64

    def match(self, images: Sequence[Any], texts: Sequence[str]) -> Any:
        """Score of the i-th image with the i-th caption."""
        pairs = zip(images, texts, strict=True)
        return [float(self.function(image, text)) for image, text in pairs]
