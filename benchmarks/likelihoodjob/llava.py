"""LLaVA-1.5: a CLIP tower, a projection and a Llama, of random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from contrapose.models.hf.vlm.decoder import Decoder, find_packing_obstacle
from contrapose.models.hf.vlm.prefix_scoring import (
    ROW_TOKENS,
    Continuation,
    cache_prefixes,
    embed_prefixes,
    find_language_model,
    score_cached,
    score_prefixes,
)
from likelihoodjob.job import PROMPT, WORDS, Job, mean_logprobs, pairs_of

SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "7b": {
        "vision": {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "image_size": 336,
            "patch_size": 14,
        },
        "text": {
            "vocab_size": 32064,
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
        },
    },
    "small": {
        "vision": {
            "hidden_size": 64,
            "intermediate_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "image_size": 112,
            "patch_size": 14,
        },
        "text": {
            "vocab_size": 1000,
            "hidden_size": 256,
            "intermediate_size": 688,
            "num_hidden_layers": 6,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
        },
    },
}
TOKENS = 16384
"""Tokens that Contrapose puts through the layers at once."""


class Llava:
    """The architecture, asked in each way."""

    end = 2

    def __init__(self, size: str, device: str, dtype: torch.dtype):
        from transformers import (
            CLIPVisionConfig,
            LlamaConfig,
            LlavaConfig,
            LlavaForConditionalGeneration,
        )

        vision = CLIPVisionConfig(**SIZES[size]["vision"])
        text = LlamaConfig(**SIZES[size]["text"])
        self.image = text.vocab_size - 1
        config: Any = LlavaConfig(
            vision_config=vision.to_dict(),
            text_config=text.to_dict(),
            image_token_index=self.image,
            image_seq_length=(vision.image_size // vision.patch_size) ** 2,
        )
        torch.manual_seed(0)
        usual = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        with torch.device(device):
            self.network: Any = LlavaForConditionalGeneration(config).eval()
        torch.set_default_dtype(usual)
        self.network.requires_grad_(False)
        self.side = vision.image_size
        self.vocabulary = text.vocab_size
        self._vision, self._text = vision, text
        language, head = find_language_model(self.network), self.network.lm_head
        if why := find_packing_obstacle(language, head):
            raise SystemExit(f"LLaVA cannot be packed here: {why}")
        self._decoder = Decoder(language, head)
        seen = [self.image] * (vision.image_size // vision.patch_size) ** 2
        words = list(range(10, 10 + PROMPT))
        self._prompt = torch.tensor(words[:5] + seen + words[5:], device=device)

    def one_by_one(self, job: Job) -> Tensor:
        """A pair at a time."""
        return self.batched(job, 1)

    def batched(self, job: Job, size: int) -> Tensor:
        """Whole pairs at once, image and prompt again for each."""
        images, captions = pairs_of(job)
        found = []
        for start in range(0, len(images), size):
            targets = captions[start : start + size]
            prompt = self._prompt.expand(len(targets), -1)
            logits = self.network(
                input_ids=torch.cat([prompt, targets], dim=1),
                pixel_values=job.pixels[images[start : start + size]],
                use_cache=False,
            ).logits
            found.append(mean_logprobs(logits[:, len(self._prompt) - 1 : -1], targets))
        return torch.cat(found).view(job.captions.shape[:2])

    def packed(self, job: Job) -> Tensor:
        """An image once, its captions packed behind it."""
        captions = job.captions.shape[1]
        size = max(1, TOKENS // (len(self._prompt) + captions * WORDS))
        ids = job.captions.tolist()
        found = []
        for start in range(0, len(ids), size):
            texts = [[_continuation(row) for row in rows] for rows in ids[start : start + size]]
            prefixes = self._prefixes(job.pixels[start : start + size])
            found += score_prefixes(self._decoder, prefixes, texts)
        return torch.stack(found).view(len(ids), captions, -1).mean(dim=2)

    def prior(self, job: Job) -> Tensor:
        """Images looked at once, then all captions behind each of them."""
        kept = cache_prefixes(self._decoder, self._prefixes(job.pixels))
        rows = []
        for one, ids in zip(kept, job.captions.tolist(), strict=True):
            values = score_cached(self._decoder, one, [_continuation(row) for row in ids])
            rows.append(torch.stack(values).mean(dim=1))
        return torch.stack(rows)

    def _prefixes(self, pixels: Tensor) -> Any:
        prompt = self._prompt.expand(len(pixels), -1)
        return embed_prefixes(self.network, {"input_ids": prompt, "pixel_values": pixels})

    def plain_flops(self, job: Job) -> float:
        """Every pair: tower, prompt, caption, and the vocabulary at every position."""
        length = len(self._prompt) + WORDS + 1
        text = self._text
        layers = text.num_hidden_layers * self._layer(length, length * length / 2)
        head = 2 * length * text.hidden_size * text.vocab_size
        return float(job.pairs * (self._tower() + layers + head))

    def packed_flops(self, job: Job) -> float:
        """Every image: tower, prompt, its captions, and the vocabulary where it is asked for."""
        text, prefix = self._text, len(self._prompt)
        after = job.captions.shape[1] * WORDS
        length = prefix + after
        seen = prefix * prefix / 2 + after * (prefix + min(after, ROW_TOKENS))
        last = (
            self._layer(after + 1, (after + 1) * (prefix + min(after, ROW_TOKENS)))
            + 4 * prefix * text.hidden_size**2
        )
        layers = (text.num_hidden_layers - 1) * self._layer(length, seen) + last
        head = 2 * (after + 1) * text.hidden_size * text.vocab_size
        return float(len(job.pixels) * (self._tower() + layers + head))

    def _layer(self, tokens: float, seen: float) -> float:
        text = self._text
        weights = 4 * text.hidden_size**2 + 3 * text.hidden_size * text.intermediate_size
        return 2 * tokens * weights + 4 * seen * text.hidden_size

    def _tower(self) -> float:
        vision, wide = self._vision, self._text.hidden_size
        width, patches = vision.hidden_size, (vision.image_size // vision.patch_size) ** 2
        tokens = patches + 1
        layer = 2 * tokens * (4 * width**2 + 2 * width * vision.intermediate_size)
        layer += 4 * tokens**2 * width
        first = 2 * patches * 3 * vision.patch_size**2 * width
        return float(vision.num_hidden_layers * layer + first + 2 * patches * wide * (width + wide))


def _continuation(row: list[int]) -> Continuation:
    return Continuation(tuple(row), len(row))
