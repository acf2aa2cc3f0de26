"""SigLIP (Zhai et al., 2023) and SigLIP 2 at a fixed resolution, which is of the same class.

The text network sees the padding and is read at the last place, so captions are always padded to
the full length, on the right and without a mask, as in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contrapose.models.hf.checkpoint import Checkpoint
from contrapose.models.hf.dual import DualEncoder
from contrapose.models.hf.inputs import Captions, Pictures
from contrapose.models.masks import MaskedText, Span

GEMMA = 256_000
"""Tokens of Gemma's vocabulary, by which SigLIP 2 is known."""
LOWERED = "captions are lower-cased, as SigLIP 2 was trained"


def load(checkpoint: Checkpoint) -> DualEncoder:
    """A SigLIP model."""
    from transformers import SiglipModel

    captions, notes = padded_captions(checkpoint)
    return DualEncoder(
        checkpoint,
        "SigLIP 2" if notes else "SigLIP",
        checkpoint.model(SiglipModel),
        captions,
        Pictures(checkpoint.image_processor()),
        notes,
    )


def padded_captions(checkpoint: Checkpoint) -> tuple[Captions, tuple[str, ...]]:
    """Captions of full length, and notes on them."""
    tokenizer: Any = checkpoint.tokenizer()
    tokenizer.padding_side = "right"
    text = checkpoint.config.text_config
    named = type(tokenizer).__name__.startswith(("Gemma", "Siglip2"))
    second = named or text.vocab_size == GEMMA
    captions = (LoweredCaptions if second else Captions)(
        checkpoint.name,
        tokenizer,
        text.max_position_embeddings,
        cut=checkpoint.options.cut,
        padding="max_length",
        return_attention_mask=False,
    )
    return captions, (LOWERED,) if second else ()


class LoweredCaptions(Captions):
    """Captions in lower case."""

    def _encode(self, texts: list[str], **arguments: Any) -> dict[str, list[list[int]]]:
        return super()._encode([text.lower() for text in texts], **arguments)

    def _given(self, text: MaskedText) -> tuple[str, Sequence[Span]]:
        """Lower case can be longer: “İ” becomes two characters."""
        caption = text.caption
        places = [
            (len(caption[:start].lower()), len(caption[:end].lower())) for start, end in text.hidden
        ]
        return caption.lower(), places
