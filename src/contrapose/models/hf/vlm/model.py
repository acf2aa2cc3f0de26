"""Image-text-to-text model of transformers: caption likelihoods, answers and chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image as Images
from PIL.Image import Image
from torch import Tensor

from contrapose.arrays import Ragged
from contrapose.errors import InputError
from contrapose.models.capabilities import (
    PIXELS,
    EncodedImage,
    ModelCard,
    check_pairs,
)
from contrapose.models.caption_tokens import CaptionTokenCounter
from contrapose.models.encoded_images import deduplicate
from contrapose.models.exact import exact_inference
from contrapose.models.hf.inputs import find_pixel_mean
from contrapose.models.hf.vlm.decoder import Decoder
from contrapose.models.hf.vlm.forward import (
    generate_reply,
    is_pixels,
    prepare_clip,
    prepare_images_turn,
    replace_tail,
    score_unpacked,
)
from contrapose.models.hf.vlm.prefix_scoring import (
    CachedPrefix,
    Continuation,
    cache_prefixes,
    embed_prefixes,
    score_cached,
    score_prefixes,
    split_by_counts,
)
from contrapose.models.hf.vlm.processors import MAX_FRAMES, VideoSupport
from contrapose.models.hf.vlm.prompts import ChatPrompts

if TYPE_CHECKING:
    from contrapose.models.capabilities import (
        AnyImage,
        ImageLike,
        PreparedImage,
        Prompt,
        QuestionTemplate,
        Reply,
    )
    from contrapose.models.hf.checkpoint import Checkpoint
    from contrapose.models.video_reader import FrameTiming

NOISE = (0.0, 0.25)
"""Mean and standard deviation of noise in normalized pixels, as for LLaVA-1.5 (Lin et al., 2024,
appendix D)."""
MAX_CAPTION_TOKENS = 1024
"""Context length of captions, where the network could read more."""
NOISE_SIDE = 448
"""Side of noise images in pixels, where the preprocessing has no fixed size."""
BATCH_TOKENS = {"cuda": 16384}
"""Tokens per pass; 4096 on other devices."""
VIDEO_CAPTION_TOKENS = 256
"""Tokens that the frames of a video leave for a caption, or all that one may have."""
CACHE_THRESHOLD = 768
"""Tokens of one image's captions above which its prefix is cached and they are packed into rows."""


@dataclass(frozen=True, slots=True, eq=False)
class VlmImage:
    """A prepared image, and its cached prefixes by their tokens after the image."""

    prepared: Mapping[str, Tensor]
    prefixes: dict[tuple[int, ...], CachedPrefix] = field(default_factory=dict)


