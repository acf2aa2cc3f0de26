"""CLIP_benchmark's own task `image_caption_selection` on its own data set class SugarCrepe."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize
from torch.utils.data import DataLoader, default_collate

from scorejob.job import Job
from scorejob.ways import Asked, Scores, Way

BATCH, WORKERS, CONTEXT = 64, 4, 77
"""Its own defaults; captions are padded to the whole context, as open_clip's tokenizer does."""
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)


def clip_benchmark_way(weights: Path, device: str, *, amp: bool) -> Way | None:
    """CLIP_benchmark with `--no_amp`, or with the mixed precision that is its default."""
    if find_spec("clip_benchmark") is None:
        return None

    def load() -> Asked:
        from transformers import AutoTokenizer, CLIPModel

        evaluate = import_module("clip_benchmark.metrics.image_caption_selection").evaluate
        dataset = import_module("clip_benchmark.datasets.sugar_crepe").SugarCrepe
        library: Any = CLIPModel
        model = Recorded(library.from_pretrained(weights).to(device).eval())
        tokeniser = AutoTokenizer.from_pretrained(weights)

        def tokens(texts: list[str]) -> Tensor:
            found = tokeniser(texts, padding="max_length", max_length=CONTEXT, truncation=True)
            return torch.tensor(found["input_ids"])

        def ask(job: Job) -> Scores:
            rows = dataset(str(job.images), str(job.annotations), transform)
            loader = DataLoader(rows, BATCH, num_workers=WORKERS, collate_fn=collate)
            model.clear()
            with redirect_stderr(io.StringIO()):  # its progress bar
                evaluate(model, loader, tokens, device, amp=amp)
            return model.scores()

        return ask

    dtype = "fp32" if not amp else "bf16" if device == "cpu" else "fp16"
    how = "its default, mixed precision" if amp else "--no_amp"
    note = f"CLIP_benchmark {_version()}: image_caption_selection, {WORKERS} workers, {how}"
    return Way("CLIP_benchmark", dtype, load, note)


class Recorded:
    """A transformers model as the open_clip-like one that CLIP_benchmark asks for.

    It remembers what it gave, since the evaluator keeps accuracies only.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.images: list[Tensor] = []
        self.texts: list[Tensor] = []

    def encode_image(self, pixels: Tensor) -> Tensor:
        """Vectors of a batch of images."""
        found = self.model.get_image_features(pixel_values=pixels)
        self.images.append(_vectors(found))
        return self.images[-1]

    def encode_text(self, ids: Tensor) -> Tensor:
        """Vectors of a batch of captions."""
        found = self.model.get_text_features(input_ids=ids)
        self.texts.append(_vectors(found))
        return self.texts[-1]

    def scores(self) -> Scores:
        """Cosines of every image with its two captions."""
        images = normalize(torch.cat(self.images).double(), dim=-1)
        texts = normalize(torch.cat(self.texts).double(), dim=-1).view(len(images), 2, -1)
        return np.asarray(torch.einsum("id,ijd->ij", images, texts).cpu().numpy())


def _vectors(found: Any) -> Tensor:
    vectors: Tensor = found if isinstance(found, Tensor) else found.pooler_output
    return vectors


def transform(image: Image.Image) -> Tensor:
    """What open_clip's torchvision transform does to a PIL image, step by step, without it."""
    size = 224
    scale = size / min(image.size)
    wide, high = (max(size, int(side * scale)) for side in image.size)
    image = image.resize((wide, high), Image.Resampling.BICUBIC)
    left, top = round((wide - size) / 2), round((high - size) / 2)
    image = image.crop((left, top, left + size, top + size)).convert("RGB")
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
    return pixels.sub_(torch.tensor(MEAN).view(3, 1, 1)).div_(torch.tensor(STD).view(3, 1, 1))


def collate(batch: Sequence[tuple[Tensor, list[str]]]) -> tuple[Any, tuple[list[str], ...]]:
    """As CLIP_benchmark's builder does, which itself needs torchvision."""
    images, texts = zip(*batch, strict=True)
    return default_collate(list(images)), texts


def _version() -> str:
    try:
        return version("clip-benchmark")
    except PackageNotFoundError:
        return "of an unknown version"
