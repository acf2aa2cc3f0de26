"""What a model can do, as protocols: a class that has the methods is a model, no base class.

Every model has a name and a fingerprint; beyond that it gives one or more of three answers.
Results must not depend on how a list is cut into batches: the same pair asked in another batch
gets the same number to 1e-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    Picture: TypeAlias = Image | Tensor
    """A decoded RGB image; or pixels in the model's own normalised space, (channels, height,
    width), as only its own `noise_images` makes them."""


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """One number a token, caption after caption.

    Attributes:
        values: (tokens,) all captions' token log-probabilities.
        offsets: (captions + 1,) where each caption's tokens begin, and the end.
    """

    values: Tensor
    offsets: Tensor | Sequence[int]


@runtime_checkable
class Model(Protocol):
    """What every model says of itself."""

    @property
    def name(self) -> str:
        """The canonical name, as the user would type it."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, configuration and preprocessing: the same numbers, the same hash."""

    @property
    def batch_size(self) -> int:
        """How many images, captions or pairs to give at once, when the user does not say."""


@runtime_checkable
class Encoder(Model, Protocol):
    """A dual encoder: images and captions become vectors on their own (score `itc`)."""

    def embed_images(self, images: Sequence[Image]) -> Tensor:
        """(n, d) vectors of unit length."""

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """(n, d) vectors of unit length."""


@runtime_checkable
class Matcher(Model, Protocol):
    """A fusion encoder: an image and a caption are looked at together (score `itm`)."""

    def match(self, images: Sequence[Image], texts: Sequence[str]) -> Tensor:
        """(n,) logits, the i-th image with the i-th caption.

        Images that are the same object need be encoded only once.
        """


@runtime_checkable
class Captioner(Model, Protocol):
    """A model that gives a caption's probability, token by token (scores `lm` and `prior`)."""

    @property
    def lm_tokens(self) -> str:
        """Which tokens the log-probabilities are of, such as `caption+end`.

        Part of the score's identity: numbers over other tokens are another score.
        """

    def token_logprobs(self, images: Sequence[Picture], texts: Sequence[str]) -> Ragged:
        """Log P(t_k | t_<k, I) of each counted token, the i-th image with the i-th caption.

        Images that are the same object need be encoded only once.
        """

    def noise_images(self, count: int, seed: int) -> Sequence[Picture]:
        """Content-free images for the prior: Gaussian noise in the normalised pixel space."""
