"""Models: capability protocols, the registry of families, and loading by name."""

from typing import TYPE_CHECKING

from contrapose.arrays import Ragged
from contrapose.files import include
from contrapose.lazy import lazy_exports
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
)
from contrapose.models.function import FunctionModel
from contrapose.models.masking.text import MaskedText, TextMasker
from contrapose.models.names import ModelName, parse_name
from contrapose.models.options import LoadOptions
from contrapose.models.registry import FamilyCard, families, load_model, model_names, register_model
from contrapose.models.video_reader import FrameTiming, VideoReader

if TYPE_CHECKING:
    from contrapose.models.conformance import check_model, model_checks
else:
    __getattr__, __dir__, _ = lazy_exports(__name__, {"conformance": "check_model model_checks"})

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
    "FrameTiming",
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
