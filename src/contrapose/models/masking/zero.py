"""Zero masking: pixels of regions and embeddings of words set to zero in a model's input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contrapose.arrays import Ragged
from contrapose.errors import InputError, option
from contrapose.models.capabilities import ImagePreparer
from contrapose.models.masking.text import ZERO, MaskedText
from contrapose.models.packing import PackedCaptions

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from contrapose.models.capabilities import PreparedImage

EMBEDDING_NAMES = (
    "word_embeddings",
    "token_embedding",
    "embed_tokens",
    "shared",
    "tok_embeddings",
    "wte",
)
"""Attribute names of the word embedding in text networks."""


def find_word_embedding(network: Any) -> nn.Embedding | None:
    """Find the word embedding of a text network; None where there is none."""
    for name, module in network.named_modules():
        if isinstance(module, nn.Embedding) and name.rpartition(".")[2] in EMBEDDING_NAMES:
            return module
    return None


@contextmanager
def zero_embeddings(words: nn.Module | None, flags: Tensor | None) -> Iterator[None]:
    """Context manager that zeroes the embeddings of flagged tokens.

    Args:
        words: the word embedding.
        flags: (n, l) flag of each input token; None where nothing is masked.
    """
    if flags is None or words is None:
        yield
        return

    calls: list[int] = []

    def zero(module: nn.Module, inputs: Any, vectors: Tensor) -> Tensor:
        calls.append(1)
        if vectors.shape[:-1] != flags.shape:
            raise ValueError(f"flags of {tuple(flags.shape)} for words of {tuple(vectors.shape)}")
        return vectors.masked_fill(flags[..., None].to(vectors.device), 0.0)

    handle = words.register_forward_hook(zero)
    try:
        yield
    finally:
        handle.remove()
    if not calls:
        raise RuntimeError("the word embedding whose rows were to be zeroed was not used")


def make_zero_flags(
    rows: Sequence[Sequence[bool]],
    texts: Sequence[str],
    width: int,
    *,
    left: bool = False,
    device: torch.device | str = "cpu",
) -> Tensor | None:
    """Flags (n, width) of tokens whose embeddings are zeroed; None where there are none.

    Args:
        rows: mask flags of each caption's first tokens; later tokens are not masked.
        texts: the captions; only those masked by `zero` count.
        width: of a padded row.
        left: whether padding is on the left.
        device: of the flags.
    """
    if not any(is_zero_masked(text) for text in texts):
        return None
    flags = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, (row, text) in enumerate(zip(rows, texts, strict=True)):
        if is_zero_masked(text):
            start = width - len(row) if left else 0
            flags[i, start : start + len(row)] = torch.tensor(row, dtype=torch.bool)
    return flags.to(device)


def is_zero_masked(text: str) -> bool:
    """Whether a caption has words masked by zero embeddings."""
    return isinstance(text, MaskedText) and text.kind == ZERO and bool(text.hidden)


def pack_zero_flags(
    rows: Sequence[Sequence[bool]], texts: Sequence[str], packed: PackedCaptions
) -> Tensor | None:
    """Flags (r, l) of zeroed tokens for packed captions."""
    width = int(packed.positions.max()) + 1
    flags = make_zero_flags(
        [row[:width] for row in rows], texts, width, device=packed.owners.device
    )
    if flags is None:
        return None
    return flags[packed.owners.clamp(min=0), packed.positions] & (packed.owners >= 0)


def zero_masked_logprobs(logprobs: Ragged, rows: Sequence[Sequence[bool]]) -> Ragged:
    """Set the log-probabilities of masked tokens to 0.

    Args:
        logprobs: of every token but the first.
        rows: mask flags of each caption's first tokens; later tokens are not masked.
    """
    if not any(any(row) for row in rows):
        return logprobs
    masked = torch.zeros(len(logprobs.values), dtype=torch.bool)
    for row, start in zip(rows, logprobs.offsets[:-1], strict=True):
        for i, flag in enumerate(row[1:]):
            if flag:
                masked[int(start) + i] = True
    values = logprobs.values.masked_fill(masked.to(logprobs.values.device), 0.0)
    return Ragged(values, logprobs.offsets)


PROBE_SIZE = (16, 16)
"""Size of a one-color image, by which the values of white and black are found."""
MID_BYTE = 127
"""Bytes above it are nearer to white than to black."""
GRAY = (0.5, 0.5, 0.5)
"""The color for zero where a model does not state one."""


@runtime_checkable
class ImageNormalizer(Protocol):
    """A model that prepares images as bytes and normalizes them in a second step."""

    def normalize_image(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image."""


