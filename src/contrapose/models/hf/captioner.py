"""What models share that give the probability of words under an image.

Every image is looked at once. Captions of one image lie in one row behind or beside what was seen
of it (`contrapose.models.packing`), and only the states that foretell a counted token meet the
vocabulary. A family says what is seen, and what the network makes of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models.capabilities import ModelCard
from contrapose.models.hf.fusion import in_words
from contrapose.models.hf.inputs import Pictures
from contrapose.models.hiding import packed_flags, without_hidden, word_embedding, zeroed
from contrapose.models.packing import Packed, pack, ragged
from contrapose.models.precise import precise
from contrapose.models.seen import Seen, gathered, unique

if TYPE_CHECKING:
    from contrapose.models.capabilities import Looked, Picture, Prepared, Ragged, Sight
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.hf.wording import Wording


class Speaker:
    """A network that says how likely words are under an image; each family adds what it can do.

    Attributes:
        name: the canonical model string.
        fingerprint: hash of all that its answers hang on.
        batch_size: pairs at once, when the user does not say.
        network: the library's own class.
        wording: its tokeniser with its limits.
        pictures: its image preprocessing.
        card: what a user should know of it.
        noise_mean: of noise images, in normalised pixels.
        noise_std: likewise.
        pixel_mean: the colour that is zero for the network.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        network: Any,
        family: str,
        wording: Wording,
        *,
        noise: tuple[float, float],
        notes: Sequence[str] = (),
    ):
        options = checkpoint.options
        self.name = checkpoint.name
        self.fingerprint = checkpoint.fingerprint
        self.batch_size = 32
        self.network = network
        self.wording = wording
        self.pictures = Pictures(checkpoint.image_processor())
        self.pixel_mean = self.pictures.mean
        self.noise_mean, self.noise_std = noise
        self.card = ModelCard(
            family=family,
            parameters=sum(weight.numel() for weight in network.parameters()),
            dtype=options.dtype,
            preprocessing=in_words(self.pictures),
            context=wording.context,
            notes=(
                *notes,
                f"Noise images have mean {self.noise_mean:g} and standard deviation "
                f"{self.noise_std:g} in normalised pixels.",
            ),
        )
        self._side = int(checkpoint.config.vision_config.image_size)
        self._device = torch.device(options.device)
        self._dtype = options.torch_dtype

    @property
    def context(self) -> int:
        """Most tokens of a caption, with start and end."""
        return self.wording.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are cut."""
        return self.wording.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut, with start and end."""
        return self.wording.counts(texts)

    def prepare_image(self, image: Image) -> Prepared:
        """An image as the network takes it, but for normalising."""
        return self.pictures.prepare(image)

    def normalise_image(self, prepared: Prepared) -> Prepared:
        """A prepared image, normalised."""
        return self.pictures.normalise(prepared)

    def noise_images(self, count: int, seed: int) -> list[Tensor]:
        """Pixels without content: Gaussian noise about the family's mean."""
        shape = (count, 3, self._side, self._side)
        noise = np.random.default_rng(seed).normal(self.noise_mean, self.noise_std, shape)
        return list(torch.from_numpy(noise).float())

    @precise
    def look(self, images: Sequence[Picture]) -> list[Looked]:
        """What is seen of images, with the keys and values that captions will attend to."""
        return self._keep(self._see(images)).looked() if images else []

    def _see(self, images: Sequence[Picture]) -> Seen:
        """What the network makes of images by itself."""
        raise NotImplementedError

    def _keep(self, seen: Seen) -> Seen:
        """What is kept of it for many captions."""
        return seen

    def _pixels(self, images: Sequence[Picture]) -> Tensor:
        return self.pictures.stack(images, self._device, self._dtype)["pixel_values"]

    def _pairs(
        self, images: Sequence[Sight], texts: Sequence[str]
    ) -> tuple[list[Sight], list[int]]:
        """The distinct images, and which of them each pair has.

        Raises:
            InputError: there are not as many images as captions.
        """
        if len(images) != len(texts):
            raise InputError(
                f"{self.name} is asked about pairs: {len(images)} images were given with "
                f"{len(texts)} captions."
            )
        return unique(images)

    def _gathered(self, sights: Sequence[Sight]) -> Seen:
        return gathered(sights, self._see, self._keep)


class Captioner(Speaker):
    """A speaker that continues text: log P of a caption's tokens and of its end (`lm`)."""

    lm_tokens = "caption+end"

    @precise
    def token_logprobs(self, images: Sequence[Sight], texts: Sequence[str]) -> Ragged:
        """Log P of each token of a caption and of the end, given the image and those before."""
        sights, places = self._pairs(images, texts)
        return self._likely(sights, places, self.wording.rows(texts), texts=texts)

    @property
    def text_masks(self) -> tuple[str, ...]:
        """How it can hide words."""
        return self.wording.masks

    def _table(self) -> Any:
        """The table of word vectors that `_read` reads."""
        return word_embedding(self.network)

    def _likely(
        self,
        sights: Sequence[Sight],
        places: Sequence[int],
        rows: Sequence[Sequence[int]],
        counted: Sequence[int] | None = None,
        texts: Sequence[str] = (),
    ) -> Ragged:
        """Log-probabilities of the counted tokens of rows, each under one of the images.

        Of captions some words may be hidden: they are zeros for the network, and count as 0.
        """
        packed = pack(rows, places, counted=counted, device=self._device)
        seen = self._gathered(sights).rows(packed.rows)
        hidden = [self.wording.hidden(text) for text in texts]
        with zeroed(self._table(), packed_flags(hidden, texts, packed) if texts else None):
            states = self._read(packed, seen)
        found = ragged(self._words(packed.chosen(states)), packed)
        return without_hidden(found, hidden) if texts else found

    def _read(self, packed: Packed, seen: Seen) -> Tensor:
        """(r, l, width) what the network knows after each token."""
        raise NotImplementedError

    def _words(self, states: Tensor) -> Tensor:
        """(t, vocabulary) logits of the token after each state."""
        raise NotImplementedError
