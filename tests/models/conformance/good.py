"""A model that does everything as it should, plainly written, for others to break."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import (
    EncodedImage,
    FrameTiming,
    ModelCard,
    Prompt,
    QuestionTemplate,
    Ragged,
    Reply,
)
from contrapose.models.masking.text import MaskedText, flag_by_offsets, full_caption

SIDE, WIDTH, CONTEXT = 4, 8, 24

WEIGHTS = torch.from_numpy(np.random.default_rng(0).normal(size=(3 * SIDE * SIDE, WIDTH))).float()


def joined(each: Sequence[Tensor]) -> Ragged:
    """Numbers of captions one after another."""
    return Ragged(torch.cat(list(each)), np.cumsum([0, *map(len, each)]).tolist())


@cache
def random_row(*seed: int) -> NDArray[np.float64]:
    """(WIDTH,) numbers that depend on the seed alone."""
    return np.random.default_rng(seed).normal(size=WIDTH)


class Good:
    """Vectors of pixels and of words; pairs are judged by products of the two."""

    noise_mean, noise_std = 0.0, 1.0
    max_frames = 4
    video_input = "images"
    text_masks: tuple[str, ...] = ("zero",)

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

    def prepare_video(self, frames: Sequence[Image.Image], timing: FrameTiming) -> Tensor:
        weighted = [self.prepare_image(frame) * (i + 1) for i, frame in enumerate(frames)]
        return torch.stack(weighted).mean(dim=0)

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        return [len(full_caption(text).split()) + 2 for text in texts]

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
            -torch.nn.functional.softplus(words @ seen.tanh()) * words.any(dim=1)
            for words, seen in zip(self.words(texts), self.sights(images), strict=True)
        ]
        return joined(each)

    def text_logprobs(self, texts: Sequence[str]) -> Ragged:
        return joined(
            [-torch.nn.functional.softplus(words.sum(dim=1)) for words in self.words(texts)]
        )

    def answer_logprobs(
        self, images: Sequence[Any], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        self.require_pairs(images, texts)
        said = f"{question.text} {question.answer}"
        asked = torch.from_numpy(random_row(*said.encode())).float()
        read = torch.stack([words.mean(dim=0) for words in self.words(texts)])
        return -torch.nn.functional.softplus((self.sights(images).tanh() * read + asked).sum(dim=1))

    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        return [
            Reply(f"{sum(prompt.text.encode())} {len(prompt.images)}", {"1": -0.5}, 9, 2)
            for prompt in prompts
        ]

    def encode_images(self, images: Sequence[Any]) -> list[EncodedImage]:
        return [EncodedImage(row) for row in self.looked(images)]

    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return [torch.randn(3, SIDE, SIDE, generator=generator) for _ in range(count)]

    def sights(self, images: Sequence[Any]) -> Tensor:
        """Vectors of images, some of which may have been looked at before."""
        new = [image for image in images if not isinstance(image, EncodedImage)]
        rows = iter(self.looked(new) if new else ())
        return torch.stack(
            [image.state if isinstance(image, EncodedImage) else next(rows) for image in images]
        )

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
            kept = [*full_caption(text).split()[: self.context - 2], "."]
            rows = [random_row(*word.encode(), place) for place, word in enumerate(kept)]
            found.append(torch.from_numpy(np.array(rows)).float())
            if isinstance(text, MaskedText):
                found[-1][: len(kept) - 1][self.hidden(text)[: len(kept) - 1]] = 0.0
        return found

    @staticmethod
    def hidden(text: MaskedText) -> Tensor:
        """Which words are hidden."""
        places = [match.span() for match in re.finditer(r"\S+", text.caption)]
        return torch.tensor(flag_by_offsets(places, text.caption, text.hidden))

    @staticmethod
    def require_pairs(images: Sequence[Any], texts: Sequence[str]) -> None:
        if len(images) != len(texts):
            raise ValueError(f"{len(images)} images with {len(texts)} captions")
