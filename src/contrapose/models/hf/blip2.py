"""BLIP-2 (Li et al., 2023): queries that look at the image, with the caption or without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from transformers import Blip2ForImageTextRetrieval

from contrapose.errors import InputError
from contrapose.models.hf.blip2_caption import Blip2Captioner, load_captioner
from contrapose.models.hf.fusion import LOG_ODDS, Fusion, log_odds, refuse_others, unit
from contrapose.models.precise import precise

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture
    from contrapose.models.hf.checkpoint import Checkpoint

OTHERS = {"Blip2Model": "a captioner without its head"}
NOTES = (
    LOG_ODDS,
    "Its itm is the mean over the queries' logits.",
    "An image has one vector a query: itc is the largest of their cosines with the caption's.",
    "The released models were trained on captions of at most 32 tokens.",
)


def load(checkpoint: Checkpoint) -> Blip2 | Blip2Captioner:
    """A BLIP-2 of the first stage (image encoder, Q-Former, matching head) or of the second.

    Raises:
        InputError: it is another model of the family, or lacks weights.
    """
    if "Blip2ForConditionalGeneration" in (checkpoint.config.architectures or ()):
        return load_captioner(checkpoint)
    refuse_others(checkpoint, OTHERS)
    if not checkpoint.config.qformer_config.use_qformer_text_input:
        raise InputError(
            f"{checkpoint.name} cannot match: its Q-Former reads no captions "
            "(use_qformer_text_input is off in its configuration)."
        )
    return Blip2(checkpoint)


class Blip2(Fusion):
    """`itm` by queries and caption together, `itc` by the query that is nearest to the caption.

    Attributes:
        pool: how the vectors of an image become one number with a caption's.
    """

    pool: Literal["max"] = "max"

    def __init__(self, checkpoint: Checkpoint):
        super().__init__(
            checkpoint,
            checkpoint.model(Blip2ForImageTextRetrieval),
            "BLIP-2",
            context=checkpoint.config.qformer_config.max_position_embeddings,
            notes=NOTES,
            tokenizer_arguments={"return_token_type_ids": False},
        )

    @precise
    def match(self, images: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Log-odds (n,) of a match; an image that comes again is looked at once."""
        distinct, places, tokens = self._pairs(images, texts)
        seen = self.network.vision_model(self._pixels(distinct))[0][places]
        queries = self._queries(len(texts))
        count = queries.shape[1]
        with self._hiding(texts, tokens):
            embedded = self.network.embeddings(tokens["input_ids"], query_embeds=queries)
        read = self.network.qformer(
            query_embeds=embedded,
            query_length=count,
            attention_mask=torch.cat(
                [tokens["attention_mask"].new_ones(len(texts), count), tokens["attention_mask"]],
                dim=1,
            ),
            encoder_hidden_states=seen,
        )[0]
        head = self.network.itm_head
        return log_odds(head(read[:, :count].to(head.weight.dtype)).float().mean(dim=1))

    @precise
    def embed_images(self, images: Sequence[Picture]) -> Tensor:
        """Unit vectors (n, q, d), one a query."""
        seen = self.network.vision_model(self._pixels(images))[0]
        found = self.network.qformer(
            query_embeds=self._queries(len(images)), encoder_hidden_states=seen
        )[0]
        projection = self.network.vision_projection
        return unit(projection(found.to(projection.weight.dtype)))

    @precise
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d)."""
        tokens = self._tokens(texts)
        with self._hiding(texts, tokens):
            embedded = self.network.embeddings(tokens["input_ids"])
        read = self.network.qformer(
            query_embeds=embedded,
            query_length=0,
            attention_mask=tokens["attention_mask"],
        )[0]
        projection = self.network.text_projection
        return unit(projection(read[:, 0].to(projection.weight.dtype)))

    def _queries(self, count: int) -> Tensor:
        queries: Tensor = self.network.query_tokens
        return queries.expand(count, -1, -1)
