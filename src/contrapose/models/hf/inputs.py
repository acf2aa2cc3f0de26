"""Text and image inputs of the models of the transformers library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models.capabilities import PREVIEW_LENGTH, QuestionTemplate, check_caption
from contrapose.models.exact import to_device
from contrapose.models.hf.tokens import LibraryTokenizer, TokenCache
from contrapose.models.image_transform import ImageTransform, batch_images
from contrapose.models.masking.embeddings import is_zero_masked, make_zero_flags
from contrapose.models.masking.text import (
    ZERO,
    MaskedText,
    Span,
    full_captions,
    replace_tokens,
)

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike, PreparedImage

MIN_QUESTION_TOKENS = 64
"""Fewest tokens that are reserved for a question beside its caption."""
ADDED_TOKENS = 2
"""Tokens that a causal decoder adds to every caption: the start and the end."""


class TextInputs(LibraryTokenizer):
    """Token ids of captions; refuses empty and over-long ones.

    Attributes:
        name: of the model, for errors.
        context: context length, special tokens included.
        cut: truncate longer captions instead of refusing them.
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
            tokenizer: the library's tokenizer.
            context: context length, special tokens included.
            cut: truncate longer captions instead of refusing them.
            padding: to the longest caption of a batch, or always to the context length.
            shifts: whether position ids count only tokens that are not padding.
            tokenizer_kwargs: further arguments of every call of the tokenizer.
        """
        super().__init__(
            tokenizer, seeks_end=padding == "longest", shifts=shifts, **tokenizer_kwargs
        )
        self.name = name
        self.context = context
        self.cut = cut
        self._padding = padding
        self._added = len(self._encode([""])["input_ids"][0])
        self._cache = TokenCache(self._encode)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation."""
        if not texts:
            return []
        return self._cache.counts(full_captions(texts))

    def tensors(self, texts: Sequence[str], device: torch.device | str) -> dict[str, Tensor]:
        """Token ids (n, l) and the tokenizer's other columns, padded.

        Raises:
            InputError: a caption is empty, or longer than the context and not to be truncated.
        """
        captions = full_captions(texts)
        columns = self._cache.take(captions)
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
                flags = self._mask_flags(rows[i], text)
                rows[i] = replace_tokens(rows[i], flags, self._masker.token(text.kind))
        longest = max(map(len, rows))
        width = longest if self._padding == "longest" else self.context
        return {
            name: to_device(self._pad(name, rows, width), device) for name, rows in columns.items()
        }

    def zero_flags(self, texts: Sequence[str], tokens: Mapping[str, Tensor]) -> Tensor | None:
        """Flags (n, l) of tokens whose embeddings are zeroed; None where there are none.

        Args:
            texts: the captions.
            tokens: their tensors, from `tensors`.
        """
        if not any(map(is_zero_masked, texts)):
            return None
        ids = tokens["input_ids"]
        columns = self._encode(full_captions(texts), truncation=True, max_length=self.context)
        rows = [
            self._mask_flags(row, text) if isinstance(text, MaskedText) else []
            for text, row in zip(texts, columns["input_ids"], strict=True)
        ]
        left = self._tokenizer.padding_side == "left"
        return make_zero_flags(rows, texts, ids.shape[1], left=left, device=ids.device)

    def _mask_flags(self, row: Sequence[int], text: MaskedText) -> list[bool]:
        return self._masker.row_flags(row, self._added, *self._tokenizer_text(text))

    def _tokenizer_text(self, text: MaskedText) -> tuple[str, Sequence[Span]]:
        """Text given to the tokenizer, and the spans of masked words in it."""
        return text.caption, text.hidden

    def _pad(self, name: str, rows: Sequence[list[int]], width: int) -> Tensor:
        names = {"input_ids": "pad_token_id", "token_type_ids": "pad_token_type_id"}
        fill = getattr(self._tokenizer, names[name]) if name in names else 0
        lengths = np.array([len(row) for row in rows])
        present = np.arange(width) < lengths[:, None]
        if self._tokenizer.padding_side == "left":
            present = present[:, ::-1]
        padded = np.full(present.shape, fill, dtype=np.int64)
        padded[present] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
        return torch.from_numpy(padded)


