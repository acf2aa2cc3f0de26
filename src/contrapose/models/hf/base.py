"""Base classes of the models of the transformers library: identity, inputs, pairs, model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from math import ceil
from typing import TYPE_CHECKING, Any

import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models.capabilities import ModelCard, check_pairs
from contrapose.models.caption_tokens import CaptionTokenCounter
from contrapose.models.encoded_images import deduplicate
from contrapose.models.hf.inputs import CausalTextInputs, ImageInputs, TextInputs
from contrapose.models.masking.embeddings import find_word_embedding, zero_embeddings
from contrapose.models.quick_gelu import fuse_quick_gelu

if TYPE_CHECKING:
    from contrapose.models.capabilities import ImageLike, PreparedImage
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.options import VideoForm
    from contrapose.models.video_reader import FrameTiming
    from contrapose.resize_crop import ResizeCrop

NARROW_NOTE = (
    "An image that is too narrow for the library's resizing (about 20 times as long as wide) is "
    "stretched first; the library itself fails on it."
)
LOG_ODDS_NOTE = (
    "Its itm is log P(match) − log P(no match): the sigmoid of it is the probability that the "
    "model's two-way head gives."
)


class HFModel(CaptionTokenCounter):
    """Base of the models of the transformers library.

    Attributes:
        name: the canonical model string.
        fingerprint: hash of weights, configuration, tokenizer and preprocessing.
        revision: the commit on the hub; None for a local folder.
        batch_size: default number of images, captions or pairs per call.
        network: the library's network.
        text_inputs: tokenizer with its limits.
        image_inputs: image preprocessing.
        card: the model card.
        pixel_mean: the color that is zero for the network.
    """

    text_inputs: TextInputs | CausalTextInputs

    def __init__(
        self,
        checkpoint: Checkpoint,
        network: Any,
        family: str,
        text_inputs: TextInputs | CausalTextInputs,
        image_inputs: ImageInputs,
        *,
        preprocessing: str = "",
        batch_size: int = 32,
        notes: Sequence[str] = (),
    ):
        options = checkpoint.options
        self.name = checkpoint.name
        self.fingerprint = checkpoint.fingerprint
        self.revision = checkpoint.revision
        self.batch_size = batch_size
        fuse_quick_gelu(network, options.device, options.torch_dtype)
        self.network = network
        self.text_inputs = text_inputs
        self.image_inputs = image_inputs
        self.pixel_mean = image_inputs.mean
        self.card = ModelCard(
            family=family,
            parameters=sum(weight.numel() for weight in network.parameters()),
            dtype=options.dtype,
            preprocessing=preprocessing or describe_preprocessing(image_inputs),
            context=self.context,
            notes=tuple(notes),
        )
        self._device = torch.device(options.device)
        self._dtype = options.torch_dtype

    @property
    def caption_inputs(self) -> TextInputs | CausalTextInputs:
        """Tokenizer of captions."""
        return self.text_inputs

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess an image as the library does; bytes may be normalized on the device."""
        return self.image_inputs.prepare(image)

    @property
    def resize_crop(self) -> ResizeCrop | None:
        """Resize and crop that prepare an image; None where `prepare_image` does more."""
        steps = self.image_inputs.steps
        plain = type(self).prepare_image is HFModel.prepare_image
        return steps.resize_crop if plain and steps is not None else None

    def normalize_image(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image."""
        return self.image_inputs.normalize(prepared)

    def _prepare_images(self, images: Sequence[ImageLike]) -> list[PreparedImage]:
        return [
            self.prepare_image(image) if isinstance(image, Image) else image for image in images
        ]

    def _stack_images(self, images: Sequence[ImageLike]) -> dict[str, Tensor]:
        return self.image_inputs.stack(self._prepare_images(images), self._device, self._dtype)

    def _pixels(self, images: Sequence[ImageLike]) -> Tensor:
        return self._stack_images(images)["pixel_values"]


class EncoderModel(HFModel):
    """Base of models with a text encoder whose word embeddings can be zeroed.

    Attributes:
        text_masks: supported kinds of word masking.
    """

    text_inputs: TextInputs

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.word_embedding = find_word_embedding(self._text_network())
        self.text_masks = self.text_inputs.masks if self.word_embedding is not None else ()

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text before truncation, without special tokens."""
        return self.text_inputs.token_ids(texts)

    def _text_network(self) -> Any:
        return self.network

    def _tokens(self, texts: Sequence[str]) -> dict[str, Tensor]:
        return self.text_inputs.tensors(texts, self._device)

    def _zero_masked(
        self, texts: Sequence[str], tokens: Mapping[str, Tensor]
    ) -> AbstractContextManager[None]:
        """Context manager that zeroes the embeddings of masked words."""
        return zero_embeddings(self.word_embedding, self.text_inputs.zero_flags(texts, tokens))


class FusionModel(EncoderModel):
    """Base of fusion encoders, which read an image and a caption jointly."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        network: Any,
        family: str,
        *,
        context: int,
        notes: Sequence[str] = (),
        tokenizer_arguments: Mapping[str, Any] | None = None,
        processor_arguments: Mapping[str, Any] | None = None,
    ):
        tokenizer = checkpoint.tokenizer()
        tokenizer.padding_side = "right"  # positions are counted from the left
        text_inputs = TextInputs(
            checkpoint.name,
            tokenizer,
            min(context, tokenizer.model_max_length),
            cut=checkpoint.options.cut,
            padding="longest",
            **(tokenizer_arguments or {}),
        )
        image_inputs = ImageInputs(checkpoint.image_processor(), **(processor_arguments or {}))
        super().__init__(checkpoint, network, family, text_inputs, image_inputs, notes=notes)

    def _pair_inputs(
        self, images: Sequence[ImageLike], texts: Sequence[str]
    ) -> tuple[list[ImageLike], Tensor, dict[str, Tensor]]:
        """Distinct images, the index of each pair's image, and the captions' tokens.

        Raises:
            InputError: there are not as many images as captions, or a caption is refused.
        """
        check_pairs(self.name, images, texts)
        distinct, indices = deduplicate(images)
        return distinct, torch.tensor(indices, device=self._device), self._tokens(texts)


class FixedFrames(HFModel):
    """Base of models that read a fixed number of frames; an image is a video that stands still.

    Attributes:
        frame_count: number of frames.
        video_input: kind of its input; empty where it is shown one frame after the other.
    """

    frame_count: int
    video_input: str

    def _set_frames(self, count: int, form: VideoForm | None) -> None:
        """Set the number of frames, and how a video is shown.

        Raises:
            InputError: it has no such input.
        """
        if form == "images":
            raise InputError(
                f"{self.name} has no turn with several images: it reads {count} frames of a video "
                "at once; leave out video=images."
            )
        self.frame_count, self.video_input = count, "" if form == "frames" else "video"

    @property
    def max_frames(self) -> int:
        """Number of frames that it reads at once; 0 where it is shown one after the other."""
        return self.frame_count if self.video_input else 0

    def prepare_video(self, frames: Sequence[Image], timing: FrameTiming) -> PreparedImage:
        """Preprocess the frames of a video (frames, channels, height, width).

        Raises:
            InputError: there are not as many frames as the model reads.
        """
        if len(frames) != self.frame_count:
            raise InputError(
                f"{self.name} reads {self.frame_count} frames of a video, and {len(frames)} were "
                "given."
            )
        return torch.cat([self._frames(self.prepare_image(frame)) for frame in frames])

    def _stack_images(self, images: Sequence[ImageLike]) -> dict[str, Tensor]:
        """Videos (n, frames, channels, height, width); the frames of an image are all the same."""
        videos = [
            self._frames(prepared).expand(self.frame_count, -1, -1, -1)
            for prepared in self._prepare_images(images)
        ]
        frames = [frame for video in videos for frame in video]
        stacked = self.image_inputs.stack(frames, self._device, self._dtype)
        shape = (len(videos), self.frame_count)
        return {name: values.view(*shape, *values.shape[1:]) for name, values in stacked.items()}

    def _frames(self, prepared: PreparedImage) -> Tensor:
        """Prepared frames with an axis that counts them."""
        if isinstance(prepared, Mapping):
            raise InputError(f"{self.name} has an image processor that is not known here.")
        return prepared if prepared.ndim == 4 else prepared[None]


def log_odds(logits: Tensor) -> Tensor:
    """Match logit (n,) in float32 of a two-class head (n, 2): no match, match."""
    wide = logits.float()
    return wide[:, 1] - wide[:, 0]


def max_aspect_ratio(processor: Any) -> float:
    """Largest aspect ratio that the processors of ViLT and BridgeTower can resize.

    They bring the shorter side to its size, the longer one to at most 1333/800 of that, and round
    both down to a multiple of `size_divisor`, which may give 0.
    """
    shorter: int = dict(processor.size)["shortest_edge"]
    return int(1333 / 800 * shorter) / int(processor.size_divisor)


def widen(image: Image, processor: Any) -> Image:
    """Widen an image that is too narrow to be resized; others stay as they are."""
    least = ceil(max(image.size) / max_aspect_ratio(processor))
    if min(image.size) >= least:
        return image
    width, height = (max(side, least) for side in image.size)
    return image.resize((width, height), Resampling.BICUBIC)


def describe_preprocessing(image_inputs: ImageInputs) -> str:
    """Describe the image preprocessing, also of processors with unusual steps."""
    if image_inputs.steps is not None:
        return image_inputs.describe()
    processor = image_inputs.processor
    divisor = getattr(processor, "size_divisor", None)
    steps = [
        "RGB",
        f"resized ({Resampling(int(processor.resample)).name.lower()}) "
        f"{_describe_size(processor.size)}",
        f"both sides multiples of {divisor}" if divisor else "",
        f"{_describe_crop(processor.crop_size)} cropped"
        if getattr(processor, "do_center_crop", 0)
        else "",
        "normalised",
    ]
    return ", ".join(step for step in steps if step)


def _describe_size(size: Any) -> str:
    sides = dict(size)
    if sides.get("shortest_edge"):
        return f"shorter side to {sides['shortest_edge']}"
    return f"to {sides['width']}×{sides['height']}"


def _describe_crop(size: Any) -> str:
    sides = dict(size)
    side = sides.get("shortest_edge")
    return f"middle {side or sides['width']}×{side or sides['height']}"
