"""How near a tower comes to what the device's matrix products can do, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

SIDE = {"cpu": 2048, "cuda": 8192}
"""Of the square matrices whose product is the measure."""
BATCH = {"cpu": 32, "cuda": 256}
"""Images in the tower at once."""


def image_flops(weights: Path) -> float:
    """Floating-point operations of the image tower for one image, counted, not computed."""
    from transformers import CLIPConfig, CLIPVisionModelWithProjection

    config: Any = CLIPConfig.from_pretrained(weights).vision_config
    with torch.device("meta"):
        tower = CLIPVisionModelWithProjection(config)
        pixels = torch.empty(1, 3, config.image_size, config.image_size)
    return _counted(lambda: tower(pixel_values=pixels))


def token_flops(weights: Path, tokens: int) -> float:
    """The same of the text tower, a token of a caption of so many."""
    from transformers import CLIPConfig, CLIPTextModelWithProjection

    config: Any = CLIPConfig.from_pretrained(weights).text_config
    with torch.device("meta"):
        tower = CLIPTextModelWithProjection(config)
        ids = torch.zeros(1, tokens, dtype=torch.long)
    return _counted(lambda: tower(input_ids=ids)) / tokens


def matrix_rate(device: str, dtype: torch.dtype) -> float:
    """Operations a second of a large matrix product."""
    side = SIDE[torch.device(device).type]
    left = torch.randn(side, side, device=device).to(dtype)
    right = torch.randn(side, side, device=device).to(dtype)
    return 2 * side**3 / best(lambda: left @ right, device)


def tower_rate(model: Any, flops: float, device: str, dtype: torch.dtype) -> float:
    """Operations a second of the image tower in large batches."""
    count = BATCH[torch.device(device).type]
    side = model.config.vision_config.image_size
    pixels = torch.randn(count, 3, side, side, device=device).to(dtype)
    with torch.inference_mode():
        return count * flops / best(lambda: model.get_image_features(pixel_values=pixels), device)


def best(work: Callable[[], object], device: str, tries: int = 5) -> float:
    """Seconds of the fastest of some tries, after one to warm up."""
    found = []
    for _ in range(tries + 1):
        start = time.perf_counter()
        work()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return min(found[1:])


def _counted(work: Callable[[], object]) -> float:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        work()
    return float(counter.get_total_flops())