class Vlm(CaptionTokenCounter):
    """Image-text-to-text model: scores `lm` and `vqa`, and chat.

    Attributes:
        name: the canonical model string.
        fingerprint: hash of weights, configuration, tokenizer and preprocessing.
        batch_size: default number of pairs per call.
        network: the library's network.
        prompts: chat template and tokenizer.
        card: the model card.
        lm_tokens: the counted tokens and the prompt before them.
        noise_mean: mean of noise images, in normalized pixels.
        noise_std: standard deviation of noise images, in normalized pixels.
        video_input: `video` or `images`; empty where it is shown one frame after the other.
        video_obstacle: sentence that says why its video input cannot be used.
    """

    noise_mean, noise_std = NOISE

    def __init__(
        self,
        checkpoint: Checkpoint,
        network: Any,
        processor: Any,
        prompts: ChatPrompts,
        decoder: Decoder | None,
        videos: VideoSupport,
        notes: Sequence[str] = (),
    ):
        options = checkpoint.options
        self.name = checkpoint.name
        self.fingerprint = checkpoint.fingerprint
        self.revision = checkpoint.revision
        self.network = network
        self.prompts = prompts
        self._checkpoint, self._notes = checkpoint, tuple(notes)
        self._processor = processor
        self.pixel_mean = find_pixel_mean(processor.image_processor)
        self._decoder = decoder
        self._videos = videos
        self.video_input, self.video_obstacle = videos.form, videos.obstacle
        self._device = torch.device(options.device)
        self._dtype = options.torch_dtype
        self.batch_size = 32 if self._device.type == "cuda" else 8
        self.prompts.context = self._caption_context()
        self.lm_tokens = f"caption+end|{prompts.identity}"
        self.card = ModelCard(
            family=str(checkpoint.config.model_type),
            parameters=sum(weight.numel() for weight in network.parameters()),
            dtype=options.dtype,
            preprocessing=f"as {type(processor.image_processor).__name__} of transformers does it",
            context=self.context,
            notes=(
                f"lm is of the caption's tokens and its end, {prompts.end_text!r}, as the reply to "
                f"{prompts.prompt!r} in the model's chat template.",
                f"Noise images have mean {self.noise_mean:g} and standard deviation "
                f"{self.noise_std:g} in normalised pixels.",
                *notes,
            ),
        )

    @property
    def caption_inputs(self) -> ChatPrompts:
        """Tokenizer of captions: the prompts that they reply to."""
        return self.prompts

    def with_prompt(self, prompt: str) -> Vlm:
        """Return the model with another prompt before captions; the weights are shared.

        Raises:
            InputError: the chat template does not take it.
        """
        prompts = ChatPrompts(self.name, self._processor, cut=self.prompts.cut, prompt=prompt)
        return Vlm(
            self._checkpoint, self.network, self._processor, prompts, self._decoder, self._videos,
            self._notes,
        )  # fmt: skip

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess an image with the caption prompt by the library's processor."""
        with self.prompts.lock:
            columns = self._processor(
                images=[image.convert("RGB")],
                text=[self.prompts.text],
                return_tensors="pt",
                add_special_tokens=not self.prompts.bare,
            )
        return {name: torch.as_tensor(values) for name, values in columns.items()}

    @property
    def max_frames(self) -> int:
        """Most frames of a video in one prompt; 0 where it is shown one after the other."""
        if self.video_input != "images":
            return MAX_FRAMES if self.video_input else 0
        room = self._most_tokens() - self._caption_room() - len(self.prompts.tail)
        return max(0, room // max(1, self._image_tokens))

    def prepare_video(self, frames: Sequence[Image], timing: FrameTiming) -> PreparedImage:
        """Preprocess the frames of a video, with the caption prompt.

        Raises:
            InputError: the processor does not take them, or they leave no room for a caption.
        """
        if self.video_obstacle:
            raise InputError(self.video_obstacle)
        if self.video_input == "video":
            prepared = prepare_clip(frames, timing, self._processor, self.prompts)
        else:
            prepared = prepare_images_turn(frames, self._processor, self.prompts)
        length = prepared["input_ids"].shape[1]
        if length + self._caption_room() > self._most_tokens():
            raise InputError(
                f"{len(frames)} frames take {length:,} tokens, and {self.name} reads "
                f"{self._most_tokens():,} with the caption."
            )
        return prepared

    def noise_images(self, count: int, seed: int) -> list[dict[str, Tensor]]:
        """Gaussian noise in normalized pixels, in the shape of a square image."""
        blank = self._prepare(Images.new("RGB", (self._side(), self._side()), (127, 127, 127)))
        random = np.random.default_rng(seed)
        shape = tuple(blank[PIXELS].shape)
        drawn = [random.normal(self.noise_mean, self.noise_std, shape) for _ in range(count)]
        return [{**blank, PIXELS: torch.from_numpy(noise).float()} for noise in drawn]

    @exact_inference
    def encode_images(self, images: Sequence[ImageLike]) -> list[EncodedImage]:
        """Encode images, with the KV cache of the caption prompt."""
        states = [VlmImage(self._prepare(image)) for image in images]
        if self._decoder is not None:
            for state in states:
                self._cached_prefix(state, self.prompts.tail)
        return [EncodedImage(state) for state in states]

    @exact_inference
    def token_logprobs(self, images: Sequence[AnyImage], texts: Sequence[str]) -> Ragged:
        """Log P of each token of a caption and of its end, as the reply to the prompt."""
        check_pairs(self.name, images, texts)
        continuations = self.prompts.captions(texts)
        values = self._score(images, continuations, self.prompts.tail)
        offsets = [0, *accumulate(map(len, values))]
        return Ragged(torch.cat(values) if values else torch.empty(0), offsets)

    @exact_inference
    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """Log P (n,) of the answer to a question about each caption, its tokens summed."""
        check_pairs(self.name, images, texts)
        shared, continuations = self.prompts.questions(texts, question)
        values = self._score(images, continuations, shared)
        return torch.stack([part.sum() for part in values]) if values else torch.empty(0)

    @exact_inference
    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        """Greedy reply to each prompt."""
        return [
            generate_reply(prompt, self.network, self._processor, self.prompts)
            for prompt in prompts
        ]

    def _score(
        self, images: Sequence[AnyImage], texts: Sequence[Continuation], tail: tuple[int, ...]
    ) -> list[Tensor]:
        """Log-probabilities of each text's counted tokens after its image and a shared tail."""
        distinct, indices = deduplicate(images)
        members: list[list[int]] = [[] for _ in distinct]
        for i, index in enumerate(indices):
            members[index].append(i)
        logprobs: list[Tensor] = [torch.empty(0)] * len(texts)
        by_shape: dict[Any, list[tuple[dict[str, Tensor], list[int]]]] = {}
        for image, pairs in zip(distinct, members, strict=True):
            some = [texts[i] for i in pairs]
            if self._decoder is None:
                prefix = self._to_device([self._prefix(self._state(image).prepared, tail)])
                values = score_unpacked(self.network, prefix, some, self.prompts.end)
            elif (
                isinstance(image, EncodedImage) or sum(text.read for text in some) > CACHE_THRESHOLD
            ):
                cached = self._cached_prefix(self._state(image), tail)
                values = score_cached(self._decoder, cached, some)
            else:
                prefix = self._prefix(self._state(image).prepared, tail)
                shapes = tuple((name, tensor.shape) for name, tensor in sorted(prefix.items()))
                by_shape.setdefault(shapes, []).append((prefix, pairs))
                continue
            for i, part in zip(pairs, values, strict=True):
                logprobs[i] = part
        for group in by_shape.values():
            for i, part in self._score_group(group, texts):
                logprobs[i] = part
        return logprobs

    def _score_group(
        self, group: list[tuple[dict[str, Tensor], list[int]]], texts: Sequence[Continuation]
    ) -> list[tuple[int, Tensor]]:
        """Log-probabilities under images of one shape, several images per pass."""
        if self._decoder is None:
            raise RuntimeError("captions cannot be packed")
        length = group[0][0]["input_ids"].shape[1]
        length += max(sum(texts[i].read for i in pairs) for _, pairs in group)
        size = max(1, BATCH_TOKENS.get(self._device.type, 4096) // length)
        logprobs: list[tuple[int, Tensor]] = []
        for start in range(0, len(group), size):
            some = group[start : start + size]
            prefixes = embed_prefixes(self.network, self._to_device([prefix for prefix, _ in some]))
            rows = score_prefixes(
                self._decoder, prefixes, [[texts[i] for i in pairs] for _, pairs in some]
            )
            for (_, pairs), row in zip(some, rows, strict=True):
                parts = split_by_counts(row, [texts[i].counted for i in pairs])
                logprobs += zip(pairs, parts, strict=True)
        return logprobs

    def _cached_prefix(self, image: VlmImage, tail: tuple[int, ...]) -> CachedPrefix:
        """Cached prefix of an image, computed on first use."""
        if self._decoder is None:
            raise RuntimeError("captions cannot be packed")
        if tail not in image.prefixes:
            inputs = self._to_device([self._prefix(image.prepared, tail)])
            (image.prefixes[tail],) = cache_prefixes(
                self._decoder, embed_prefixes(self.network, inputs)
            )
        return image.prefixes[tail]

    def _prefix(self, prepared: Mapping[str, Tensor], tail: tuple[int, ...]) -> dict[str, Tensor]:
        return replace_tail(prepared, self.prompts.head, tail)

    def _to_device(self, prefixes: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Concatenate inputs of images of one shape, in the network's device and dtype."""
        joined = {name: torch.cat([prefix[name] for prefix in prefixes]) for name in prefixes[0]}
        return {
            name: values.to(self._device, self._dtype if is_pixels(values) else None)
            for name, values in joined.items()
        }

    def _prepare(self, image: ImageLike) -> Mapping[str, Tensor]:
        prepared = self.prepare_image(image) if isinstance(image, Image) else image
        if isinstance(prepared, Tensor):
            raise InputError(f"{self.name} was given pixels that it did not prepare itself.")
        return prepared

    def _state(self, image: AnyImage) -> VlmImage:
        if isinstance(image, EncodedImage):
            state: VlmImage = image.state
            return state
        return VlmImage(self._prepare(image))

    def _side(self) -> int:
        """Side in pixels of a square image that suits the preprocessing."""
        processor = self._processor.image_processor
        for sizes in (getattr(processor, "crop_size", None), getattr(processor, "size", None)):
            sides = [side for side in dict(sizes or {}).values() if side]
            if sides and max(sides) <= 2 * NOISE_SIDE:
                return int(max(sides))
        return NOISE_SIDE

    def _caption_room(self) -> int:
        return min(self.context, VIDEO_CAPTION_TOKENS)

    def _most_tokens(self) -> int:
        """Tokens that the language model reads."""
        return int(self._checkpoint.config.get_text_config().max_position_embeddings)

    def _caption_context(self) -> int:
        """Number of caption tokens that fit after an image and the prompt.

        Raises:
            InputError: there is no room for a caption.
        """
        most = self._most_tokens()
        used = int(self.noise_images(1, 0)[0]["input_ids"].shape[1])
        self._image_tokens = used - len(self.prompts.tail)
        if most - used < 2:
            raise InputError(
                f"{self.name} reads {most} tokens, and an image with the prompt takes {used}."
            )
        return min(MAX_CAPTION_TOKENS, most - used)
