"""AltCLIP (Chen et al., 2022): the image side of CLIP with XLM-RoBERTa, for several languages."""

from __future__ import annotations

from contrapose.models.hf.checkpoint import Checkpoint
from contrapose.models.hf.dual import DualEncoder
from contrapose.models.hf.inputs import Captions, Pictures


def load(checkpoint: Checkpoint) -> DualEncoder:
    """An AltCLIP model."""
    from transformers import AltCLIPModel

    text, tokenizer = checkpoint.config.text_config, checkpoint.tokenizer()
    places = text.max_position_embeddings - text.pad_token_id - 1  # they begin after the padding's
    captions = Captions(
        checkpoint.name,
        tokenizer,
        min(tokenizer.model_max_length, places),
        cut=checkpoint.options.cut,
        padding="longest",
        shifts=True,
    )
    return DualEncoder(
        checkpoint,
        "AltCLIP",
        checkpoint.model(AltCLIPModel),
        captions,
        Pictures(checkpoint.image_processor()),
    )
