"""FLAVA (Singh et al., 2022): image and text encoders, and a multimodal encoder over both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import FlavaModel, FlavaPreTrainedModel
from transformers.models.flava.modeling_flava import FlavaITMHead

from contrapose.models.exact import exact_inference, normalize_rows
from contrapose.models.hf.base import LOG_ODDS_NOTE, FusionModel, log_odds
from contrapose.models.hf.checkpoint import has_weights

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike
    from contrapose.models.hf.checkpoint import Checkpoint

LENGTH_NOTE = "The released model was trained on captions of at most 77 tokens."
UNMASKED_NOTE = "Its itm head was trained on masked pairs; here nothing is masked."
NO_MASKS = {"return_image_mask": False, "return_codebook_pixels": False}


def load_flava(checkpoint: Checkpoint) -> FlavaEncoder:
    """Load FLAVA with its matching head where the files hold one, else as dual encoder.

    Raises:
        InputError: weights are missing.
    """
    return Flava(checkpoint) if has_weights(checkpoint, "itm_head.") else FlavaEncoder(checkpoint)


class FlavaForMatching(FlavaPreTrainedModel):  # type: ignore[misc]
    """The library's `FlavaForPreTraining` without image codebook and masked-modeling heads."""

    def __init__(self, config: Any):
        super().__init__(config)
        self.flava = FlavaModel(config)
        self.itm_head = FlavaITMHead(config)
        self.post_init()


class FlavaEncoder(FusionModel):
    """FLAVA dual encoder: `itc` by the projections of the first tokens."""

    network_class: type[FlavaPreTrainedModel] = FlavaModel
    notes: tuple[str, ...] = (LENGTH_NOTE,)

    def __init__(self, checkpoint: Checkpoint):
        network = checkpoint.model(self.network_class)
        self.core: Any = getattr(network, "flava", network)
        scale = float(self.core.logit_scale.exp())
        super().__init__(
            checkpoint,
            network,
            "FLAVA",
            context=checkpoint.config.text_config.max_position_embeddings,
            notes=(*self.notes, f"Trained with its itc times {scale:.4g}."),
            processor_arguments=NO_MASKS,
        )

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d)."""
        image_states = self.core.image_model(pixel_values=self._pixels(images))[0]
        return normalize_rows(self.core.image_projection(image_states[:, 0]))

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d)."""
        tokens = self._tokens(texts)
        with self._zero_masked(texts, tokens):
            text_states = self.core.text_model(**tokens)[0]
        return normalize_rows(self.core.text_projection(text_states[:, 0]))


class Flava(FlavaEncoder):
    """FLAVA matcher: `itc`, and `itm` by the multimodal encoder."""

    network_class = FlavaForMatching
    notes = (LOG_ODDS_NOTE, UNMASKED_NOTE, LENGTH_NOTE)

    @exact_inference
    def match(self, images: Sequence[ImageLike], texts: Sequence[str]) -> Tensor:
        """Log-odds (n,) of a match; each distinct image is encoded once."""
        distinct, indices, tokens = self._pair_inputs(images, texts)
        # The multimodal encoder takes the last layers before their normalization.
        image_states = self.core.image_model(
            pixel_values=self._pixels(distinct), output_hidden_states=True
        ).hidden_states[-1]
        with self._zero_masked(texts, tokens):
            text_states = self.core.text_model(**tokens, output_hidden_states=True).hidden_states[
                -1
            ]
        image = self.core.image_to_mm_projection(image_states)[indices]
        both = torch.cat([image, self.core.text_to_mm_projection(text_states)], dim=1)
        mask = tokens["attention_mask"]
        before = image.shape[1] + int(self.core.multimodal_model.use_cls_token)
        mask = torch.cat([mask.new_ones(len(texts), before), mask], dim=1)
        fused = self.core.multimodal_model(both, attention_mask=mask)[0]
        return log_odds(self.network.itm_head(fused))
