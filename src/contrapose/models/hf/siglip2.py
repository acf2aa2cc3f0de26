"""SigLIP 2 in its NaFlex form (Tschannen et al., 2025): images keep their shape.

An image becomes at most as many patches as its processor says (256 unless it says otherwise), and
is padded to that number with a mask, so that neighbours in a batch change nothing.
"""

from __future__ import annotations

from contrapose.models.hf.checkpoint import Checkpoint
from contrapose.models.hf.dual import DualEncoder
from contrapose.models.hf.inputs import Pictures
from contrapose.models.hf.siglip import padded_captions


def load(checkpoint: Checkpoint) -> DualEncoder:
    """A SigLIP 2 model whose images keep their shape."""
    from transformers import Siglip2Model

    captions, notes = padded_captions(checkpoint)
    pictures = Pictures(checkpoint.image_processor())
    most = pictures.processor.max_num_patches
    return DualEncoder(
        checkpoint,
        "SigLIP 2",
        checkpoint.model(Siglip2Model),
        captions,
        pictures,
        (*notes, f"images keep their shape, in at most {most} patches"),
    )
