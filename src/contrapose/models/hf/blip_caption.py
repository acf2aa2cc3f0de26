"""BLIP (Li et al., 2022) as a captioner: a decoder that reads the image by cross-attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers import BlipForConditionalGeneration

from contrapose.models.hf.caches import crossed, split_heads
from contrapose.models.hf.captioner import Captioner
from contrapose.models.hf.wording import Wording, end_token, start_token
from contrapose.models.seen import Seen

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.packing import Packed

NOISE = (1.0, 0.25)
"""Mean and standard deviation of noise for BLIP and BLIP-2 (Lin et al., 2024, appendix B)."""
NOTES = (
    "lm is of the caption's tokens and its end, [SEP]; it begins with [DEC], as when the library "
    "generates. No prompt stands before it; the authors' captioners were fine-tuned after "
    "“a picture of”.",
    "The label smoothing of the library's loss is no part of lm.",
)


class BlipCaptioner(Captioner):
    """`lm` by the text decoder, whose absolute positions begin anew with each caption of a row."""

    def __init__(self, checkpoint: Checkpoint):
        text = checkpoint.config.text_config
        tokenizer = checkpoint.tokenizer()
        wording = Wording(
            checkpoint.name,
            tokenizer,
            start=start_token(checkpoint.name, text.bos_token_id),
            end=end_token(checkpoint.name, text.sep_token_id),
            context=min(text.max_position_embeddings, tokenizer.model_max_length),
            cut=checkpoint.options.cut,
        )
        network = checkpoint.model(BlipForConditionalGeneration)
        super().__init__(checkpoint, network, "BLIP", wording, noise=NOISE, notes=NOTES)

    def _see(self, images: Sequence[Picture]) -> Seen:
        return Seen((self.network.vision_model(self._pixels(images))[0],))

    def _keep(self, seen: Seen) -> Seen:
        return cross_keys(self.network.text_decoder.bert, seen)

    def _read(self, packed: Packed, seen: Seen) -> Tensor:
        return read(self.network.text_decoder.bert, packed, seen, causal=True)

    def _words(self, states: Tensor) -> Tensor:
        logits: Tensor = self.network.text_decoder.cls(states)
        return logits


def cross_keys(text: Any, seen: Seen) -> Seen:
    """Keys and values of the image for every layer of a text network."""
    (tokens,) = seen.tensors
    found = []
    for layer in text.encoder.layer:
        attention = layer.crossattention.self
        size = attention.attention_head_size
        found += [split_heads(part(tokens), size) for part in (attention.key, attention.value)]
    return Seen(tuple(found))


def read(text: Any, packed: Packed, seen: Seen, *, causal: bool) -> Tensor:
    """(r, l, width) states of a text network that looks at an image.

    Args:
        text: the library's text network.
        packed: what it reads.
        seen: tokens of each row's image, or its keys and values.
        causal: whether a token sees the earlier ones only.
    """
    tokens = seen.tensors[0]
    cache = None
    if len(seen.tensors) > 1:
        cache = crossed(seen.tensors)
        tokens = tokens.new_zeros(1).expand(len(seen), tokens.shape[2], 1)  # never read
    dtype = text.embeddings.word_embeddings.weight.dtype
    states: Tensor = text(
        input_ids=packed.tokens,
        position_ids=packed.places,
        attention_mask=packed.mask(dtype, causal=causal),
        encoder_hidden_states=tokens,
        past_key_values=cache,
        is_decoder=causal,
        use_cache=False,
    )[0]
    return states