class CausalTextInputs(LibraryTokenizer):
    """Token ids of captions between a start and an end token; refuses empty and over-long ones.

    Attributes:
        name: of the model, for errors.
        start: the start token.
        end: the end token.
        context: context length, start and end included.
        cut: truncate longer captions instead of refusing them.
    """

    def __init__(self, name: str, tokenizer: Any, *, start: int, end: int, context: int, cut: bool):
        super().__init__(tokenizer, seeks_end=False, add_special_tokens=False)
        self.name = name
        self.start = start
        self.end = end
        self.context = context
        self.cut = cut

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start and end included."""
        return [len(row) + ADDED_TOKENS for row in self.token_ids(full_captions(texts))]

    def rows(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each caption with start and end.

        Raises:
            InputError: a caption is empty, or longer than the context and not to be truncated.
        """
        rows = [[self.start, *row, self.end] for row in self._cut_ids(full_captions(texts))]
        for i, text in enumerate(texts):
            if isinstance(text, MaskedText) and text.kind != ZERO:
                flags = [*self.mask_flags(text), False]
                rows[i] = replace_tokens(rows[i], flags, self._masker.token(text.kind))
        return rows

    def mask_flags(self, text: str) -> list[bool]:
        """Mask flag of each token of a caption, from the start token on."""
        if not isinstance(text, MaskedText):
            return []
        flags = self._masker.flags(text.caption, text.hidden)
        return [False, *flags[: self.context - ADDED_TOKENS]]

    def truncate(self, texts: Sequence[str]) -> list[str]:
        """Captions truncated to the context; unchanged where they fit.

        Raises:
            InputError: a caption is empty, or longer than the context and not to be truncated.
        """
        rows = self._cut_ids(texts)
        return [
            text if len(row) + ADDED_TOKENS < self.context else self._cut_text(text, row)
            for text, row in zip(texts, rows, strict=True)
        ]

    def answer_ids(self, text: str) -> list[int]:
        """Token ids of an answer.

        Raises:
            InputError: there are none.
        """
        (row,) = self.token_ids([text])
        if not text.strip() or not row:
            raise InputError(f"{self.name} reads nothing in the answer {text.strip()!r}.")
        return row

    def check_question(self, text: str, tokens: int, most: int) -> None:
        """Refuse a question that is longer than the context.

        Raises:
            InputError: it is.
        """
        if tokens > most:
            raise InputError(
                f"the question {text[:PREVIEW_LENGTH]!r}… has {tokens} tokens and {self.name} "
                f"reads {most}: use a shorter question or caption."
            )

    def _cut_ids(self, texts: Sequence[str]) -> list[list[int]]:
        rows = self.token_ids(texts)
        most = None if self.cut else self.context
        for text, row in zip(texts, rows, strict=True):
            check_caption(self.name, text, len(row) + ADDED_TOKENS, ADDED_TOKENS, most)
        return [row[: self.context - ADDED_TOKENS] for row in rows]

    def _cut_text(self, text: str, row: list[int]) -> str:
        if len(self.token_ids([text])[0]) == len(row):
            return text
        if not self._tokenizer.is_fast:
            with self._lock:
                return str(self._tokenizer.decode(row))
        (offsets,) = self._encode([text], return_offsets_mapping=True)["offset_mapping"]
        return text[: offsets[len(row) - 1][1]]


def reserve_question_tokens(tokenizer: Any, question: str = "{}") -> int:
    """Number of tokens reserved for the question around a caption, and for the answer.

    Args:
        tokenizer: the model's tokenizer.
        question: the model's question format; `{}` stands for the question.
    """
    usual = QuestionTemplate()
    text = f"{question.replace('{}', usual.text)} {usual.answer}"
    return max(MIN_QUESTION_TOKENS, len(tokenizer(text, add_special_tokens=False)["input_ids"]))


