"""The built-in models as the scoring engine sees them: what they can do, asked in batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models.capabilities import ModelCard, Ragged
from contrapose.models.captions import check_caption
from contrapose.models.options import LoadOptions
from contrapose.models.precise import precise
from contrapose.models.tiny.network import Fusion, Network
from contrapose.models.tiny.tokeniser import END, MATCH, PAD, START, Tokeniser

Picture = Image | Tensor
"""A decoded image, or pixels (3, h, w) in −1 … 1 already."""

NOISE_MEAN, NOISE_STD = 0.25, 0.4
"""Gaussian noise in the network's own pixel range −1 … 1: about the mean and spread of scenes."""
ADDED = 2
"""Tokens that are added to every caption: the first, which says what is asked, and the end."""
ON_CPU, ELSEWHERE = 32, 128
"""Images, captions or pairs at once; on two cores 128 take a third longer than four times 32."""


class TinyClip:
    """A dual encoder: images and captions become vectors, compared by their cosine (ITC).

    Attributes:
        name: as the user would type it.
        fingerprint: of weights and of how they are loaded.
        batch_size: how many to give at once.
        network: on its device and in its dtype.
        tokeniser: from captions to token numbers.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        words: Sequence[str],
        fingerprint: str,
        options: LoadOptions | None = None,
    ):
        self.name = name
        self.fingerprint = fingerprint
        self.network = network
        self.batch_size = ON_CPU if self.device.type == "cpu" else ELSEWHERE
        self.tokeniser = Tokeniser(words)
        self._options = options or LoadOptions()

    @property
    def card(self) -> ModelCard:
        """What a user should know of it."""
        size = self.network.config.image_size
        alike = "CLIP" if self.network.fusion is None else "BLIP"
        return ModelCard(
            family=f"tiny ({alike}-like)",
            parameters=self.network.size,
            dtype=self._options.dtype,
            preprocessing=f"RGB, resized (bicubic) to {size}×{size}, whatever its shape, −1 … 1",
            context=self.context,
            notes=(
                "It has seen the built-in world alone, and not a photograph.",
                f"It knows {len(self.tokeniser.words)} words; others are spelled in bytes.",
            ),
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.network.log_scale.device

    @precise
    def embed_images(self, images: Sequence[Picture]) -> Tensor:
        """Unit vectors (n, d) in float32."""
        image = self.network.image
        return image.embed(image(self.pixels(images)))

    @precise
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (n, d) in float32.

        Raises:
            InputError: a caption is empty, or longer than the network reads.
        """
        vectors: Tensor = self.network.text(self.tokens(texts, START))
        return vectors

    def prepare_image(self, image: Image) -> Tensor:
        """Pixels (3, h, w) in −1 … 1, resized to a square."""
        size = self.network.config.image_size
        if image.size != (size, size):
            image = image.resize((size, size), Resampling.BICUBIC)
        array = np.array(image.convert("RGB"))
        return to_range(torch.from_numpy(array)[None])[0]

    @property
    def context(self) -> int:
        """Most tokens of a caption, with the first and the end."""
        return self.network.config.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are cut."""
        return self._options.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut, with the first and the end."""
        return [len(self.tokeniser.encode(text)) + ADDED for text in texts]

    def pixels(self, images: Sequence[Picture]) -> Tensor:
        """Pixels (n, 3, h, w) in −1 … 1, where and as the network takes them."""
        rows = [
            self.prepare_image(image) if isinstance(image, Image) else image for image in images
        ]
        return torch.stack(rows).to(self.device, self.network.log_scale.dtype)

    def tokens(self, texts: Sequence[str], first: int) -> Tensor:
        """Token numbers (n, l), each caption between `first` and END, padded.

        Raises:
            InputError: a caption is empty, or longer than the network reads and not to be cut.
        """
        rows = []
        for text in texts:
            tokens = self.tokeniser.encode(text)
            most = None if self.cuts else self.context
            check_caption(self.name, text, len(tokens) + ADDED, ADDED, most)
            rows.append([first, *tokens[: self.context - ADDED], END])
        length = max(map(len, rows))
        padded = [row + [PAD] * (length - len(row)) for row in rows]
        return torch.tensor(padded, device=self.device)


class Tiny(TinyClip):
    """With a second network that looks at the image: judges captions (ITM), continues them (LM)."""

    @precise
    def match(self, images: Sequence[Picture], texts: Sequence[str]) -> Tensor:
        """Match logits (n,) of pairs."""
        _require_pairs(images, texts)
        return self._fusion().match(self.tokens(texts, MATCH), self._looked(images)).float()

    @precise
    def token_logprobs(self, images: Sequence[Picture], texts: Sequence[str]) -> Ragged:
        """Log P of every caption token and of the end, given the image and the tokens before."""
        _require_pairs(images, texts)
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


def _require_pairs(images: Sequence[Picture], texts: Sequence[str]) -> None:
    """Refuse lists of unequal length, of which the network would pair one with all."""
    if len(images) != len(texts):
        raise InputError(f"{len(images)} images were given with {len(texts)} captions.")


def to_range(images: Tensor) -> Tensor:
    """Bytes (n, h, w, 3) as pixels (n, 3, h, w) in −1 … 1."""
    return images.permute(0, 3, 1, 2).float() / 127.5 - 1
