"""Image-text-to-text models with a chat template: LLaVA, Qwen-VL, SmolVLM, Idefics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contrapose.errors import InputError

if TYPE_CHECKING:
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.hf.vlm.model import Vlm

PACKABLE = (
    "llava",
    "llava_next",
    "llava_onevision",
    "qwen2_vl",
    "qwen2_5_vl",
    "idefics2",
    "idefics3",
    "smolvlm",
    "llava_next_video",
    "video_llava",
    "internvl",
    "video_llama_3",
)
"""Model types whose language model gets an image as tokens and in no other way."""


def is_vlm(kind: str) -> bool:
    """Whether transformers has an image-text-to-text model of this `model_type`."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    return kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES


def load_vlm(checkpoint: Checkpoint) -> Vlm:
    """Load an image-text-to-text model.

    Raises:
        InputError: it has no chat template, no end token, or lacks weights.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

    from contrapose.models.hf.vlm.decoder import Decoder, find_packing_obstacle
    from contrapose.models.hf.vlm.model import Vlm
    from contrapose.models.hf.vlm.prefix_scoring import find_language_model
    from contrapose.models.hf.vlm.processors import (
        find_processor_class,
        find_video_support,
        load_processor,
    )
    from contrapose.models.hf.vlm.prompts import ChatPrompts

    if type(checkpoint.config) not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        raise InputError(f"{checkpoint.name} is no image-text-to-text model of transformers.")
    videos = find_video_support(checkpoint, find_processor_class(checkpoint).get_attributes())
    processor = load_processor(checkpoint, videos.processor)
    prompts = ChatPrompts(checkpoint.name, processor, cut=checkpoint.options.cut)
    library: Any = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    network: Any = checkpoint.model(library[type(checkpoint.config)])
    text, head = find_language_model(network), network.get_output_embeddings()
    kind = str(checkpoint.config.model_type)
    why = (
        find_packing_obstacle(text, head)
        if kind in PACKABLE
        else f"it is not known of {kind!r} that it can be packed"
    )
    note = f"Each caption is scored with its image anew, which is slow: {why}."
    return Vlm(
        checkpoint,
        network,
        processor,
        prompts,
        None if why else Decoder(text, head),
        videos,
        (note,) if why else (),
    )
