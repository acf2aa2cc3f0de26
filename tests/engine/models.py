"""Fake models with a token limit, preprocessing, limited memory, refusals or image encoding."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from PIL import Image

from contrapose.errors import InputError
from contrapose.models import EncodedImage, QuestionTemplate, Ragged
from tests.fakes import Fake, Tower, number, seen


@dataclass
class Reading(Fake):
    """Counts words as tokens up to a limit; longer captions are refused, or truncated."""

    context: int = 6
    cuts: bool = False
    counted: list[str] = field(default_factory=list)

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        self.counted += texts
        return [len(text.split()) + 1 for text in texts]

    def _read(self, texts: Sequence[str]) -> list[str]:
        if not self.cuts and any(len(text.split()) + 1 > self.context for text in texts):
            raise InputError("a caption is too long.")
        return [" ".join(text.split()[: self.context - 1]) for text in texts]

    def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        return super().embed_texts(self._read(texts))

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        return super().match(images, self._read(texts))


@dataclass
class Preparing(Tower):
    """Preprocesses images to their mean color; records the threads."""

    threads: set[int] = field(default_factory=set)
    prepared: list[str] = field(default_factory=list)
    calls: list[list[torch.Tensor]] = field(default_factory=list)

    def prepare_image(self, image: Image.Image) -> torch.Tensor:
        self.threads.add(threading.get_ident())
        pixel = image.resize((1, 1)).getpixel((0, 0))
        self.prepared.append(str(pixel))
        return torch.tensor(pixel)

    def embed_images(self, images: Sequence[Image.Image | torch.Tensor]) -> torch.Tensor:
        assert all(isinstance(image, torch.Tensor) for image in images)
        shown = [Image.new("RGB", (1, 1), tuple(image.tolist())) for image in images]  # type: ignore[union-attr]
        return super().embed_images(shown)

    def match(self, images: Sequence[torch.Tensor], texts: Sequence[str]) -> torch.Tensor:
        self.calls.append(list(images))
        return torch.tensor([float(len(text)) for text in texts])


@dataclass
class Small(Fake):
    """Runs out of memory above a batch size."""

    room: int = 3
    error: str = "CUDA out of memory. Tried to allocate 2 GiB"
    sizes: list[int] = field(default_factory=list)

    def _take(self, count: int) -> None:
        self.sizes.append(count)
        if count > self.room:
            raise RuntimeError(self.error)

    def embed_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        self._take(len(images))
        return super().embed_images(images)

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        self._take(len(texts))
        return super().match(images, texts)


@dataclass
class Picky(Fake):
    """Refuses every batch with a certain word in a caption."""

    word: str = "13"

    def _look(self, texts: Sequence[str]) -> None:
        for text in texts:
            if self.word in text.split():
                raise InputError(f"fake does not know the word in {text!r}.")

    def embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        self._look(texts)
        return super().embed_texts(texts)

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> torch.Tensor:
        self._look(texts)
        return super().match(images, texts)

    def token_logprobs(
        self, images: Sequence[Image.Image | torch.Tensor], texts: Sequence[str]
    ) -> Ragged:
        self._look(texts)
        return super().token_logprobs(images, texts)


@dataclass
class Seeing(Fake):
    """Encodes images ahead, and answers questions about them."""

    noise_mean: float = 0.5
    noise_std: float = 2.0
    looked: list[str] = field(default_factory=list)
    shown: int = 0
    lifted: float = 0.0

    def noise_images(self, count: int, seed: int) -> list[torch.Tensor]:
        return [
            self.noise_std * item + self.noise_mean for item in super().noise_images(count, seed)
        ]

    def encode_images(self, images: Sequence[Image.Image | torch.Tensor]) -> list[EncodedImage]:
        self.looked += map(seen, images)
        return [EncodedImage(image) for image in images]

    def token_logprobs(
        self, images: Sequence[Image.Image | torch.Tensor | EncodedImage], texts: Sequence[str]
    ) -> Ragged:
        return super().token_logprobs(self._pictures(images), texts)

    def answer_logprobs(
        self,
        images: Sequence[Image.Image | torch.Tensor | EncodedImage],
        texts: Sequence[str],
        question: QuestionTemplate,
    ) -> torch.Tensor:
        self._tick()
        asked = [
            (seen(image), question.about(text))
            for image, text in zip(self._pictures(images), texts, strict=True)
        ]
        self.pairs += asked
        return torch.tensor([self.lifted - 4 * number(*pair, question.answer) for pair in asked])

    def _pictures(
        self, images: Sequence[Image.Image | torch.Tensor | EncodedImage]
    ) -> list[Image.Image | torch.Tensor]:
        self.shown += sum(not isinstance(image, EncodedImage) for image in images)
        return [image.state if isinstance(image, EncodedImage) else image for image in images]


@dataclass
class Reader:
    """A language model: a word's probability depends on its letters and its position."""

    name: str = "reader"
    fingerprint: str = "reader-1"
    batch_size: int = 4
    lm_tokens: str = "caption"
    read: list[str] = field(default_factory=list)

    def text_logprobs(self, texts: Sequence[str]) -> Ragged:
        self.read += texts
        words = [text.split() for text in texts]
        values = [-number(word, i) for item in words for i, word in enumerate(item)]
        offsets = [0]
        for item in words:
            offsets.append(offsets[-1] + len(item))
        return Ragged(torch.tensor(values), offsets)
