"""Who is asked: what models can do, and how one is found by name."""

from contrapose.files.include import include
from contrapose.models.capabilities import (
    Answerer,
    Captioner,
    Chat,
    Described,
    Encoder,
    Language,
    Looked,
    Looks,
    Matcher,
    Model,
    ModelCard,
    Prepares,
    Prompt,
    QuestionTemplate,
    Ragged,
    Reads,
    Reply,
)
from contrapose.models.conformance import check_model, model_checks
from contrapose.models.families import FamilyCard, families
from contrapose.models.masks import MaskedText, MasksText
from contrapose.models.names import ModelName, parse_name
from contrapose.models.options import LoadOptions
from contrapose.models.registry import load_model, model_names, register_model

__all__ = [
    "Answerer",
    "Captioner",
    "Chat",
    "Described",
    "Encoder",
    "FamilyCard",
    "Language",
    "LoadOptions",
    "Looked",
    "Looks",
    "MaskedText",
    "MasksText",
    "Matcher",
    "Model",
    "ModelCard",
    "ModelName",
    "Prepares",
    "Prompt",
    "QuestionTemplate",
    "Ragged",
    "Reads",
    "Reply",
    "check_model",
    "families",
    "include",
    "load_model",
    "model_checks",
    "model_names",
    "parse_name",
    "register_model",
]
