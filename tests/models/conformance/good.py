"""A model that does everything as it should, plainly written, for others to break."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import ModelCard, Ragged

SIDE, WIDTH, CONTEXT = 4, 8, 24

WEIGHTS = torch.from_numpy(np.random.default_rng(0).normal(size=(3 * SIDE * SIDE, WIDTH))).float()


class Good:
    """Vectors of pixels and of words; pairs are judged by products of the two."""

    def __init__(self) -> None:
        self.name = "good"
        self.fingerprint = "good-1"
        self.batch_size = 4
        self.context = CONTEXT
        self.cuts = False
        self.lm_tokens = "caption+end"
        self.head = torch.nn.Identity().eval()

    @property
    def card(self) -> ModelCard:
        return ModelCard("Good", WEIGHTS.numel(), "fp32", "resized to 4 × 4", self.context)

    def prepare_image(self, image: Image.Image) -> Tensor:
        small = np.array(image.convert("RGB").resize((SIDE, SIDE)), dtype=np.float32)
        return torch.from_numpy(small).permute(2, 0, 1) / 127.5 - 1

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) + 2 for text in texts]

    def embed_images(self, images: Sequence[Any]) -> Tensor:
        return torch.nn.functional.normalize(self.looked(images), dim=-1)

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        vectors = torch.stack([words.mean(dim=0) for words in self.words(texts)])
        return torch.nn.functional.normalize(vectors, dim=-1)

    def match(self, images: Sequence[Any], texts: Sequence[str]) -> Tensor:
        self.require_pairs(images, texts)
        read = torch.stack([words.mean(dim=0) for words in self.words(texts)])
        return (self.looked(images).tanh() * read).sum(dim=1)

    def token_logprobs(self, images: Sequence[Any], texts: Sequence[str]) -> Ragged:
        self.require_pairs(images, texts)
        each = [
            -torch.nn.functional.softplus(words @ seen.tanh())
            for words, seen in zip(self.words(texts), self.looked(images), strict=True)
        ]
        offsets = np.cumsum([0, *map(len, each)]).tolist()
        return Ragged(torch.cat(each), offsets)

    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return [torch.randn(3, SIDE, SIDE, generator=generator) for _ in range(count)]

    def looked(self, images: Sequence[Any]) -> Tensor:
        ready = [
            image if isinstance(image, Tensor) else self.prepare_image(image) for image in images
        ]
        flat = torch.stack([pixels.reshape(-1) for pixels in ready])
        return (flat[:, :, None] * WEIGHTS).sum(dim=1)  # the same sum whatever the batch

    def words(self, texts: Sequence[str]) -> list[Tensor]:
        """A vector for each word and for the end, which differs with the place."""
        found = []
        for text, count in zip(texts, self.token_counts(texts), strict=True):
            if count == 2:
                raise InputError("a caption is empty.")
            if count > self.context and not self.cuts:
                raise InputError(f"a caption has {count} tokens; good reads {self.context}.")
            kept = [*text.split()[: self.context - 2], "."]
            seeds = ([*word.encode(), place] for place, word in enumerate(kept))
            rows = [np.random.default_rng(seed).normal(size=WIDTH) for seed in seeds]
            found.append(torch.from_numpy(np.array(rows)).float())
        return found

    @staticmethod
    def require_pairs(images: Sequence[Any], texts: Sequence[str]) -> None:
        if len(images) != len(texts):
            raise ValueError(f"{len(images)} images with {len(texts)} captions")
