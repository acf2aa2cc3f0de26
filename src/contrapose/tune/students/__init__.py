"""Trainable models: the built-in ones, and CLIP, SigLIP and BLIP of transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from torch import Tensor, nn

from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.capabilities import Model
from contrapose.models.names import parse_name
from contrapose.models.registry import model_names
from contrapose.tune.data.rows import TrainingImages

Inputs = dict[str, Tensor]
"""Named tensors with a row each, as the network takes them."""


def slice_rows(inputs: Inputs, rows: slice) -> Inputs:
    """Slice the rows of each input tensor."""
    return {name: it[rows] for name, it in inputs.items()}


class ImageOutputs(NamedTuple):
    """Outputs of the image encoder.

    Attributes:
        vectors: (b, d) of unit length.
        states: (b, t, w) what a network that judges or writes captions looks at; None without one.
    """

    vectors: Tensor
    states: Tensor | None


class Student(Protocol):
    """A trainable dual encoder or fusion model, which can also be evaluated as a model."""

    @property
    def model(self) -> Model:
        """The model interface to the same network, for evaluation."""

    @property
    def network(self) -> nn.Module:
        """The network to train."""

    @property
    def rate(self) -> float:
        """Default learning rate."""

    @property
    def contrast(self) -> Literal["softmax", "sigmoid"]:
        """The contrastive loss of its pretraining."""

    @property
    def matches(self) -> bool:
        """Whether it has an image-text matching head."""

    @property
    def writes(self) -> bool:
        """Whether it has a captioning decoder."""

    @property
    def hides(self) -> bool:
        """Whether it can encode captions with masked words."""

    @property
    def steady(self) -> bool:
        """Whether input shapes are fixed and no step synchronizes with the device."""

    @property
    def towers(self) -> Mapping[str, Sequence[nn.Module]]:
        """Modules of the image tower and of the text tower."""

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenize captions on the CPU, truncating long ones."""

    def pixels(self, images: TrainingImages, rows: Sequence[int]) -> Inputs:
        """Preprocess the images of some rows."""

    def see(self, pixels: Inputs) -> ImageOutputs:
        """Encode images."""

    def flags(self, texts: Sequence[str], tokens: Inputs) -> Tensor:
        """(n, l) mask of the tokens of hidden words, on the CPU; only if `hides`.

        Args:
            texts: some of them `MaskedText`.
            tokens: such as `tokens` gives, which tell the length of a row.

        Raises:
            InputError: the words of a text cannot be told apart.
        """

    def read(self, tokens: Inputs, hidden: Tensor | None = None) -> Tensor:
        """(b, d) unit vectors of captions.

        Args:
            tokens: of the captions.
            hidden: (b, l) those whose word vectors are to be zeros.
        """

    def scale(self) -> tuple[Tensor, Tensor | float]:
        """Logit scale and bias of cosines."""

    def match(self, states: Tensor, tokens: Inputs) -> Tensor:
        """(b,) match logits; only if `matches`."""

    def write(self, states: Tensor, tokens: Inputs) -> Tensor:
        """(b, n, v) next-token logits; only if `writes`."""

    def targets(self, tokens: Inputs) -> Tensor:
        """(b, n) target tokens of the captioning loss, −100 where ignored."""

    def save(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        """Write the model in its own format into an existing folder, for `load_model`."""


__all__ = ["ImageOutputs", "Inputs", "Student", "load_student"]


def load_student(name: str, *, device: str = "cpu") -> Student:
    """Load a model by name for training, in float32.

    Raises:
        InputError: there is no such model, or it is of a kind that cannot be taught here.
    """
    parsed = parse_name(name, model_names())
    if parsed.settings.get("dtype", "fp32") != "fp32":
        raise InputError(f"{name}: weights are taught in float32; --dtype bf16 computes in bf16.")
    model = load_model(name, device=device, cut=True)
    from contrapose.models.tiny.model import TinyClip

    if isinstance(model, TinyClip):
        from contrapose.tune.students.tiny import TinyStudent

        return TinyStudent(model)
    if parsed.scheme in ("hf", "folder"):
        from contrapose.models.hf.blip import Blip
        from contrapose.models.hf.checkpoint import fetch
        from contrapose.models.hf.dual import DualEncoder
        from contrapose.tune.students.hf import BlipStudent, DualStudent

        if isinstance(model, DualEncoder | Blip):
            source: Path = fetch(parsed.body, parsed.revision, name)[0]
            if isinstance(model, Blip):
                return BlipStudent(model, source)
            return DualStudent(model, source)
    raise InputError(
        f"{name} cannot be tuned here: tiny, tiny-clip, and CLIP, SigLIP and BLIP (with its "
        "matching head) of transformers can."
    )
