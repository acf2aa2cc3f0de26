"""Who is asked: what models can do, and how one is found by name."""

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
from contrapose.models.registry import load_model, model_names

__all__ = [
    "Captioner",
    "Described",
    "Encoder",
    "Matcher",
    "Model",
    "ModelCard",
    "Prepares",
    "Ragged",
    "Reads",
    "load_model",
    "model_names",
]
