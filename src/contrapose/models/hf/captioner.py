"""Base classes of the generative models of the transformers library, and their KV caches.

Every image is encoded once. Captions of one image share a row (`contrapose.models.packing`), and
only the states that predict a counted token meet the vocabulary. A family implements the image
encoder, the text decoder over packed rows, and the vocabulary head.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import DynamicLayer

from contrapose.models.capabilities import check_pairs
from contrapose.models.encoded_images import EncodedImages, deduplicate, gather_encoded
from contrapose.models.exact import exact_inference
from contrapose.models.hf.base import HFModel
from contrapose.models.hf.inputs import CausalTextInputs, ImageInputs
from contrapose.models.masking.embeddings import (
    find_word_embedding,
    pack_zero_flags,
    zero_embeddings,
    zero_masked_logprobs,
)
from contrapose.models.packing import PackedCaptions, pack, ragged_logprobs

if TYPE_CHECKING:
    from contrapose.arrays import Ragged
    from contrapose.models.capabilities import AnyImage, EncodedImage, ImageLike
    from contrapose.models.hf.checkpoint import Checkpoint


def make_cache(tensors: Sequence[Tensor]) -> DynamicCache:
    """DynamicCache of the given keys and values, layer after layer; no copy."""
    cache = DynamicCache()
    kind: Any = DynamicLayer
    for keys, values in zip(tensors[::2], tensors[1::2], strict=True):
        layer = kind()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def make_cross_cache(tensors: Sequence[Tensor]) -> EncoderDecoderCache:
    """EncoderDecoderCache with the given cross-attention keys and values."""
    return EncoderDecoderCache(DynamicCache(), make_cache(tensors))


def get_cache_tensors(cache: DynamicCache) -> tuple[Tensor, ...]:
    """Keys and values of a cache, layer after layer."""
    layers: Any = cache.layers
    return tuple(tensor for layer in layers for tensor in (layer.keys, layer.values))


def split_heads(states: Tensor, size: int) -> Tensor:
    """(n, heads, t, size) of (n, t, heads · size)."""
    return states.view(*states.shape[:-1], -1, size).transpose(1, 2)


class GenerativeModel(HFModel, ABC):
    """Base of models that give the probability of text under an image.

    Attributes:
        noise_mean: mean of noise images, in normalized pixels.
        noise_std: standard deviation of noise images, in normalized pixels.
    """

    text_inputs: CausalTextInputs

    def __init__(
        self,
        checkpoint: Checkpoint,
        network: Any,
        family: str,
        text_inputs: CausalTextInputs,
        *,
        noise: tuple[float, float],
        notes: Sequence[str] = (),
    ):
        self.noise_mean, self.noise_std = noise
        noise_note = (
            f"Noise images have mean {self.noise_mean:g} and standard deviation "
            f"{self.noise_std:g} in normalised pixels."
        )
        image_inputs = ImageInputs(checkpoint.image_processor())
        super().__init__(
            checkpoint, network, family, text_inputs, image_inputs, notes=(*notes, noise_note)
        )
        self._side = int(checkpoint.config.vision_config.image_size)

    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        """Gaussian noise images with the family's mean and standard deviation."""
        shape = (count, 3, self._side, self._side)
        noise = np.random.default_rng(seed).normal(self.noise_mean, self.noise_std, shape)
        return list(torch.from_numpy(noise).float())

    @exact_inference
    def encode_images(self, images: Sequence[ImageLike]) -> list[EncodedImage]:
        """Encode images, with the keys and values that captions attend to."""
        return self._make_reusable(self._encode(images)).split() if images else []

    @abstractmethod
    def _encode(self, images: Sequence[ImageLike]) -> EncodedImages:
        """Encode images."""

    def _make_reusable(self, encoded: EncodedImages) -> EncodedImages:
        """Convert encoded images to the form that is reused for many captions."""
        return encoded

    def _deduplicate_pairs(
        self, images: Sequence[AnyImage], texts: Sequence[str]
    ) -> tuple[list[AnyImage], list[int]]:
        """Distinct images, and the index of each pair's image among them.

        Raises:
            InputError: there are not as many images as captions.
        """
        check_pairs(self.name, images, texts)
        return deduplicate(images)

    def _gather(self, images: Sequence[AnyImage]) -> EncodedImages:
        return gather_encoded(images, self._encode, self._make_reusable)


class HFCaptioner(GenerativeModel):
    """Captioner base class: log P of a caption's tokens and of its end (`lm`)."""

    lm_tokens = "caption+end"

    @exact_inference
    def token_logprobs(self, images: Sequence[AnyImage], texts: Sequence[str]) -> Ragged:
        """Log P of each token of a caption and of the end, given the image and those before."""
        distinct, indices = self._deduplicate_pairs(images, texts)
        return self._score_rows(distinct, indices, self.text_inputs.rows(texts), texts=texts)

    @property
    def text_masks(self) -> tuple[str, ...]:
        """Supported kinds of word masking."""
        return self.text_inputs.masks

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text before truncation, without special tokens."""
        return self.text_inputs.token_ids(texts)

    def _word_embedding(self) -> Any:
        """Word embedding that `_decode` uses."""
        return find_word_embedding(self.network)

    def _score_rows(
        self,
        images: Sequence[AnyImage],
        indices: Sequence[int],
        rows: Sequence[Sequence[int]],
        counted: Sequence[int] | None = None,
        texts: Sequence[str] = (),
    ) -> Ragged:
        """Log-probabilities of the counted tokens of rows, each under its image.

        Masked words of `texts` have zero embeddings, and log-probability 0.
        """
        packed = pack(rows, indices, counted=counted, device=self._device)
        encoded = self._gather(images).select(packed.row_images)
        masked = [self.text_inputs.mask_flags(text) for text in texts]
        flags = pack_zero_flags(masked, texts, packed) if texts else None
        with zero_embeddings(self._word_embedding(), flags):
            states = self._decode(packed, encoded)
        logprobs = ragged_logprobs(self._logits(packed.select(states)), packed)
        return zero_masked_logprobs(logprobs, masked) if texts else logprobs

    @abstractmethod
    def _decode(self, packed: PackedCaptions, encoded: EncodedImages) -> Tensor:
        """Hidden states (r, l, width) after each token."""

    @abstractmethod
    def _logits(self, states: Tensor) -> Tensor:
        """(t, vocabulary) logits of the token after each state."""
