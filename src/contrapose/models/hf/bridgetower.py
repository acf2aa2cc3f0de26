"""BridgeTower (Xu et al., 2023): two towers, and a cross-modal one fed by their upper layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import BridgeTowerForContrastiveLearning, BridgeTowerForImageAndTextRetrieval
from transformers.models.bridgetower.modeling_bridgetower import BridgeTowerITMHead

from contrapose.models.exact import exact_inference, normalize_rows
from contrapose.models.hf.base import LOG_ODDS_NOTE, NARROW_NOTE, FusionModel, log_odds, widen
from contrapose.models.hf.checkpoint import has_weights

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models.capabilities import ImageLike, PreparedImage
    from contrapose.models.hf.checkpoint import Checkpoint

LENGTH_NOTE = "The released models were trained on captions of at most 50 tokens."


def load_bridgetower(checkpoint: Checkpoint) -> BridgeTower:
    """Load BridgeTower with the scores of its heads: `itm`, `itc` or both.

    The weights in the files decide, not the class that they were saved as: one file may hold the
    heads of several classes.

    Raises:
        InputError: it has neither head, or lacks other weights.
    """
    contrastive = has_weights(checkpoint, "itc_image_head.")
    if contrastive and has_weights(checkpoint, "itm_score."):
        return BridgeTowerBoth(checkpoint)
    return BridgeTowerEncoder(checkpoint) if contrastive else BridgeTowerMatcher(checkpoint)


class BridgeTowerForBoth(BridgeTowerForContrastiveLearning):  # type: ignore[misc]
    """The library's contrastive class with the matching head added."""

    def __init__(self, config: Any):
        super().__init__(config)
        self.itm_score = BridgeTowerITMHead(config.hidden_size * 2)
        self.post_init()


class BridgeTower(FusionModel):
    """Base of BridgeTower models: the image and text towers, layer by layer.

    Neither tower attends to the cross-modal one: an image's layers are the same with any caption.
    """

    network_class: type[Any]
    notes: tuple[str, ...] = (LENGTH_NOTE, NARROW_NOTE)

    def __init__(self, checkpoint: Checkpoint):
        text = checkpoint.config.text_config
        super().__init__(
            checkpoint,
            # The library marks the cross-modal self-attention as causal, which its eager
            # implementation rightly ignores and others would not.
            checkpoint.model(self.network_class, attn_implementation="eager"),
            "BridgeTower",
            context=text.max_position_embeddings - text.pad_token_id - 1,
            notes=self.notes,
            tokenizer_arguments={"shifts": True},
            processor_arguments={"do_pad": False},
        )
        self.core: Any = self.network.bridgetower
        self._layers = len(self.core.text_model.encoder.layer)
        self._lower = self._layers - self.core.config.num_hidden_layers

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess an image by the library's image processor, widened if too narrow."""
        return self.image_inputs.prepare(widen(image, self.image_inputs.processor))

    def _image_layers(self, images: Sequence[ImageLike]) -> list[Tensor]:
        """States (n, t, width) of each upper image layer, normalized and projected."""
        tower = self.core.vision_model.visual
        states = tower.forward_pre(self._pixels(images))
        layers = []
        for i, block in enumerate(tower.transformer.resblocks[: self._layers]):
            states = block(states)
            if i >= self._lower:
                project = _select_layer(self.core.cross_modal_image_transform, i - self._lower)
                layers.append(project(tower.forward_post(states)) + self._token_type(1))
        return layers

    def _text_layers(self, tokens: dict[str, Tensor]) -> tuple[list[Tensor], Tensor]:
        """States (n, l, width) of each upper text layer, and the attention mask to add."""
        model = self.core.text_model
        states = model.embeddings(input_ids=tokens["input_ids"])
        gaps = tokens["attention_mask"][:, None, None, :] == 0
        mask = torch.zeros_like(gaps, dtype=states.dtype)
        mask.masked_fill_(gaps, torch.finfo(states.dtype).min)
        layers = []
        for i, layer in enumerate(model.encoder.layer):
            states = layer(states, mask)
            if i >= self._lower:
                layers.append(states)
        return layers, mask

    def _token_type(self, which: int) -> Tensor:
        """Token type embedding of text (0) or image (1)."""
        embedding: Tensor = self.core.token_type_embeddings.weight[which]
        return embedding


class BridgeTowerMatcher(BridgeTower):
    """BridgeTower matcher: `itm` by the cross-modal tower."""

    network_class: type[Any] = BridgeTowerForImageAndTextRetrieval
    notes = (LOG_ODDS_NOTE, LENGTH_NOTE, NARROW_NOTE)

    @exact_inference
    def match(self, images: Sequence[ImageLike], texts: Sequence[str]) -> Tensor:
        """Log-odds (n,) of a match; each distinct image is encoded once."""
        distinct, indices, tokens = self._pair_inputs(images, texts)
        core = self.core
        with self._zero_masked(texts, tokens):
            text_layers, mask = self._text_layers(tokens)
        image_layers = self._image_layers(distinct)
        text = image = torch.empty(0)
        for i, (states, image_states) in enumerate(zip(text_layers, image_layers, strict=True)):
            project = _select_layer(core.cross_modal_text_transform, i)
            text_layer, image_layer = project(states) + self._token_type(0), image_states[indices]
            if i == 0:
                text = core.cross_modal_text_layernorm(text_layer)
                image = core.cross_modal_image_layernorm(image_layer)
            else:
                text = core.cross_modal_text_link_tower[i - 1](text_layer, text, mask)
                image = core.cross_modal_image_link_tower[i - 1](image_layer, image, None)
            text, image = (
                core.cross_modal_text_layers[i](text, image, attention_mask=mask)[0],
                core.cross_modal_image_layers[i](image, text, encoder_attention_mask=mask)[0],
            )
        both = [core.cross_modal_text_pooler(text), core.cross_modal_image_pooler(image)]
        return log_odds(self.network.itm_score(torch.cat(both, dim=-1)))


class BridgeTowerEncoder(BridgeTower):
    """BridgeTower dual encoder: `itc` by the last layers of the two towers."""

    network_class: type[Any] = BridgeTowerForContrastiveLearning

    @exact_inference
    def embed_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Unit vectors (n, d)."""
        return normalize_rows(self.network.itc_image_head(self._image_layers(images)[-1][:, 0]))

    @exact_inference
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d)."""
        tokens = self._tokens(texts)
        with self._zero_masked(texts, tokens):
            words, _ = self._text_layers(tokens)
        return normalize_rows(self.network.itc_text_head(words[-1][:, 0]))


class BridgeTowerBoth(BridgeTowerMatcher, BridgeTowerEncoder):
    """BridgeTower with both heads: `itm` and `itc`."""

    network_class: type[Any] = BridgeTowerForBoth


def _select_layer(module: nn.Module, index: int) -> nn.Module:
    """Module of one layer, or the module that all layers share."""
    return module[index] if isinstance(module, nn.ModuleList) else module
