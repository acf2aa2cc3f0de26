"""Captions of scenes: values that render to text, change slot by slot, and have a truth value."""

from contrapose.world.captions.caption import KINDS, VOCABULARY, Caption, Kind, Mention, Span
from contrapose.world.captions.changes import (
    CHANGES,
    REWRITES,
    CaptionChange,
    CaptionRewrite,
    Weights,
)
from contrapose.world.captions.describe import describe, relate
from contrapose.world.captions.truth import is_true, orders

__all__ = [
    "CHANGES",
    "KINDS",
    "REWRITES",
    "VOCABULARY",
    "Caption",
    "CaptionChange",
    "CaptionRewrite",
    "Kind",
    "Mention",
    "Span",
    "Weights",
    "describe",
    "is_true",
    "orders",
    "relate",
]
