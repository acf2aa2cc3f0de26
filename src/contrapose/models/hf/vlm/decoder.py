"""Decoder layers of a language model, run over an image prefix and all its captions at once.

The library's layers would need a dense mask over the full sequence, store keys and values of every
layer, and compute the last layer at positions that nobody reads. Here, with the same weights, a
prefix attends causally without a mask, only captions need one, and in the last layer a prefix has
keys, values and one state at its last position. It covers the layers in `LAYER_CLASSES` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

LAYER_CLASSES = {
    "LlamaModel": "LlamaDecoderLayer",
    "MistralModel": "MistralDecoderLayer",
    "Qwen2Model": "Qwen2DecoderLayer",
    "Qwen3Model": "Qwen3DecoderLayer",
    "Qwen2VLTextModel": "Qwen2VLDecoderLayer",
    "Qwen2_5_VLTextModel": "Qwen2_5_VLDecoderLayer",
}
"""Language models that consist of these layers, a norm and rotary positions."""
ROTARY_TYPES = ("default", "linear", "llama3", "yarn", "mrope")
"""Rotary positions that do not depend on the length of the sequence."""
MASK_ALIGNMENT = 8
"""Row length of a mask is padded to a multiple of this, as fast attention requires."""


def find_packing_obstacle(text_model: Any, head: Any) -> str:
    """Reason why captions cannot be packed behind a shared prefix; empty when they can."""
    kind, config = type(text_model), text_model.config
    if LAYER_CLASSES.get(kind.__name__) is None or not kind.__module__.startswith("transformers."):
        return f"its language model is a {kind.__name__}"
    if any(type(layer).__name__ != LAYER_CLASSES[kind.__name__] for layer in text_model.layers):
        return "its layers are not those of the library"
    types = getattr(config, "layer_types", None) or ["full_attention"]
    windowed = config.sliding_window if kind.__name__ == "MistralModel" else None
    if windowed or any(kind != "full_attention" for kind in types):
        return "its attention has a sliding window"
    parameters = getattr(config, "rope_parameters", None) or {}
    rotary = str(parameters.get("rope_type", "default"))
    if rotary not in ROTARY_TYPES:
        return f"its positions are {rotary!r}"
    if not isinstance(head, nn.Linear):
        return "its head is not a linear map"
    return ""


@dataclass(frozen=True, slots=True)
class KeyValueCache:
    """KV cache of a prefix: keys and values per layer, each (1, heads, tokens, width)."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    @property
    def length(self) -> int:
        """Number of tokens of the prefix."""
        return int(self.keys[0].shape[2])


