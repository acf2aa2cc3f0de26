"""GIT (Wang et al., 2022): a captioner whose text follows the tokens of an image or a video."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import DynamicCache, GitForCausalLM

from contrapose.models.encoded_images import EncodedImages
from contrapose.models.hf.base import FixedFrames
from contrapose.models.hf.captioner import HFCaptioner, get_cache_tensors, make_cache
from contrapose.models.hf.inputs import CausalTextInputs, require_end_token, require_start_token

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.packing import PackedCaptions

NOISE = (0.0, 0.25)
"""Noise statistics that Lin et al. (2024) use for LLaVA, whose pixels are normalized in the same
way; no paper gives any for GIT."""
NOTES = ("lm is of the caption's tokens and its end, [SEP]; it begins with [CLS].",)


def load_git(checkpoint: Checkpoint) -> Git:
    """Load a GIT, for images or for videos.

    Raises:
        InputError: it lacks weights or an end token.
    """
    return VideoGit(checkpoint) if checkpoint.config.num_image_with_embedding else Git(checkpoint)


class Git(HFCaptioner):
    """GIT captioner: `lm` by the decoder.

    Image tokens attend to each other and never to text: their keys and values are computed once,
    and captions follow them with positions from 0.
    """

    def __init__(self, checkpoint: Checkpoint):
        config = checkpoint.config
        tokenizer = checkpoint.tokenizer()
        text_inputs = CausalTextInputs(
            checkpoint.name,
            tokenizer,
            start=require_start_token(checkpoint.name, config.bos_token_id),
            end=require_end_token(checkpoint.name, config.eos_token_id),
            context=min(config.max_position_embeddings, tokenizer.model_max_length),
            cut=checkpoint.options.cut,
        )
        network = checkpoint.model(GitForCausalLM)
        super().__init__(checkpoint, network, "GIT", text_inputs, noise=NOISE, notes=NOTES)

    def _encode(self, images: Sequence[ImageLike]) -> EncodedImages:
        git = self.network.git
        tokens = git.visual_projection(self._encode_images(images))
        cache = DynamicCache()
        git.encoder(tokens, past_key_values=cache, use_cache=True)
        return EncodedImages(get_cache_tensors(cache))

    def _encode_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Image tokens (n, t, width) of the vision tower."""
        states: Tensor = self.network.git.image_encoder(self._pixels(images))[0]
        return states

    def _decode(self, packed: PackedCaptions, encoded: EncodedImages) -> Tensor:
        states: Tensor = self.network.git(
            input_ids=packed.tokens,
            position_ids=packed.positions,
            attention_mask=packed.additive_mask(self._dtype, prefix=encoded.tensors[0].shape[2]),
            past_key_values=make_cache(encoded.tensors),
            use_cache=True,
        )[0]
        return states

    def _logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.network.output(states)
        return logits


class VideoGit(FixedFrames, Git):
    """GIT for videos: the tokens of all frames, each with the embedding of its time, then text."""

    def __init__(self, checkpoint: Checkpoint):
        super().__init__(checkpoint)
        self._set_frames(int(checkpoint.config.num_image_with_embedding), checkpoint.options.video)

    def _encode_images(self, images: Sequence[ImageLike]) -> Tensor:
        git = self.network.git
        pixels = self._pixels(images)
        states: Tensor = git.image_encoder(pixels.flatten(0, 1))[0]
        times = torch.cat(list(git.img_temporal_embedding))
        return (states.view(*pixels.shape[:2], *states.shape[1:]) + times).flatten(1, 2)