def can_mask_pixels(model: object) -> bool:
    """Whether pixels of the model's prepared images can be set to zero.

    It must prepare images as pixels (…, 3, h, w), tiles included, and be an `ImageNormalizer` if
    these are bytes. Images that are prepared as patches have no such pixels.
    """
    if not isinstance(model, ImagePreparer):
        return False
    try:
        pixels = _get_pixels(model.prepare_image(_solid_image(0)))
    except InputError:
        return False
    return pixels.is_floating_point() or isinstance(model, ImageNormalizer)


def zero_color(model: object) -> tuple[float, ...]:
    """Color (RGB, 0 to 1) nearest to zero in a model's normalized pixel space."""
    mean: tuple[float, ...] | None = getattr(model, "pixel_mean", None)
    return GRAY if mean is None else mean


def mask_pixels(model: ImagePreparer, image: Image, hidden: NDArray[np.bool_]) -> PreparedImage:
    """Prepare an image and set its masked pixels to zero; thread-safe.

    Args:
        model: one for which `can_mask_pixels` holds.
        image: the full image.
        hidden: (height, width) mask, true where the image is hidden.
    """
    from PIL import Image

    prepared = model.prepare_image(image)
    cover = Image.fromarray(np.where(hidden, 255, 0).astype(np.uint8)).convert("RGB")
    drawn = _get_pixels(model.prepare_image(cover))
    over = drawn > (_midpoint(model) if drawn.is_floating_point() else MID_BYTE)
    if not _get_pixels(prepared).is_floating_point():
        if not isinstance(model, ImageNormalizer):
            raise InputError(
                f"the model's images cannot be normalised; use {option('baseline', 'mean')}."
            )
        prepared = model.normalize_image(prepared)
    blank = _get_pixels(prepared).masked_fill(over.any(dim=-3, keepdim=True), 0.0)
    return {**prepared, "pixel_values": blank} if isinstance(prepared, Mapping) else blank


def _midpoint(model: ImagePreparer) -> Tensor:
    """(3, 1, 1) midpoint between black and white in normalized pixels."""
    white = _flatten_channels(model.prepare_image(_solid_image(255))).amax(dim=1)
    black = _flatten_channels(model.prepare_image(_solid_image(0))).amin(dim=1)
    return ((white + black) / 2)[:, None, None]


def _solid_image(shade: int) -> Image:
    from PIL import Image

    return Image.new("RGB", PROBE_SIZE, (shade, shade, shade))


def _flatten_channels(prepared: Any) -> Tensor:
    """(3, pixels) values of a prepared image per channel, padding included."""
    return _get_pixels(prepared).float().movedim(-3, 0).flatten(1)


def _get_pixels(prepared: Any) -> Tensor:
    """Pixel tensor (…, 3, h, w) of a prepared image.

    Raises:
        InputError: it has none.
    """
    pixels: Any = prepared.get("pixel_values") if isinstance(prepared, Mapping) else prepared
    if getattr(pixels, "ndim", 0) < 3 or pixels.shape[-3] != 3:
        raise InputError("images of this model are not pixels, so that none of them can be zero.")
    return pixels  # type: ignore[no-any-return]
