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
from contrapose.models.capabilities import EncodedImage, ModelCard
from contrapose.models.encoded_images import deduplicate
from contrapose.models.exact import exact_inference
from contrapose.models.hf.inputs import find_pixel_mean
from contrapose.models.hf.vlm.decoder import Decoder
from contrapose.models.hf.vlm.forward import generate_reply, replace_tail, score_unpacked
from contrapose.models.hf.vlm.prefix_scoring import (
    CachedPrefix,
    Continuation,
    cache_prefixes,
    embed_prefixes,
    score_cached,
    score_prefixes,
    split_by_counts,
)

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
    from contrapose.models.hf.vlm.prompts import ChatPrompts

NOISE = (0.0, 0.25)
"""Mean and standard deviation of noise in normalised pixels, as for LLaVA-1.5 (Lin et al., 2024,
appendix D)."""
MAX_CAPTION_TOKENS = 1024
"""Most tokens of a caption, where the network would read more."""
NOISE_SIDE = 448
"""Pixels a side of noise images, where the preprocessing has no size of its own."""
BATCH_TOKENS = {"cuda": 16384}
"""Tokens through the layers at once; 4096 on other devices."""
CACHE_THRESHOLD = 768
"""Tokens of one image's captions from which on its prefix is kept, and they come in rows."""


@dataclass(frozen=True, slots=True, eq=False)
class VlmImage:
    """A prepared image, and its cached prefixes by their tokens after the image."""

    prepared: Mapping[str, Tensor]
    kept: dict[tuple[int, ...], CachedPrefix] = field(default_factory=dict)


