"""Text and image inputs of the encoders of the transformers library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from contrapose.models.capabilities import check_caption
from contrapose.models.image_transform import ImageTransform, batch_images
from contrapose.models.masking.embeddings import is_zero_masked, make_zero_flags
from contrapose.models.masking.text import (
    ZERO,
    MaskedText,
    Span,
    TokenMasker,
    full_captions,
    replace_tokens,
)

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike, PreparedImage


class TextInputs:
    """Token ids of captions; refuses empty and over-long ones.

    Attributes:
        name: of the model, for errors.
        context: most tokens, with all that the tokeniser adds.
        cut: cut longer captions rather than refuse them.
    """

    def __init__(
        self,
        name: str,
        tokenizer: Any,
        context: int,
        *,
        cut: bool,
        padding: Literal["longest", "max_length"],
        shifts: bool = False,
        **tokenizer_kwargs: Any,
    ):
        """Create the text inputs of one model.

        Args:
            name: of the model, for errors.
            tokenizer: the library's.
            context: most tokens, with all that it adds.
            cut: cut longer captions rather than refuse them.
            padding: to the longest of a batch, or always to the full length.
            shifts: whether the network counts places by the tokens that are no padding.
            tokenizer_kwargs: further arguments of every call.
        """
        self.name = name
        self.context = context
        self.cut = cut
        self._tokenizer = tokenizer
        self._padding = padding
        self._arguments = tokenizer_kwargs
        self._lock = Lock()  # a fast tokeniser may not be used by two threads at once
        self._added = len(self._encode([""])["input_ids"][0])
        self._words = TokenMasker(tokenizer, self._encode, ends=padding == "longest", shifts=shifts)

    @property
    def masks(self) -> tuple[str, ...]:
        """Supported kinds of masking."""
        return self._words.kinds

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation."""
        if not texts:
            return []
        return [len(row) for row in self._encode(full_captions(texts))["input_ids"]]

    def tensors(self, texts: Sequence[str], device: torch.device | str) -> dict[str, Tensor]:
        """Token ids (n, l) and the tokenizer's other columns, padded.

        Raises:
            InputError: a caption is empty, or longer than the model reads and not to be cut.
        """
        captions = full_captions(texts)
        columns = self._encode(captions)
        for i, row in enumerate(columns["input_ids"]):
            most = None if self.cut else self.context
            check_caption(self.name, captions[i], len(row), self._added, most)
            if len(row) > self.context:
                short = self._encode([captions[i]], truncation=True, max_length=self.context)
                for name, values in short.items():
                    columns[name][i] = values[0]
        rows = columns["input_ids"]
        for i, text in enumerate(texts):
            if isinstance(text, MaskedText) and text.kind != ZERO:
                flags = self._hidden(rows[i], text)
                rows[i] = replace_tokens(rows[i], flags, self._words.token(text.kind))
        longest = max(map(len, rows))
        width = longest if self._padding == "longest" else self.context
        return {
            name: torch.tensor([self._pad(name, row, width) for row in rows], device=device)
            for name, rows in columns.items()
        }

    def zeros(self, texts: Sequence[str], tokens: Mapping[str, Tensor]) -> Tensor | None:
        """Flags (n, l) of tokens whose embeddings are zeroed; None where there are none.

        Args:
            texts: the captions.
            tokens: what `tensors` made of them.
        """
        if not any(map(is_zero_masked, texts)):
            return None
        ids = tokens["input_ids"]
        rows = [
            self._hidden(row, text) if isinstance(text, MaskedText) else []
            for text, row in zip(texts, self._rows(texts), strict=True)
        ]
        left = self._tokenizer.padding_side == "left"
        return make_zero_flags(rows, texts, ids.shape[1], left=left, device=ids.device)

    def _rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each caption, truncated to the context."""
        return self._encode(full_captions(texts), truncation=True, max_length=self.context)[
            "input_ids"
        ]

    def _hidden(self, row: Sequence[int], text: MaskedText) -> list[bool]:
        return self._words.within(row, self._added, *self._given(text))

    def _given(self, text: MaskedText) -> tuple[str, Sequence[Span]]:
        """Text given to the tokenizer, and the spans of masked words in it."""
        return text.caption, text.hidden

    def _encode(self, texts: list[str], **arguments: Any) -> dict[str, list[list[int]]]:
        with self._lock:
            found = self._tokenizer(
                texts, padding=False, verbose=False, **{**self._arguments, **arguments}
            )
        return {name: list(rows) for name, rows in found.items()}

    def _pad(self, name: str, row: list[int], width: int) -> list[int]:
        fills = {
            "input_ids": self._tokenizer.pad_token_id,
            "token_type_ids": self._tokenizer.pad_token_type_id,
        }
        padding = [fills.get(name, 0)] * (width - len(row))
        return padding + row if self._tokenizer.padding_side == "left" else row + padding


class ImageInputs:
    """Pixel tensors of images, equal to those of the library's image processor.

    Most processors do the same few steps; those are done directly, with the same numbers, in
    about two thirds of the time.

    Attributes:
        processor: the image processor.
        arguments: what else it is called with.
        steps: the same in steps of our own; None where the processor does anything else.
    """

    def __init__(self, processor: Any, **arguments: Any):
        self.processor = processor
        self.arguments = arguments
        self.steps = None if arguments else build_transform(processor)

    def prepare(self, image: Image) -> PreparedImage:
        """Preprocess one image to (c, h, w), or to named tensors.

        Bytes where normalising is left to `stack`, normalised pixels otherwise.
        """
        if self.steps is not None:
            return self.steps.resize_to_bytes(image)
        found = self.processor(image.convert("RGB"), return_tensors="pt", **self.arguments)
        tensors = {name: values[0] for name, values in found.items()}
        return tensors["pixel_values"] if tensors.keys() == {"pixel_values"} else tensors

    def stack(
        self, images: Sequence[ImageLike], device: torch.device | str, dtype: torch.dtype
    ) -> dict[str, Tensor]:
        """Batch of images or prepared ones; smaller ones are zero-padded."""
        rows = [self.prepare(image) if isinstance(image, Image) else image for image in images]
        named = [row if isinstance(row, Mapping) else {"pixel_values": row} for row in rows]
        return {
            name: batch_images([row[name] for row in named], self.steps, device, dtype)
            for name in named[0]
        }

    def normalise(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image where that was left to `stack`."""
        if self.steps is None or isinstance(prepared, Mapping) or prepared.is_floating_point():
            return prepared
        return self.steps.normalize_bytes(prepared)

    @property
    def mean(self) -> tuple[float, ...] | None:
        """Pixel mean (0 to 1) of the normalization, where it is known."""
        return find_pixel_mean(self.processor)

    def in_words(self) -> str:
        """Describe the preprocessing for the model card."""
        if self.steps is not None:
            return self.steps.in_words()
        return f"as {type(self.processor).__name__} of transformers does it"


