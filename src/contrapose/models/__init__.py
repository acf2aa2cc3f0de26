"""Models: capability protocols, the registry of families, and loading by name."""

from typing import TYPE_CHECKING, Any

from contrapose.arrays import Ragged
from contrapose.files import include
from contrapose.models.capabilities import (
    Answerer,
    Captioner,
    CaptionTokenizer,
    CardProvider,
    Chat,
    CropPreparer,
    EncodedImage,
    Encoder,
    ImageCacher,
    ImagePreparer,
    Language,
    Matcher,
    Model,
    ModelCard,
    Prompt,
    PromptedCaptioner,
    QuestionTemplate,
    Reply,
    TokenCounter,
    VideoReader,
)
from contrapose.models.function import FunctionModel
from contrapose.models.masking.text import MaskedText, TextMasker
from contrapose.models.names import ModelName, parse_name
from contrapose.models.options import LoadOptions
from contrapose.models.registry import FamilyCard, families, load_model, model_names, register_model

if TYPE_CHECKING:
    from contrapose.models.conformance import check_model, model_checks

__all__ = [
    "Answerer",
    "CaptionTokenizer",
    "Captioner",
    "CardProvider",
    "Chat",
    "CropPreparer",
    "EncodedImage",
    "Encoder",
    "FamilyCard",
    "FunctionModel",
    "ImageCacher",
    "ImagePreparer",
    "Language",
    "LoadOptions",
    "MaskedText",
    "Matcher",
    "Model",
    "ModelCard",
    "ModelName",
    "Prompt",
    "PromptedCaptioner",
    "QuestionTemplate",
    "Ragged",
    "Reply",
    "TextMasker",
    "TokenCounter",
    "VideoReader",
    "check_model",
    "families",
    "include",
    "load_model",
    "model_checks",
    "model_names",
    "parse_name",
    "register_model",
]


def __getattr__(name: str) -> Any:
    """The conformance suite, imported when it is first used."""
    if name not in ("check_model", "model_checks"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from contrapose.models import conformance

    return getattr(conformance, name)
