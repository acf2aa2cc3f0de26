"""The model alone: everything decoded, preprocessed, tokenised and batched before the clock runs.

What a job costs beyond this is overhead, and the decoding that nobody can do without.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from scorejob.clip_benchmark_way import transform
from scorejob.job import Job
from scorejob.ways import Scores, Way

IMAGES, CAPTIONS = 64, 64
"""Sizes of the batches."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Bare:
    """The library's model on batches that are ready; says where its time went.

    Attributes:
        decoding: seconds that reading, decoding and preprocessing took, in one thread.
        seconds: of the last run, by tower.
    """

    def __init__(self, job: Job, weights: Path, device: str, dtype: str):
        from transformers import AutoTokenizer, CLIPModel

        self.job, self.device = job, device
        library: Any = CLIPModel
        self.model: Any = library.from_pretrained(weights, dtype=DTYPES[dtype]).to(device).eval()
        start = time.perf_counter()
        pixels = [transform(Image.open(job.images / name)) for name in job.names]
        self.decoding = time.perf_counter() - start
        self.images = [
            torch.stack(pixels[i : i + IMAGES]).to(device, DTYPES[dtype])
            for i in range(0, len(pixels), IMAGES)
        ]
        tokenizer = AutoTokenizer.from_pretrained(weights)
        ids = [tokenizer(text)["input_ids"] for text in job.captions]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        self.texts: list[Tensor] = []
        for i in range(0, len(ids), CAPTIONS):
            rows = [ids[j] for j in order[i : i + CAPTIONS]]
            wide = max(map(len, rows))
            padded = [row + [tokenizer.pad_token_id] * (wide - len(row)) for row in rows]
            self.texts.append(torch.tensor(padded, device=device))
        self.tokens = sum(map(len, ids))
        image_at = {name: i for i, name in enumerate(job.names)}
        text_at = {job.captions[j]: i for i, j in enumerate(order)}
        self.shown = [image_at[row.image] for row in job.rows]
        self.said = [[text_at[row.caption], text_at[row.negative]] for row in job.rows]
        self.seconds: dict[str, float] = {}

    def run(self) -> Scores:
        """The job from here on."""
        seen, read = (_unit(found) for found in self.called(self.images, self.texts))
        return np.asarray(np.einsum("kd,kjd->kj", seen[self.shown], read[self.said]))

    def called(self, images: list[Tensor], texts: list[Tensor]) -> tuple[list[Any], list[Any]]:
        """What the towers give for batches."""
        with torch.inference_mode():
            seen = self._timed(
                "image tower",
                lambda: [self.model.get_image_features(pixel_values=each) for each in images],
            )
            read = self._timed(
                "text tower",
                lambda: [self.model.get_text_features(input_ids=each) for each in texts],
            )
        return seen, read

    def warm(self) -> Scores:
        """A tenth of the batches, as the others get a tenth of the rows."""
        self.called(*(some[: len(some) // 10 + 1] for some in (self.images, self.texts)))
        return np.empty((0, 2))

    def _timed(self, name: str, work: Callable[[], list[Any]]) -> list[Any]:
        start = time.perf_counter()
        found = work()
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()
        self.seconds[name] = time.perf_counter() - start
        return found


def bare_way(bare: Bare, dtype: str) -> Way:
    """The towers alone, each image and caption once."""
    return Way(
        "model calls alone",
        dtype,
        lambda: lambda job: bare.run() if job is bare.job else bare.warm(),
        "all else done before",
    )


def _unit(found: list[Any]) -> Scores:
    parts = [each if isinstance(each, Tensor) else each.pooler_output for each in found]
    return np.asarray(normalize(torch.cat(parts).double(), dim=-1).cpu().numpy())