def find_pixel_mean(processor: Any) -> tuple[float, ...] | None:
    """Pixel mean (0 to 1) of an image processor, where it states one."""
    found = getattr(processor, "image_mean", None)
    return tuple(map(float, found)) if found is not None and len(found) == 3 else None


def build_transform(processor: Any) -> ImageTransform | None:
    """Image transform equal to an image processor; None where it does anything else."""
    from transformers.image_processing_backends import PilBackend

    own = ("_preprocess", "resize", "center_crop", "rescale", "normalize", "process_image")
    if any(getattr(type(processor), name, None) is not getattr(PilBackend, name) for name in own):
        return None
    size, crop = _drop_unset(processor.size), _drop_unset(processor.crop_size)
    usual = (
        processor.do_resize
        and processor.do_rescale
        and processor.do_normalize
        and not getattr(processor, "do_pad", None)
        and size.keys() in ({"shortest_edge"}, {"height", "width"})
        and abs(processor.rescale_factor * 255 - 1) < 1e-12
        and len(processor.image_mean) == len(processor.image_std) == 3
    )
    if not usual:
        return None
    steps = ImageTransform(
        resize=size["shortest_edge"] if len(size) == 1 else (size["height"], size["width"]),
        crop=(crop["height"], crop["width"]) if processor.do_center_crop else None,
        resample=Resampling(processor.resample),
        mean=tuple(processor.image_mean),
        std=tuple(processor.image_std),
    )
    return steps if steps.fits() else None


def _drop_unset(sizes: Any) -> dict[str, int]:
    return {name: value for name, value in dict(sizes or {}).items() if value}
