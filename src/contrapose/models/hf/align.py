"""ALIGN (Jia et al., 2021): EfficientNet and BERT, read at its first token."""

from __future__ import annotations

from contrapose.models.hf.checkpoint import Checkpoint
from contrapose.models.hf.dual import DualEncoder
from contrapose.models.hf.inputs import Captions, Pictures

TRAINED = 64
"""Tokens of a caption in training; the network has places for more."""


def load(checkpoint: Checkpoint) -> DualEncoder:
    """An ALIGN model."""
    from transformers import AlignModel

    captions = Captions(
        checkpoint.name,
        checkpoint.tokenizer(),
        min(TRAINED, checkpoint.config.text_config.max_position_embeddings),
        cut=checkpoint.options.cut,
        padding="longest",
    )
    return DualEncoder(
        checkpoint,
        "ALIGN",
        checkpoint.model(AlignModel),
        captions,
        Pictures(checkpoint.image_processor()),
    )
