"""Which language models are packed, and that those give what the library gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models.hf.vlm.small_vlm import CAPTIONS, hf, llava, opened, picture

YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
    "rope_theta": 1e4,
}
PACKED: dict[str, Any] = {
    "qwen2": hf.Qwen2Config,
    "qwen3": lambda **facts: hf.Qwen3Config(head_dim=16, **facts),
    "mistral": lambda **facts: hf.MistralConfig(sliding_window=None, **facts),
    "biases": lambda **facts: hf.LlamaConfig(attention_bias=True, mlp_bias=True, **facts),
    "yarn": lambda **facts: hf.LlamaConfig(rope_parameters=YARN, **facts),
    "llama3": lambda **facts: hf.LlamaConfig(rope_parameters=LLAMA3, **facts),
    "gelu": lambda **facts: hf.LlamaConfig(hidden_act="gelu", **facts),
    "as many keys": lambda **facts: hf.LlamaConfig(**(facts | {"num_key_value_heads": 4})),
}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
WHOLE: dict[str, tuple[Any, str]] = {
    "window": (lambda **facts: hf.MistralConfig(sliding_window=8, **facts), "sliding window"),
    "some windows": (
        lambda **facts: hf.Qwen2Config(
            use_sliding_window=True, sliding_window=8, max_window_layers=1, **facts
        ),
        "sliding window",
    ),
    "dynamic": (lambda **facts: hf.LlamaConfig(rope_parameters=DYNAMIC, **facts), "'dynamic'"),
    "gemma": (lambda **facts: hf.GemmaConfig(head_dim=16, **facts), "GemmaModel"),
}


@pytest.mark.parametrize("kind", PACKED)
def test_packed_is_as_whole(kind: str, tmp_path: Path) -> None:
    llava(tmp_path, text=PACKED[kind])
    model = opened(tmp_path)
    assert model._decoder is not None
    images = [picture(40, 40), picture(48, 32, 1)]
    shown = [images[0], images[1], images[0], images[1]]
    packed = model.token_logprobs(shown, CAPTIONS)
    kept = model.token_logprobs(model.encode_images(images) * 2, CAPTIONS)
    model._decoder = None
    whole = model.token_logprobs(shown, CAPTIONS)
    torch.testing.assert_close(packed.values, whole.values, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(kept.values, whole.values, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", WHOLE)
def test_others_are_not_packed(kind: str, tmp_path: Path) -> None:
    text, why = WHOLE[kind]
    llava(tmp_path, text=text)
    model = opened(tmp_path)
    assert model._decoder is None
    assert why in model.card.notes[-1]