class Decoder:
    """A language model's layers and head.

    Args:
        text_model: the library's language model, without a `find_packing_obstacle`.
        head: vocabulary head.
    """

    def __init__(self, text_model: Any, head: Any):
        config = text_model.config
        attention = text_model.layers[0].self_attn
        self.embed: nn.Module = text_model.get_input_embeddings()
        self.head = head
        self._layers = list(text_model.layers)[: config.num_hidden_layers]
        self._norm = text_model.norm
        self._rotary = text_model.rotary_emb
        self._width = int(attention.head_dim)
        self._heads = int(config.num_attention_heads)
        self._groups = self._heads // int(config.num_key_value_heads)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        device: torch.device = self.head.weight.device
        return device

    def run(
        self,
        embeds: Tensor,
        positions: Tensor,
        allowed: Tensor | None,
        *,
        prefix: int,
        past: KeyValueCache | None = None,
    ) -> tuple[Tensor, KeyValueCache | None]:
        """Hidden states after the last layer, before the norm.

        Args:
            embeds: (b, s, d) embedded tokens: prefixes of one length, then t tokens of texts.
            positions: (b, s), or (3, b, s) where positions have three axes.
            allowed: (b, 1 + t, k) attention mask of the prefix's last token and of the t tokens;
                (b, t, k) with a past; None where there are no texts.
            prefix: number of prefix tokens, which attend causally.
            past: KV cache of one prefix, shared by all rows.

        Returns:
            Hidden states (b, 1 + t, d) of the prefix's last token and of the t tokens, or (b, t, d)
            with a past; and the KV cache of the prefixes where there are no texts.
        """
        cosine, sine = self._rotary(embeds, positions)
        if cosine.ndim != 3:
            raise RuntimeError("this version of transformers has rotary positions of another kind")
        cosine, sine = cosine[:, :, None], sine[:, :, None]
        bias = None if allowed is None else self._bias(allowed, embeds.dtype)
        after = bias
        if allowed is not None and prefix:
            after = self._bias(allowed[:, 1:], embeds.dtype)
        batch, length, width = embeds.shape
        hidden = embeds.reshape(-1, width).clone()
        cached: tuple[list[Tensor], list[Tensor]] = ([], [])
        for number, layer in enumerate(self._layers):
            normed = _rms_norm(layer.input_layernorm, hidden).view(batch, length, width)
            key, value = self._keys(layer.self_attn, normed, cosine, sine)
            if allowed is None:
                cached[0].append(key)
                cached[1].append(value)
            if past is not None:
                key = _prepend_cache(past.keys[number], key)
                value = _prepend_cache(past.values[number], value)
            if number == len(self._layers) - 1 and prefix:
                needed = slice(prefix - 1, None)
                hidden = hidden.view(batch, length, width)[:, needed].reshape(-1, width)
                query = self._queries(
                    layer.self_attn, normed[:, needed], cosine[:, needed], sine[:, needed]
                )
                mixed = self._attend_masked(query, key, value, bias)
            else:
                query = self._queries(layer.self_attn, normed, cosine, sine)
                mixed = self._attend(query, key, value, after, prefix)
            _add_linear(hidden, mixed.reshape(len(hidden), -1), layer.self_attn.o_proj)
            normed = _rms_norm(layer.post_attention_layernorm, hidden)
            _add_linear(hidden, _apply_gate(layer.mlp, normed), layer.mlp.down_proj)
        past = KeyValueCache(tuple(cached[0]), tuple(cached[1])) if allowed is None else None
        return hidden.view(batch, -1, width), past

    def logprobs(
        self, states: Tensor, indices: Tensor, targets: Tensor, most: int = 1024
    ) -> Tensor:
        """Log P (m,) in float32 of target tokens after given states.

        Args:
            states: (n, d) hidden states.
            indices: (m,) on the CPU, the state that each token follows.
            targets: (m,) the tokens.
            most: number of states whose logits are computed at once.
        """
        logprobs = torch.empty(len(indices), dtype=torch.float32, device=states.device)
        for start in range(0, len(states), most):
            logits = self.head(_rms_norm(self._norm, states[start : start + most])).float()
            within = torch.nonzero((indices >= start) & (indices < start + most)).flatten()
            rows = (indices[within] - start).to(states.device)
            within = within.to(states.device)
            total = logits.logsumexp(dim=-1)
            logprobs[within] = logits[rows, targets[within]] - total[rows]
        return logprobs

    def _queries(self, attention: Any, normed: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Queries (b, s, heads, width)."""
        query = attention.q_proj(normed).view(*normed.shape[:2], -1, self._width)
        if hasattr(attention, "q_norm"):
            query = _rms_norm(attention.q_norm, query)
        return _rotate(query, cosine, sine)

    def _keys(
        self, attention: Any, normed: Tensor, cosine: Tensor, sine: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keys and values (b, heads, s, width)."""
        key = attention.k_proj(normed).view(*normed.shape[:2], -1, self._width)
        value = attention.v_proj(normed).view(*normed.shape[:2], -1, self._width)
        if hasattr(attention, "k_norm"):
            key = _rms_norm(attention.k_norm, key)
        return _rotate(key, cosine, sine).transpose(1, 2), value.transpose(1, 2)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, prefix: int
    ) -> Tensor:
        """Attention output (b, s, heads × width); the prefix needs no mask."""
        parts = []
        if prefix:
            first = F.scaled_dot_product_attention(
                query[:, :prefix].transpose(1, 2),
                key[:, :, :prefix],
                value[:, :, :prefix],
                is_causal=True,
                enable_gqa=self._groups > 1,
            )
            parts.append(first.transpose(1, 2).flatten(2))
        if query.shape[1] > prefix:
            parts.append(self._attend_masked(query[:, prefix:], key, value, bias))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _attend_masked(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Attention under a mask; queries that share a key head are stacked as rows."""
        batch, length = query.shape[:2]
        rows = query.view(batch, length, -1, self._groups, self._width)
        rows = rows.permute(0, 2, 3, 1, 4).reshape(batch, -1, self._groups * length, self._width)
        mixed = F.scaled_dot_product_attention(rows, key, value, attn_mask=bias)
        mixed = mixed.view(batch, -1, self._groups, length, self._width)
        return mixed.permute(0, 3, 1, 2, 4).reshape(batch, length, -1)

    def _bias(self, allowed: Tensor, dtype: torch.dtype) -> Tensor:
        """Additive attention mask (b, 1, groups × rows, k)."""
        batch, rows, keys = allowed.shape
        room = -(-keys // MASK_ALIGNMENT) * MASK_ALIGNMENT
        bias = torch.full((batch, rows, room), -torch.inf, dtype=dtype, device=allowed.device)
        bias[:, :, :keys].masked_fill_(allowed, 0)
        return bias.repeat(1, self._groups, 1)[:, None, :, :keys]


def _rms_norm(norm: Any, states: Tensor) -> Tensor:
    return F.rms_norm(states, norm.weight.shape, norm.weight, norm.variance_epsilon)


def _rotate(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Apply rotary positions: (x₁ cos − x₂ sin, x₂ cos + x₁ sin) of the two halves."""
    half = states.shape[-1] // 2
    rotated = states * cosine
    rotated[..., :half].addcmul_(states[..., half:], sine[..., :half], value=-1)
    rotated[..., half:].addcmul_(states[..., :half], sine[..., half:])
    return rotated


def _apply_gate(mlp: Any, normed: Tensor) -> Tensor:
    gate = mlp.gate_proj(normed)
    gate = F.silu(gate, inplace=True) if isinstance(mlp.act_fn, nn.SiLU) else mlp.act_fn(gate)
    gated: Tensor = gate.mul_(mlp.up_proj(normed))
    return gated


def _add_linear(hidden: Tensor, states: Tensor, linear: Any) -> None:
    """Add a linear map of states to hidden states in place, fused where it has no bias."""
    if type(linear) is nn.Linear and linear.bias is None:
        hidden.addmm_(states, linear.weight.t())
    else:
        hidden.add_(linear(states))


def _prepend_cache(past: Tensor, new: Tensor) -> Tensor:
    """Prepend the cached keys or values of the prefix to those of each row."""
    return torch.cat([past.expand(len(new), -1, -1, -1), new], dim=2)
