"""BLIP-large as a captioner, of random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from contrapose.models.encoded_images import EncodedImages
from contrapose.models.hf.blip import cache_cross_attention, run_text_network
from contrapose.models.packing import MAX_ROW_TOKENS, pack, ragged_logprobs
from likelihoodjob.job import WORDS, Job, mean_logprobs, pairs_of

SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "7b": {
        "vision": {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "image_size": 384,
            "patch_size": 16,
        },
        "text": {"vocab_size": 30524, "encoder_hidden_size": 1024},
    },
    "small": {
        "vision": {
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_hidden_layers": 6,
            "num_attention_heads": 4,
            "image_size": 128,
            "patch_size": 16,
        },
        "text": {
            "vocab_size": 1000,
            "hidden_size": 96,
            "intermediate_size": 384,
            "num_hidden_layers": 6,
            "num_attention_heads": 4,
            "encoder_hidden_size": 128,
            "bos_token_id": 998,
        },
    },
}
IMAGES = 64
"""Images that Contrapose looks at at once."""
CAPTIONS = 512
"""Captions under one image at once."""


class Blip:
    """The architecture, asked in each way."""

    end = 102

    def __init__(self, size: str, device: str, dtype: torch.dtype):
        from transformers import (
            BlipConfig,
            BlipForConditionalGeneration,
            BlipTextConfig,
            BlipVisionConfig,
        )

        vision = BlipVisionConfig(**SIZES[size]["vision"])
        text = BlipTextConfig(**SIZES[size]["text"])
        config: Any = BlipConfig(vision_config=vision.to_dict(), text_config=text.to_dict())
        torch.manual_seed(0)
        with torch.device(device):
            self.network: Any = BlipForConditionalGeneration(config).eval()
        self.network.to(dtype).requires_grad_(False)
        self.side = vision.image_size
        self.vocabulary = text.vocab_size
        self._vision, self._text = config.vision_config, config.text_config

    def one_by_one(self, job: Job) -> Tensor:
        """A pair at a time."""
        return self.batched(job, 1)

    def batched(self, job: Job, size: int) -> Tensor:
        """Whole pairs at once, the image again for each."""
        images, captions = pairs_of(job)
        found = []
        for start in range(0, len(images), size):
            targets = captions[start : start + size]
            first = targets.new_full((len(targets), 1), self._text.bos_token_id)
            logits = self.network(
                pixel_values=job.pixels[images[start : start + size]],
                input_ids=torch.cat([first, targets], dim=1),
            ).logits
            found.append(mean_logprobs(logits[:, :-1], targets))
        return torch.cat(found).view(job.captions.shape[:2])

    def packed(self, job: Job) -> Tensor:
        """An image once, its captions in one row."""
        found = []
        for start in range(0, len(job.pixels), IMAGES):
            seen = EncodedImages(
                (self.network.vision_model(job.pixels[start : start + IMAGES])[0],)
            )
            found.append(self._read(seen, job.captions[start : start + IMAGES]))
        return torch.cat(found)

    def prior(self, job: Job) -> Tensor:
        """Images looked at once, then all captions under each of them."""
        text = self.network.text_decoder.bert
        found = []
        for pixels, captions in zip(job.pixels, job.captions, strict=True):
            kept = cache_cross_attention(
                text, EncodedImages((self.network.vision_model(pixels[None])[0],))
            )
            parts = [self._read(kept, some[None]) for some in captions.split(CAPTIONS)]
            found.append(torch.cat(parts, dim=1))
        return torch.cat(found)

    def _read(self, seen: EncodedImages, captions: Tensor) -> Tensor:
        images, count = captions.shape[:2]
        rows = [[self._text.bos_token_id, *ids] for ids in captions.flatten(0, 1).tolist()]
        places = [image for image in range(images) for _ in range(count)]
        packed = pack(rows, places, counted=None, device=captions.device)
        decoder = self.network.text_decoder
        states = run_text_network(decoder.bert, packed, seen.select(packed.row_images), causal=True)
        values: Tensor = ragged_logprobs(decoder.cls(packed.select(states)), packed).values
        return values.view(images, count, -1).mean(dim=2).to(captions.device)

    def plain_flops(self, job: Job) -> float:
        """Every pair: tower, the image's keys, caption, and the vocabulary at every position."""
        tokens = WORDS + 2
        words = tokens * (self._word() + tokens * 2 * self._width())
        return float(job.pairs * (self._tower() + self._image_keys() + words))

    def packed_flops(self, job: Job) -> float:
        """Every image: tower, its keys, and its captions."""
        tokens = job.captions.shape[1] * (WORDS + 1)
        words = tokens * (self._word() + min(tokens, MAX_ROW_TOKENS) * 4 * self._width())
        return float(len(job.pixels) * (self._tower() + self._image_keys() + words))

    def _width(self) -> float:
        return float(self._text.num_hidden_layers * self._text.hidden_size)

    def _word(self) -> float:
        """Of one token: weights, cross-attention, vocabulary."""
        text = self._text
        weights = 6 * text.hidden_size**2 + 2 * text.hidden_size * text.intermediate_size
        layers = text.num_hidden_layers * 2 * weights + 4 * self._patches() * self._width()
        return float(layers + 2 * text.hidden_size * (text.vocab_size + text.hidden_size))

    def _image_keys(self) -> float:
        return float(4 * self._patches() * self._vision.hidden_size * self._width())

    def _patches(self) -> int:
        return int((self._vision.image_size // self._vision.patch_size) ** 2 + 1)

    def _tower(self) -> float:
        vision, tokens = self._vision, self._patches()
        width = vision.hidden_size
        layer = 2 * tokens * (4 * width**2 + 2 * width * vision.intermediate_size)
        layer += 4 * tokens**2 * width
        return float(
            vision.num_hidden_layers * layer + 2 * tokens * 3 * vision.patch_size**2 * width
        )