def require_end_token(name: str, end: object) -> int:
    """End token of a captioner, the first where its configuration has several.

    Raises:
        InputError: it has none.
    """
    if isinstance(end, list) and end:
        return require_end_token(name, end[0])
    if not isinstance(end, int) or isinstance(end, bool):
        raise InputError(
            f"{name} has no end token (none is in its configuration): the probability of a whole "
            "caption needs one; set it there, or use another captioner."
        )
    return end


def require_start_token(name: str, start: object) -> int:
    """Start token of a captioner.

    Raises:
        InputError: it has none.
    """
    if not isinstance(start, int) or isinstance(start, bool):
        raise InputError(
            f"{name} has no start token (none is in its configuration), which the first word of a "
            "caption follows; set it there, or use another captioner."
        )
    return start


class ImageInputs:
    """Pixel tensors of images, equal to those of the library's image processor.

    The usual steps of a processor run directly, with the same numbers in two thirds of the time.

    Attributes:
        processor: the library's image processor.
        arguments: further arguments of every call of it.
        steps: an equal `ImageTransform`; None where the processor does anything else.
    """

    def __init__(self, processor: Any, **arguments: Any):
        self.processor = processor
        self.arguments = arguments
        self.steps = None if arguments else build_transform(processor)

    def prepare(self, image: Image) -> PreparedImage:
        """Preprocess one image to (c, h, w), or to named tensors.

        The result is bytes where `stack` normalizes them, and normalized pixels otherwise.
        """
        if self.steps is not None:
            return self.steps.resize_to_bytes(image)
        columns = self.processor(image.convert("RGB"), return_tensors="pt", **self.arguments)
        tensors = {name: values[0] for name, values in columns.items()}
        return tensors["pixel_values"] if tensors.keys() == {"pixel_values"} else tensors

    def stack(
        self, images: Sequence[ImageLike], device: torch.device | str, dtype: torch.dtype
    ) -> dict[str, Tensor]:
        """Batch of decoded or prepared images; smaller ones are zero-padded."""
        rows = [self.prepare(image) if isinstance(image, Image) else image for image in images]
        named = [row if isinstance(row, Mapping) else {"pixel_values": row} for row in rows]
        return {
            name: batch_images([row[name] for row in named], self.steps, device, dtype)
            for name in named[0]
        }

    def normalize(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image that is still bytes."""
        if self.steps is None or isinstance(prepared, Mapping) or prepared.is_floating_point():
            return prepared
        return self.steps.normalize_bytes(prepared)

    @property
    def mean(self) -> tuple[float, ...] | None:
        """Pixel mean (0 to 1) of the normalization, where it is known."""
        return find_pixel_mean(self.processor)

    def describe(self) -> str:
        """Describe the preprocessing for the model card."""
        if self.steps is not None:
            return self.steps.describe()
        return f"as {type(self.processor).__name__} of transformers does it"


def find_pixel_mean(processor: Any) -> tuple[float, ...] | None:
    """Pixel mean (0 to 1) of an image processor, where it states one."""
    mean = getattr(processor, "image_mean", None)
    return tuple(map(float, mean)) if mean is not None and len(mean) == 3 else None


def build_transform(processor: Any) -> ImageTransform | None:
    """Image transform equal to an image processor; None where it does anything else."""
    from transformers.image_processing_backends import PilBackend

    steps = ("_preprocess", "resize", "center_crop", "rescale", "normalize", "process_image")
    if any(getattr(type(processor), name, None) is not getattr(PilBackend, name) for name in steps):
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
    transform = ImageTransform(
        resize=size["shortest_edge"] if len(size) == 1 else (size["height"], size["width"]),
        crop=(crop["height"], crop["width"]) if processor.do_center_crop else None,
        resample=Resampling(processor.resample),
        mean=tuple(processor.image_mean),
        std=tuple(processor.image_std),
    )
    return transform if transform.fits() else None


def _drop_unset(sizes: Any) -> dict[str, int]:
    return {name: value for name, value in dict(sizes or {}).items() if value}
