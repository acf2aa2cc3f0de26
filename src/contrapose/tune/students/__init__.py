"""Trainable models: the built-in ones, CLIP, SigLIP and BLIP; their vectors before training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from contrapose.errors import InputError, option
from contrapose.models import load_model
from contrapose.models.capabilities import Model
from contrapose.models.masking.embeddings import make_zero_flags, zero_embeddings
from contrapose.models.names import parse_name
from contrapose.models.registry import model_names
from contrapose.models.tiny.model import TinyClip, scale_pixels
from contrapose.models.tiny.network import MATCH, PAD, START
from contrapose.models.tiny.weights import WEIGHT_FILE, write_weights
from contrapose.tune.data.rows import IndexArray, TrainingImages

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
            InputError: the tokens of a word cannot be identified.
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


class TinyStudent:
    """`tiny`, `tiny-clip`, or a model of the same architecture as a student."""

    rate = 2e-4
    contrast: Literal["softmax", "sigmoid"] = "softmax"
    steady = hides = True

    def __init__(self, model: TinyClip):
        self.model = model
        self.network = model.network
        self.matches = self.writes = model.network.fusion is not None

    @property
    def towers(self) -> Mapping[str, Sequence[nn.Module]]:
        """The two encoders; the fusion network belongs to neither."""
        return {"image": [self.network.image], "text": [self.network.text]}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Token ids, padded."""
        return {"tokens": self.model.tokens(texts, START).cpu()}

    def pixels(self, images: TrainingImages, rows: Sequence[int]) -> Inputs:
        """Bytes if in memory at the right size, else preprocessed pixels."""
        kept, size = images.pixels, self.network.config.image_size
        if kept is not None and kept.shape[1:3] == (size, size):
            return {"pixels": kept[torch.as_tensor(rows).to(kept.device, non_blocking=True)]}
        return {"pixels": torch.stack([self.model.prepare_image(i) for i in images.open(rows)])}

    def see(self, pixels: Inputs) -> ImageOutputs:
        """Image vectors, and image tokens if the model has a fusion network."""
        x = pixels["pixels"]
        tokens: Tensor = self.network.image(scale_pixels(x) if x.dtype == torch.uint8 else x)
        return ImageOutputs(self.network.image.embed(tokens), tokens if self.matches else None)

    def flags(self, texts: Sequence[str], tokens: Inputs) -> Tensor:
        """Mask of the tokens of hidden words."""
        width = tokens["tokens"].shape[1]
        flags = make_zero_flags([self.model.mask_flags(text) for text in texts], texts, width)
        return torch.zeros(len(texts), width, dtype=torch.bool) if flags is None else flags

    def read(self, tokens: Inputs, hidden: Tensor | None = None) -> Tensor:
        """Unit vectors of captions."""
        with zero_embeddings(self.network.text.words, hidden):
            vectors: Tensor = self.network.text(tokens["tokens"])
        return vectors

    def scale(self) -> tuple[Tensor, float]:
        """The learned logit scale, clamped at 100."""
        return self.network.log_scale.exp().clamp(max=100), 0.0

    def match(self, states: Tensor, tokens: Inputs) -> Tensor:
        """Match logits."""
        assert self.network.fusion is not None  # noqa: S101 - `matches` says so
        judged = tokens["tokens"].clone()
        judged[:, 0] = MATCH
        return self.network.fusion.match(judged, states)

    def write(self, states: Tensor, tokens: Inputs) -> Tensor:
        """Next-token logits."""
        assert self.network.fusion is not None  # noqa: S101 - `writes` says so
        return self.network.fusion.logits(tokens["tokens"], states)

    def targets(self, tokens: Inputs) -> Tensor:
        """Target tokens, with padding ignored."""
        return tokens["tokens"].masked_fill(tokens["tokens"] == PAD, -100)

    def save(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        """Write the weight file of a built-in model."""
        write_weights(folder / WEIGHT_FILE, self.network, self.model.tokenizer.words, recipe)


def load_student(name: str, *, device: str = "cpu") -> Student:
    """Load a model by name for training, in float32.

    Raises:
        InputError: there is no such model, or it is of a kind that cannot be tuned.
    """
    parsed = parse_name(name, model_names())
    if parsed.settings.get("dtype", "fp32") != "fp32":
        raise InputError(
            f"{name}: weights are trained in float32; {option('dtype', 'bf16')} computes in bf16."
        )
    model = load_model(name, device=device, cut=True)
    if isinstance(model, TinyClip):
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


class CoarseVectors:
    """Unit vectors of the images and captions of a run by the model that training starts from.

    They stay the same while the model learns, so that the pairs chosen by them are a function of
    the seed and the step alone, also in a run that resumes.
    """

    def __init__(
        self,
        student: Student,
        images: TrainingImages,
        rows: IndexArray,
        texts: IndexArray,
        *,
        read: Callable[[IndexArray], Inputs],
        batch: int,
        device: str,
    ):
        """Encode images and captions.

        Args:
            student: encodes them, with the weights that it has now.
            images: the images of the training set.
            rows: indices of the images that batches will have, in any order, some twice.
            texts: indices of their captions, in the same way.
            read: gives the tokens of some captions.
            batch: how many are encoded at once.
            device: where the student is.
        """

        def see(some: IndexArray) -> Tensor:
            pixels = student.pixels(images, some.tolist())
            return student.see({name: it.to(device) for name, it in pixels.items()}).vectors

        self.device = device
        self.rows, self.texts = np.unique(rows), np.unique(texts)
        with evaluation_mode(student.network), torch.no_grad():
            self.image = _encode(self.rows, see, batch)
            self.text = _encode(self.texts, lambda some: student.read(read(some)), batch)

    def of(self, rows: IndexArray, texts: IndexArray) -> tuple[Tensor, Tensor]:
        """(b, d) vectors of some images and of some captions, on the device."""
        return (
            self.image[np.searchsorted(self.rows, rows)].to(self.device),
            self.text[np.searchsorted(self.texts, texts)].to(self.device),
        )


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Turn dropout off for a while."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _encode(indices: IndexArray, encode: Callable[[IndexArray], Tensor], batch: int) -> Tensor:
    parts = [encode(indices[i : i + batch]).float().cpu() for i in range(0, len(indices), batch)]
    return torch.cat(parts)
