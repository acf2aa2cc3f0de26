"""X-CLIP (Ni et al., 2022): CLIP for videos, whose captions are changed by the video they meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import XCLIPModel

from contrapose.models.exact import exact_inference
from contrapose.models.hf.base import FixedFrames, FusionModel

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike
    from contrapose.models.hf.checkpoint import Checkpoint

NOTES = (
    "Its itm is the logit of a video and a caption, a cosine times {scale:.4g}: prompts made from "
    "the video change the caption's vector, so that there is no itc.",
    "A video is {frames} frames; an image is a video that stands still.",
)


def load_xclip(checkpoint: Checkpoint) -> XClip:
    """Load an X-CLIP.

    Raises:
        InputError: it lacks weights.
    """
    return XClip(checkpoint)


class XClip(FixedFrames, FusionModel):
    """X-CLIP: `itm` by its own logits, each video encoded once with its captions."""

    matches_by_cosine = True

    def __init__(self, checkpoint: Checkpoint):
        network = checkpoint.model(XCLIPModel)
        frames = int(checkpoint.config.vision_config.num_frames)
        scale = float(network.logit_scale.detach().float().exp())
        super().__init__(
            checkpoint,
            network,
            "X-CLIP",
            context=checkpoint.config.text_config.max_position_embeddings,
            notes=[note.format(scale=scale, frames=frames) for note in NOTES],
        )
        self._set_frames(frames, checkpoint.options.video)

    @exact_inference
    def match(self, images: Sequence[ImageLike], texts: Sequence[str]) -> Tensor:
        """Logits (n,) in float32 of videos with captions."""
        distinct, indices, tokens = self._pair_inputs(images, texts)
        logits = torch.empty(len(texts), device=self._device)
        for i, video in enumerate(distinct):
            pairs = torch.nonzero(indices == i).flatten()
            some = {name: values[pairs] for name, values in tokens.items()}
            with self._zero_masked([texts[j] for j in pairs.tolist()], some):
                output = self.network(**some, **self._stack_images([video]))
            logits[pairs] = output.logits_per_video[0].float()
        return logits
