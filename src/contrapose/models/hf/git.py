"""GIT (Wang et al., 2022): a captioner whose text follows the image's tokens in one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor
from transformers import DynamicCache, GitForCausalLM

from contrapose.errors import InputError
from contrapose.models.hf.caches import held, keys_and_values
from contrapose.models.hf.captioner import Captioner
from contrapose.models.hf.wording import Wording, end_token, start_token
from contrapose.models.seen import Seen

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.packing import Packed

NOISE = (0.0, 0.25)
"""No paper gives statistics for GIT: those that Lin et al. (2024) use for LLaVA, whose pixels are
normalised alike."""
NOTES = ("lm is of the caption's tokens and its end, [SEP]; it begins with [CLS].",)


def load(checkpoint: Checkpoint) -> Git:
    """A GIT that describes single images.

    Raises:
        InputError: it is a model of videos, or lacks weights or an end token.
    """
    if checkpoint.config.num_image_with_embedding is not None:
        raise InputError(
            f"{checkpoint.name} describes videos of {checkpoint.config.num_image_with_embedding} "
            "frames: use a GIT for single images, such as hf:microsoft/git-base-coco."
        )
    return Git(checkpoint)


class Git(Captioner):
    """`lm` by the decoder.

    The image's tokens see each other and never the text: their keys and values are made once, and
    captions follow on them with positions that begin anew.
    """

    def __init__(self, checkpoint: Checkpoint):
        config = checkpoint.config
        tokenizer = checkpoint.tokenizer()
        wording = Wording(
            checkpoint.name,
            tokenizer,
            start=start_token(checkpoint.name, config.bos_token_id),
            end=end_token(checkpoint.name, config.eos_token_id),
            context=min(config.max_position_embeddings, tokenizer.model_max_length),
            cut=checkpoint.options.cut,
        )
        network = checkpoint.model(GitForCausalLM)
        super().__init__(checkpoint, network, "GIT", wording, noise=NOISE, notes=NOTES)

    def _see(self, images: Sequence[Picture]) -> Seen:
        git = self.network.git
        tokens = git.visual_projection(git.image_encoder(self._pixels(images))[0])
        cache = DynamicCache()
        git.encoder(tokens, past_key_values=cache, use_cache=True)
        return Seen(keys_and_values(cache))

    def _read(self, packed: Packed, seen: Seen) -> Tensor:
        states: Tensor = self.network.git(
            input_ids=packed.tokens,
            position_ids=packed.places,
            attention_mask=packed.mask(self._dtype, prefix=seen.tensors[0].shape[2]),
            past_key_values=held(seen.tensors),
            use_cache=True,
        )[0]
        return states

    def _words(self, states: Tensor) -> Tensor:
        logits: Tensor = self.network.output(states)
        return logits
