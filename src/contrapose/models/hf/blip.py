"""BLIP (Li et al., 2022): a matcher that reads the caption over the image, and a dual encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor
from transformers import BlipForImageTextRetrieval

from contrapose.models.hf.blip_caption import BlipCaptioner
from contrapose.models.hf.blip_vqa import BlipAnswerer
from contrapose.models.hf.fusion import LOG_ODDS, Fusion, log_odds, unit
from contrapose.models.precise import precise

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture
    from contrapose.models.hf.checkpoint import Checkpoint

NOTES = (
    LOG_ODDS,
    "Captions begin with [CLS] for both scores, as in the library; the authors' retrieval code "
    "puts [ENC] there for itm.",
    "The released models were trained on captions of at most 35 tokens.",
)


def load(checkpoint: Checkpoint) -> Blip | BlipCaptioner | BlipAnswerer:
    """A BLIP: a captioner, one that answers questions, or else one with its matching head.

    Raises:
        InputError: it lacks weights.
    """
    kinds = checkpoint.config.architectures or ()
    if "BlipForConditionalGeneration" in kinds:
        return BlipCaptioner(checkpoint)
    if "BlipForQuestionAnswering" in kinds:
        return BlipAnswerer(checkpoint)
    return Blip(checkpoint)


class Blip(Fusion):
    """`itm` by the text encoder that looks at the image, `itc` by the two projections."""

    def __init__(self, checkpoint: Checkpoint):
        super().__init__(
            checkpoint,
            checkpoint.model(BlipForImageTextRetrieval),
            "BLIP",
            context=checkpoint.config.text_config.max_position_embeddings,
            notes=NOTES,
            tokenizer_arguments={"return_token_type_ids": False},
        )

    @precise
    def match(self, images: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Log-odds (n,) of a match; an image that comes again is looked at once."""
        distinct, places, tokens = self._pairs(images, texts)
        seen = self.network.vision_model(self._pixels(distinct))[0]
        with self._hiding(texts, tokens):
            read = self.network.text_encoder(**tokens, encoder_hidden_states=seen[places])[0]
        return log_odds(self.network.itm_head(read[:, 0]))

    @precise
    def embed_images(self, images: Sequence[Picture]) -> Tensor:
        """Unit vectors (n, d)."""
        seen = self.network.vision_model(self._pixels(images))[0]
        return unit(self.network.vision_proj(seen[:, 0]))

    @precise
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d)."""
        tokens = self._tokens(texts)
        with self._hiding(texts, tokens):
            read = self.network.text_encoder(**tokens)[0]
        return unit(self.network.text_proj(read[:, 0]))
