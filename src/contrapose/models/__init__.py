"""Who is asked: what models can do, and how one is found by name."""

from contrapose.files.include import include
from contrapose.models.capabilities import (
    Captioner,
    Described,
    Encoder,
    Matcher,
    Model,
    ModelCard,
    Prepares,
    Ragged,
    Reads,
)
from contrapose.models.conformance import check_model, model_checks
from contrapose.models.families import FamilyCard, families
from contrapose.models.names import ModelName, parse_name
from contrapose.models.options import LoadOptions
from contrapose.models.registry import load_model, model_names, register_model

__all__ = [
    "Captioner",
    "Described",
    "Encoder",
    "FamilyCard",
    "LoadOptions",
    "Matcher",
    "Model",
    "ModelCard",
    "ModelName",
    "Prepares",
    "Ragged",
    "Reads",
    "check_model",
    "families",
    "include",
    "load_model",
    "model_checks",
    "model_names",
    "parse_name",
    "register_model",
]
