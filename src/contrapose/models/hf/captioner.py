"""Base classes of the generative models of the transformers library, and their KV caches.

Every image is looked at once. Captions of one image lie in one row behind or beside what was seen
of it (`contrapose.models.packing`), and only the states that foretell a counted token meet the
vocabulary. A family says what is seen, and what the network makes of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import DynamicLayer

from contrapose.errors import InputError
from contrapose.models.capabilities import ModelCard
from contrapose.models.encoded_images import EncodedImages, deduplicate, gather_encoded
from contrapose.models.exact import exact_inference
from contrapose.models.hf.fusion import describe_preprocessing
from contrapose.models.hf.inputs import ImageInputs
from contrapose.models.masking.embeddings import (
    find_word_embedding,
    pack_zero_flags,
    zero_embeddings,
    zero_masked_logprobs,
)
from contrapose.models.packing import PackedCaptions, pack, ragged_logprobs

if TYPE_CHECKING:
    from contrapose.arrays import Ragged
    from contrapose.models.capabilities import (
        AnyImage,
        EncodedImage,
        ImageLike,
        PreparedImage,
    )
    from contrapose.models.hf.causal_inputs import CausalTextInputs
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
    return tuple(each for layer in layers for each in (layer.keys, layer.values))


def split_heads(states: Tensor, size: int) -> Tensor:
    """(n, heads, t, size) of (n, t, heads · size)."""
    return states.view(*states.shape[:-1], -1, size).transpose(1, 2)


class GenerativeModel:
    """Base of models that give the probability of text under an image.

    Attributes:
        name: the canonical model string.
        fingerprint: hash of all that its answers hang on.
        batch_size: pairs at once, when the user does not say.
        network: the library's own class.
        wording: its tokeniser with its limits.
        pictures: its image preprocessing.
        card: what a user should know of it.
        noise_mean: of noise images, in normalised pixels.
        noise_std: likewise.
        pixel_mean: the colour that is zero for the network.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        network: Any,
        family: str,
        wording: CausalTextInputs,
        *,
        noise: tuple[float, float],
        notes: Sequence[str] = (),
    ):
        options = checkpoint.options
        self.name = checkpoint.name
        self.fingerprint = checkpoint.fingerprint
        self.batch_size = 32
        self.network = network
        self.wording = wording
        self.pictures = ImageInputs(checkpoint.image_processor())
        self.pixel_mean = self.pictures.mean
        self.noise_mean, self.noise_std = noise
        self.card = ModelCard(
            family=family,
            parameters=sum(weight.numel() for weight in network.parameters()),
            dtype=options.dtype,
            preprocessing=describe_preprocessing(self.pictures),
            context=wording.context,
            notes=(
                *notes,
                f"Noise images have mean {self.noise_mean:g} and standard deviation "
                f"{self.noise_std:g} in normalised pixels.",
            ),
        )
        self._side = int(checkpoint.config.vision_config.image_size)
        self._device = torch.device(options.device)
        self._dtype = options.torch_dtype

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, start and end included."""
        return self.wording.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self.wording.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        return self.wording.counts(texts)

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess an image; normalization may be left to the device."""
        return self.pictures.prepare(image)

    def normalize_image(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image."""
        return self.pictures.normalise(prepared)

    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        """Gaussian noise images with the family's mean and standard deviation."""
        shape = (count, 3, self._side, self._side)
        noise = np.random.default_rng(seed).normal(self.noise_mean, self.noise_std, shape)
        return list(torch.from_numpy(noise).float())

    @exact_inference
    def look(self, images: Sequence[ImageLike]) -> list[EncodedImage]:
        """Encode images, with the keys and values that captions attend to."""
        return self._keep(self._see(images)).looked() if images else []

    def _see(self, images: Sequence[ImageLike]) -> EncodedImages:
        """Encode images."""
        raise NotImplementedError

    def _keep(self, seen: EncodedImages) -> EncodedImages:
        """Convert encoded images to the form that is reused for many captions."""
        return seen

    def _pixels(self, images: Sequence[ImageLike]) -> Tensor:
        return self.pictures.stack(images, self._device, self._dtype)["pixel_values"]

    def _pairs(
        self, images: Sequence[AnyImage], texts: Sequence[str]
    ) -> tuple[list[AnyImage], list[int]]:
        """Distinct images, and the index of each pair's image among them.

        Raises:
            InputError: there are not as many images as captions.
        """
        if len(images) != len(texts):
            raise InputError(
                f"{self.name} is asked about pairs: {len(images)} images were given with "
                f"{len(texts)} captions."
            )
        return deduplicate(images)

    def _gathered(self, sights: Sequence[AnyImage]) -> EncodedImages:
        return gather_encoded(sights, self._see, self._keep)


class HFCaptioner(GenerativeModel):
    """Captioner base class: log P of a caption's tokens and of its end (`lm`)."""

    lm_tokens = "caption+end"

    @exact_inference
    def token_logprobs(self, images: Sequence[AnyImage], texts: Sequence[str]) -> Ragged:
        """Log P of each token of a caption and of the end, given the image and those before."""
        sights, places = self._pairs(images, texts)
        return self._likely(sights, places, self.wording.rows(texts), texts=texts)

    @property
    def text_masks(self) -> tuple[str, ...]:
        """Kinds of word masking that the model supports."""
        return self.wording.masks

    def _table(self) -> Any:
        """Word embedding that `_read` uses."""
        return find_word_embedding(self.network)

    def _likely(
        self,
        sights: Sequence[AnyImage],
        places: Sequence[int],
        rows: Sequence[Sequence[int]],
        counted: Sequence[int] | None = None,
        texts: Sequence[str] = (),
    ) -> Ragged:
        """Log-probabilities of the counted tokens of rows, each under its image.

        Of captions some words may be hidden: they are zeros for the network, and count as 0.
        """
        packed = pack(rows, places, counted=counted, device=self._device)
        seen = self._gathered(sights).rows(packed.rows)
        hidden = [self.wording.hidden(text) for text in texts]
        with zero_embeddings(
            self._table(), pack_zero_flags(hidden, texts, packed) if texts else None
        ):
            states = self._read(packed, seen)
        found = ragged_logprobs(self._words(packed.chosen(states)), packed)
        return zero_masked_logprobs(found, hidden) if texts else found

    def _read(self, packed: PackedCaptions, seen: EncodedImages) -> Tensor:
        """Hidden states (r, l, width) after each token."""
        raise NotImplementedError

    def _words(self, states: Tensor) -> Tensor:
        """(t, vocabulary) logits of the token after each state."""
        raise NotImplementedError
