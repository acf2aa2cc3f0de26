"""Who is asked: what models can do, and how one is found by name."""

from contrapose.models.capabilities import Captioner, Encoder, Matcher, Model, Ragged
from contrapose.models.registry import load_model, model_names

__all__ = ["Captioner", "Encoder", "Matcher", "Model", "Ragged", "load_model", "model_names"]
