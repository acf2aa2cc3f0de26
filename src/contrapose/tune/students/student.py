"""What can be taught: a network that turns prepared images and captions into unit vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from torch import Tensor, nn

from contrapose.models.capabilities import Model
from contrapose.tune.data.rows import Images

Inputs = dict[str, Tensor]
"""Named tensors with a row each, as the network takes them."""


def some_rows(inputs: Inputs, rows: slice) -> Inputs:
    """Some rows of each."""
    return {name: it[rows] for name, it in inputs.items()}


class Seen(NamedTuple):
    """Images after the encoder.

    Attributes:
        vectors: (b, d) of unit length.
        states: (b, t, w) what a network that judges or writes captions looks at; None without one.
    """

    vectors: Tensor
    states: Tensor | None


class Student(Protocol):
    """A model that can be taught; it is asked as a model while it learns."""

    @property
    def model(self) -> Model:
        """The same network as it is asked."""

    @property
    def network(self) -> nn.Module:
        """What is taught."""

    @property
    def rate(self) -> float:
        """A learning rate that suits it."""

    @property
    def contrast(self) -> Literal["softmax", "sigmoid"]:
        """The contrastive loss that it was trained with."""

    @property
    def matches(self) -> bool:
        """Whether it judges pairs."""

    @property
    def writes(self) -> bool:
        """Whether it writes captions."""

    @property
    def hides(self) -> bool:
        """Whether it reads captions with hidden words."""

    @property
    def steady(self) -> bool:
        """Whether its inputs always have the same shapes, and it never waits for the device."""

    @property
    def towers(self) -> Mapping[str, Sequence[nn.Module]]:
        """The parts of the network that see images and those that read captions."""

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Captions, on the CPU; those that are too long are cut."""

    def pixels(self, images: Images, rows: Sequence[int]) -> Inputs:
        """Some images, where they lie."""

    def see(self, pixels: Inputs) -> Seen:
        """What it makes of images."""

    def flags(self, texts: Sequence[str], tokens: Inputs) -> Tensor:
        """(n, l) the tokens of hidden words, on the CPU; only where it hides words.

        Args:
            texts: some of them `MaskedText`.
            tokens: such as `tokens` gives, which tell the length of a row.

        Raises:
            InputError: the words of a text cannot be told apart.
        """

    def read(self, tokens: Inputs, hidden: Tensor | None = None) -> Tensor:
        """(b, d) what it makes of captions, of unit length.

        Args:
            tokens: of the captions.
            hidden: (b, l) those whose word vectors are to be zeros.
        """

    def scale(self) -> tuple[Tensor, Tensor | float]:
        """What cosines are multiplied with, and what is added."""

    def match(self, states: Tensor, tokens: Inputs) -> Tensor:
        """(b,) match logits; only where it judges pairs."""

    def write(self, states: Tensor, tokens: Inputs) -> Tensor:
        """(b, n, v) logits of the token after each; only where it writes captions."""

    def targets(self, tokens: Inputs) -> Tensor:
        """(b, n) the tokens that logits are compared with, −100 where none counts."""

    def save(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        """Write it in its own format into a folder that is there, so that `load_model` finds it."""
