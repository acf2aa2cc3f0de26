"""Captions of scenes: small values that are put into words, changed slot by slot, and checked."""

from contrapose.world.captions.caption import KINDS, Caption, Kind, Span
from contrapose.world.captions.changes import CHANGES
from contrapose.world.captions.changing import Change, Weights
from contrapose.world.captions.describe import describe, relate
from contrapose.world.captions.mention import Mention
from contrapose.world.captions.orders import orders
from contrapose.world.captions.rewrites import REWRITES, Rewrite
from contrapose.world.captions.truth import is_true
from contrapose.world.captions.vocabulary import VOCABULARY

__all__ = [
    "CHANGES",
    "KINDS",
    "REWRITES",
    "VOCABULARY",
    "Caption",
    "Change",
    "Kind",
    "Mention",
    "Rewrite",
    "Span",
    "Weights",
    "describe",
    "is_true",
    "orders",
    "relate",
]
