"""Keys and values as the transformers library takes and gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import DynamicLayer


def held(tensors: Sequence[Tensor]) -> DynamicCache:
    """Keys and values, layer after layer, as the library takes them; they are not copied."""
    cache = DynamicCache()
    kind: Any = DynamicLayer
    for keys, values in zip(tensors[::2], tensors[1::2], strict=True):
        layer = kind()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        cache.layers.append(layer)
    return cache


def crossed(tensors: Sequence[Tensor]) -> EncoderDecoderCache:
    """The same as keys and values of cross-attention, which are then not computed."""
    return EncoderDecoderCache(DynamicCache(), held(tensors))


def keys_and_values(cache: DynamicCache) -> tuple[Tensor, ...]:
    """What a cache holds, layer after layer."""
    layers: Any = cache.layers
    return tuple(each for layer in layers for each in (layer.keys, layer.values))


def split_heads(states: Tensor, size: int) -> Tensor:
    """(n, heads, t, size) of (n, t, heads · size)."""
    return states.view(*states.shape[:-1], -1, size).transpose(1, 2)