class Vlm:
    """Image-text-to-text model: scores `lm` and `vqa`, and chat.

    Attributes:
        name: the canonical model string.
        fingerprint: hash of all that its answers hang on.
        batch_size: pairs at once, when the user does not say.
        network: the library's own class.
        prompts: its chat template and tokeniser.
        card: what a user should know of it.
        lm_tokens: which tokens count, after which prompt.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        network: Any,
        processor: Any,
        prompts: ChatPrompts,
        decoder: Decoder | None,
        notes: Sequence[str] = (),
    ):
        options = checkpoint.options
        self.name = checkpoint.name
        self.fingerprint = checkpoint.fingerprint
        self.network = network
        self.prompts = prompts
        self._processor = processor
        self.pixel_mean = find_pixel_mean(processor.image_processor)
        self._decoder = decoder
        self._device = torch.device(options.device)
        self._dtype = options.torch_dtype
        self.batch_size = 32 if self._device.type == "cuda" else 8
        self.prompts.context = self._room(checkpoint.config)
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
                f"Noise images have mean {NOISE[0]:g} and standard deviation {NOISE[1]:g} in "
                "normalised pixels.",
                *notes,
            ),
        )

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, its end included."""
        return self.prompts.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self.prompts.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, its end included."""
        return self.prompts.counts(texts)

    def prepare_image(self, image: Image) -> PreparedImage:
        """Preprocess an image with the caption prompt by the library's processor."""
        with self.prompts.lock:
            found = self._processor(
                images=[image.convert("RGB")],
                text=[self.prompts.text],
                return_tensors="pt",
                add_special_tokens=not self.prompts.bare,
            )
        return {name: torch.as_tensor(values) for name, values in found.items()}

    def noise_images(self, count: int, seed: int) -> list[dict[str, Tensor]]:
        """Gaussian noise in normalised pixels, in the shape of a square image."""
        blank = self._named(Images.new("RGB", (self._side(), self._side()), (127, 127, 127)))
        random = np.random.default_rng(seed)
        shape = tuple(blank["pixel_values"].shape)
        return [
            {**blank, "pixel_values": torch.from_numpy(random.normal(*NOISE, shape)).float()}
            for _ in range(count)
        ]

    @exact_inference
    def look(self, images: Sequence[ImageLike]) -> list[EncodedImage]:
        """Encode images, with the KV cache of the caption prompt."""
        seen = [VlmImage(self._named(image)) for image in images]
        if self._decoder is not None:
            for each in seen:
                self._kept(each, self.prompts.tail)
        return [EncodedImage(each) for each in seen]

    @exact_inference
    def token_logprobs(self, images: Sequence[AnyImage], texts: Sequence[str]) -> Ragged:
        """Log P of each token of a caption and of its end, as the reply to the prompt."""
        self._require_pairs(images, texts)
        continuations = self.prompts.captions(texts)
        values = self._score(images, continuations, self.prompts.tail)
        offsets = [0, *accumulate(len(each) for each in values)]
        return Ragged(torch.cat(values) if values else torch.empty(0), offsets)

    @exact_inference
    def answer_logprobs(
        self, images: Sequence[AnyImage], texts: Sequence[str], question: QuestionTemplate
    ) -> Tensor:
        """Log P (n,) of the answer to a question about each caption, its tokens summed."""
        self._require_pairs(images, texts)
        shared, continuations = self.prompts.questions(texts, question)
        values = self._score(images, continuations, shared)
        return torch.stack([each.sum() for each in values]) if values else torch.empty(0)

    @exact_inference
    def reply(self, prompts: Sequence[Prompt]) -> list[Reply]:
        """Greedy reply to each prompt."""
        return [
            generate_reply(each, self.network, self._processor, self.prompts) for each in prompts
        ]

    def _score(
        self, images: Sequence[AnyImage], texts: Sequence[Continuation], tail: tuple[int, ...]
    ) -> list[Tensor]:
        """Log-probabilities of each text's counted tokens after its image and a shared tail."""
        distinct, places = deduplicate(images)
        members: list[list[int]] = [[] for _ in distinct]
        for i, place in enumerate(places):
            members[place].append(i)
        found: list[Tensor] = [torch.empty(0)] * len(texts)
        fresh: dict[Any, list[tuple[dict[str, Tensor], list[int]]]] = {}
        for sight, own in zip(distinct, members, strict=True):
            some = [texts[i] for i in own]
            if self._decoder is None:
                prefix = self._placed([self._prefix(self._seen(sight).prepared, tail)])
                values = score_unpacked(self.network, prefix, some, self.prompts.end)
            elif (
                isinstance(sight, EncodedImage) or sum(text.read for text in some) > CACHE_THRESHOLD
            ):
                values = score_cached(self._decoder, self._kept(self._seen(sight), tail), some)
            else:
                prefix = self._prefix(self._seen(sight).prepared, tail)
                shapes = tuple((name, each.shape) for name, each in sorted(prefix.items()))
                fresh.setdefault(shapes, []).append((prefix, own))
                continue
            for i, each in zip(own, values, strict=True):
                found[i] = each
        for alike in fresh.values():
            for i, each in self._packed(alike, texts):
                found[i] = each
        return found

    def _packed(
        self, alike: list[tuple[dict[str, Tensor], list[int]]], texts: Sequence[Continuation]
    ) -> list[tuple[int, Tensor]]:
        """Log-probabilities under images of one shape, several images per pass."""
        if self._decoder is None:
            raise RuntimeError("captions cannot be packed")
        length = alike[0][0]["input_ids"].shape[1]
        length += max(sum(texts[i].read for i in own) for _, own in alike)
        size = max(1, BATCH_TOKENS.get(self._device.type, 4096) // length)
        found: list[tuple[int, Tensor]] = []
        for start in range(0, len(alike), size):
            some = alike[start : start + size]
            prefixes = embed_prefixes(self.network, self._placed([prefix for prefix, _ in some]))
            rows = score_prefixes(
                self._decoder, prefixes, [[texts[i] for i in own] for _, own in some]
            )
            for (_, own), row in zip(some, rows, strict=True):
                parts = split_by_counts(row, [texts[i].counted for i in own])
                found += zip(own, parts, strict=True)
        return found

    def _kept(self, seen: VlmImage, tail: tuple[int, ...]) -> CachedPrefix:
        """Cached prefix of an image, computed on first use."""
        if self._decoder is None:
            raise RuntimeError("captions cannot be packed")
        if tail not in seen.kept:
            prefixes = embed_prefixes(
                self.network, self._placed([self._prefix(seen.prepared, tail)])
            )
            (seen.kept[tail],) = cache_prefixes(self._decoder, prefixes)
        return seen.kept[tail]

    def _prefix(self, prepared: Mapping[str, Tensor], tail: tuple[int, ...]) -> dict[str, Tensor]:
        return replace_tail(prepared, self.prompts.head, tail)

    def _placed(self, prefixes: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Concatenate inputs of images of one shape, in the network's device and dtype."""
        joined = {name: torch.cat([each[name] for each in prefixes]) for name in prefixes[0]}
        return {
            name: values.to(self._device, self._dtype if values.is_floating_point() else None)
            for name, values in joined.items()
        }

    def _named(self, picture: ImageLike) -> Mapping[str, Tensor]:
        prepared = self.prepare_image(picture) if isinstance(picture, Image) else picture
        if isinstance(prepared, Tensor):
            raise InputError(f"{self.name} was given pixels that it did not prepare itself.")
        return prepared

    def _seen(self, sight: AnyImage) -> VlmImage:
        if isinstance(sight, EncodedImage):
            state: VlmImage = sight.state
            return state
        return VlmImage(self._named(sight))

    def _require_pairs(self, images: Sequence[AnyImage], texts: Sequence[str]) -> None:
        if len(images) != len(texts):
            raise InputError(
                f"{self.name} is asked about pairs: {len(images)} images were given with "
                f"{len(texts)} captions."
            )

    def _side(self) -> int:
        """Side in pixels of a square image that suits the preprocessing."""
        processor = self._processor.image_processor
        for sizes in (getattr(processor, "crop_size", None), getattr(processor, "size", None)):
            sides = [side for side in dict(sizes or {}).values() if side]
            if sides and max(sides) <= 2 * NOISE_SIDE:
                return int(max(sides))
        return NOISE_SIDE

    def _room(self, config: Any) -> int:
        """Number of caption tokens that fit after an image and the prompt.

        Raises:
            InputError: none.
        """
        most = int(config.get_text_config().max_position_embeddings)
        used = int(self.noise_images(1, 0)[0]["input_ids"].shape[1])
        if most - used < 2:
            raise InputError(
                f"{self.name} reads {most} tokens, and an image with the prompt takes {used}."
            )
        return min(MAX_CAPTION_TOKENS, most - used)
