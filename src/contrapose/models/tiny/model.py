"""The built-in models as the scoring engine sees them: what they can do, asked in batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models.capabilities import Ragged
from contrapose.models.tiny.network import Fusion, Network
from contrapose.models.tiny.tokeniser import END, MATCH, PAD, START, Tokeniser

Picture = Image | Tensor
"""A decoded image, or pixels (3, h, w) in −1 … 1 already."""

NOISE_MEAN, NOISE_STD = 0.25, 0.4
"""Gaussian noise in the network's own pixel range −1 … 1: about the mean and spread of scenes."""


class TinyClip:
    """A dual encoder: images and captions become vectors, compared by their cosine (ITC)."""

    def __init__(self, name: str, network: Network, words: Sequence[str], fingerprint: str):
        self.name = name
        self.fingerprint = fingerprint
        self.batch_size = 128
        self.network = network
        self.tokeniser = Tokeniser(words)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.network.log_scale.device

    @torch.inference_mode()
    def embed_images(self, images: Sequence[Image]) -> Tensor:
        """Unit vectors (n, d)."""
        image = self.network.image
        return image.embed(image(self.pixels(images)))

    @torch.inference_mode()
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d)."""
        vectors: Tensor = self.network.text(self.tokens(texts, START))
        return vectors

    def pixels(self, images: Sequence[Picture]) -> Tensor:
        """Pixels (n, 3, h, w) in −1 … 1, each image resized to a square."""
        return torch.stack([self._pixels(image) for image in images]).to(self.device)

    def _pixels(self, image: Picture) -> Tensor:
        if isinstance(image, Tensor):
            return image
        size = self.network.config.image_size
        if image.size != (size, size):
            image = image.resize((size, size), Resampling.BICUBIC)
        array = np.array(image.convert("RGB"))
        return to_range(torch.from_numpy(array)[None])[0]

    def tokens(self, texts: Sequence[str], first: int) -> Tensor:
        """Token numbers (n, l), each caption between `first` and END, padded.

        Raises:
            InputError: a caption is empty, or longer than the network can read.
        """
        rows = []
        for text in texts:
            tokens = self.tokeniser.encode(text)
            if not tokens:
                raise InputError("a caption is empty.")
            if len(tokens) + 2 > self.network.config.context:
                raise InputError(
                    f"the caption {text[:40]!r}… has {len(tokens)} tokens; {self.name} reads "
                    f"{self.network.config.context - 2}."
                )
            rows.append([first, *tokens, END])
        length = max(map(len, rows))
        padded = [row + [PAD] * (length - len(row)) for row in rows]
        return torch.tensor(padded, device=self.device)


class Tiny(TinyClip):
    """With a second network that looks at the image: judges captions (ITM), continues them (LM)."""

    @torch.inference_mode()
    def match(self, images: Sequence[Image], texts: Sequence[str]) -> Tensor:
        """Match logits (n,) of pairs."""
        return self._fusion().match(self.tokens(texts, MATCH), self._looked(images)).float()

    @torch.inference_mode()
    def token_logprobs(self, images: Sequence[Picture], texts: Sequence[str]) -> Ragged:
        """Log P of every caption token and of the end, given the image and the tokens before."""
        tokens = self.tokens(texts, START)
        logits = self._fusion().logits(tokens[:, :-1], self._looked(images)).float()
        after = tokens[:, 1:]
        chosen = logits.log_softmax(dim=-1).gather(2, after[:, :, None]).squeeze(2)
        real = after != PAD
        ends = real.sum(dim=1).cumsum(dim=0).tolist()
        return Ragged(chosen[real].cpu(), [0, *ends])

    @property
    def lm_tokens(self) -> str:
        """The caption's tokens and its end count, as in training; the start does not."""
        return "caption+end"

    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        """Pixels without content, for the language prior: Gaussian noise about scenes' mean."""
        size = self.network.config.image_size
        noise = np.random.default_rng(seed).normal(NOISE_MEAN, NOISE_STD, (count, 3, size, size))
        return list(torch.from_numpy(noise).float())

    def _looked(self, images: Sequence[Picture]) -> Tensor:
        """Image tokens; the same picture twice in a batch is looked at once."""
        unique = {id(image): image for image in images}
        place = {key: i for i, key in enumerate(unique)}
        tokens: Tensor = self.network.image(self.pixels(list(unique.values())))
        return tokens[torch.tensor([place[id(image)] for image in images], device=self.device)]

    def _fusion(self) -> Fusion:
        if self.network.fusion is None:
            raise InputError(f"{self.name} is a dual encoder: it gives itc alone.")
        return self.network.fusion


def to_range(images: Tensor) -> Tensor:
    """Bytes (n, h, w, 3) as pixels (n, 3, h, w) in −1 … 1."""
    return images.permute(0, 3, 1, 2).float() / 127.5 - 1
