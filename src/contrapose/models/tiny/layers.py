"""Transformer blocks, written out: attention with or without a second sequence to look at."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

KeyValue: TypeAlias = tuple[Tensor, Tensor]
"""Keys and values of a sequence, made already."""


class Attention(nn.Module):
    """Multi-head attention of a sequence to itself or to another."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self, x: Tensor, other: Tensor | KeyValue | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Attend from `x` to `other` (or itself); `mask` is true where looking is allowed."""
        source = x if other is None else other
        query = self._split(self.query(x))
        key, value = source if isinstance(source, tuple) else self.keyed(source)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def keyed(self, source: Tensor) -> KeyValue:
        """Keys and values (n, heads, t, …) of a sequence, for many that look at it."""
        key, value = self.key_value(source).chunk(2, dim=-1)
        return self._split(key), self._split(value)

    def _split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class Block(nn.Module):
    """Self-attention, cross-attention where there is something to look at, and a small network."""

    def __init__(self, width: int, heads: int, *, cross: bool = False):
        super().__init__()
        self.norm_self = nn.LayerNorm(width)
        self.attend = Attention(width, heads)
        self.norm_cross = nn.LayerNorm(width) if cross else None
        self.look = Attention(width, heads) if cross else None
        self.norm_think = nn.LayerNorm(width)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(
        self, x: Tensor, mask: Tensor | None = None, image: Tensor | KeyValue | None = None
    ) -> Tensor:
        """One step of the residual stream."""
        x = x + self.attend(self.norm_self(x), mask=mask)
        if self.look is not None and self.norm_cross is not None:
            x = x + self.look(self.norm_cross(x), image)
        return x + self.think(self.norm_think(x))  # type: ignore[no-any-return]


def initialise(module: nn.Module) -> None:
    """Small normal weights, as in BERT and ViT."""
    for each in module.modules():
        if isinstance(each, nn.Linear | nn.Embedding):
            nn.init.normal_(each.weight, std=0.02)
        if isinstance(each, nn.Linear) and each.bias is not None:
            nn.init.zeros_(each.bias)
        if isinstance(each, nn.Conv2d):
            nn.init.kaiming_normal_(each.weight, nonlinearity="relu")


def unit(x: Tensor) -> Tensor:
    """Vectors of length 1, in float32."""
    return F.normalize(x.float(), dim=-1)


def arange_like(x: Tensor) -> Tensor:
    """0, 1, 2, … along the second dimension of `x`."""
    return torch.arange(x.shape[1], device=x.device)
