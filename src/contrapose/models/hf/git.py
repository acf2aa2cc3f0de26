"""GIT (Wang et al., 2022): a captioner whose text follows the image tokens in one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor
from transformers import DynamicCache, GitForCausalLM

from contrapose.errors import InputError
from contrapose.models.encoded_images import EncodedImages
from contrapose.models.hf.captioner import HFCaptioner, get_cache_tensors, make_cache
from contrapose.models.hf.causal_inputs import (
    CausalTextInputs,
    require_end_token,
    require_start_token,
)

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.packing import PackedCaptions

NOISE = (0.0, 0.25)
"""No paper gives statistics for GIT: those that Lin et al. (2024) use for LLaVA, whose pixels are
normalised alike."""
NOTES = ("lm is of the caption's tokens and its end, [SEP]; it begins with [CLS].",)


def load_git(checkpoint: Checkpoint) -> Git:
    """Load a GIT for single images.

    Raises:
        InputError: it is a model of videos, or lacks weights or an end token.
    """
    if checkpoint.config.num_image_with_embedding is not None:
        raise InputError(
            f"{checkpoint.name} describes videos of {checkpoint.config.num_image_with_embedding} "
            "frames: use a GIT for single images, such as hf:microsoft/git-base-coco."
        )
    return Git(checkpoint)


class Git(HFCaptioner):
    """GIT captioner: `lm` by the decoder.

    The image's tokens see each other and never the text: their keys and values are made once, and
    captions follow on them with positions that begin anew.
    """

    def __init__(self, checkpoint: Checkpoint):
        config = checkpoint.config
        tokenizer = checkpoint.tokenizer()
        wording = CausalTextInputs(
            checkpoint.name,
            tokenizer,
            start=require_start_token(checkpoint.name, config.bos_token_id),
            end=require_end_token(checkpoint.name, config.eos_token_id),
            context=min(config.max_position_embeddings, tokenizer.model_max_length),
            cut=checkpoint.options.cut,
        )
        network = checkpoint.model(GitForCausalLM)
        super().__init__(checkpoint, network, "GIT", wording, noise=NOISE, notes=NOTES)

    def _see(self, images: Sequence[ImageLike]) -> EncodedImages:
        git = self.network.git
        tokens = git.visual_projection(git.image_encoder(self._pixels(images))[0])
        cache = DynamicCache()
        git.encoder(tokens, past_key_values=cache, use_cache=True)
        return EncodedImages(get_cache_tensors(cache))

    def _read(self, packed: PackedCaptions, seen: EncodedImages) -> Tensor:
        states: Tensor = self.network.git(
            input_ids=packed.tokens,
            position_ids=packed.places,
            attention_mask=packed.mask(self._dtype, prefix=seen.tensors[0].shape[2]),
            past_key_values=make_cache(seen.tensors),
            use_cache=True,
        )[0]
        return states

    def _words(self, states: Tensor) -> Tensor:
        logits: Tensor = self.network.output(states)
        return logits
