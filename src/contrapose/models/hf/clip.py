"""CLIP (Radford et al., 2021), and all checkpoints of its class: LAION's, MetaCLIP's, fine-tuned.

The text network looks backwards only and is read at the end token, so that padding, whatever
there is of it, changes nothing: captions are padded to the longest of their batch.
"""

from __future__ import annotations

from contrapose.models.hf.checkpoint import Checkpoint
from contrapose.models.hf.dual import DualEncoder
from contrapose.models.hf.inputs import Captions, Pictures


def load(checkpoint: Checkpoint) -> DualEncoder:
    """A CLIP model."""
    from transformers import CLIPModel

    captions = Captions(
        checkpoint.name,
        checkpoint.tokenizer(),
        checkpoint.config.text_config.max_position_embeddings,
        cut=checkpoint.options.cut,
        padding="longest",
    )
    return DualEncoder(
        checkpoint,
        "CLIP",
        checkpoint.model(CLIPModel),
        captions,
        Pictures(checkpoint.image_processor()),
    )
