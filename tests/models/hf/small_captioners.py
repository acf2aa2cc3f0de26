"""Small captioners of random weights, and what the library itself says of a pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.models.hf.small import fast_tokenizer
from tests.models.hf.small_fusion import bert_tokenizer, hf, picture, saved

SIDE = 32
IMAGES = [picture(50, 40, 0), picture(33, 70, 1), picture(32, 32, 2), picture(90, 20, 3, "L")]
QUERIES, IMAGE = 5, 300

VISION = {
    "hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "image_size": SIDE, "patch_size": 8,
}  # fmt: skip


def processor() -> Any:
    return hf.BlipImageProcessorPil(size={"height": SIDE, "width": SIDE})


def pixels(image: Any) -> Tensor:
    found: Tensor = processor()(image.convert("RGB"), return_tensors="pt")["pixel_values"]
    return found


def blip_config(**changes: Any) -> Any:
    text = {
        "vocab_size": 40, "hidden_size": 32, "encoder_hidden_size": 24, "intermediate_size": 48,
        "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 128,
        "bos_token_id": 1, "eos_token_id": 3, "sep_token_id": 3, "pad_token_id": 0,
        "label_smoothing": 0.1, **changes,
    }  # fmt: skip
    return hf.BlipConfig(text_config=text, vision_config=VISION, image_text_hidden_size=16)


def git_config(**changes: Any) -> Any:
    given = {
        "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 48, "bos_token_id": 2,
        "eos_token_id": 3, "pad_token_id": 0, **changes,
    }  # fmt: skip
    return hf.GitConfig(vision_config=VISION, **given)


def blip2_config(language: str, **changes: Any) -> Any:
    text = {
        "opt": {
            "model_type": "opt", "vocab_size": 320, "hidden_size": 24, "ffn_dim": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "word_embed_proj_dim": 24,
            "max_position_embeddings": 384, "bos_token_id": 0, "eos_token_id": 2,
            "pad_token_id": 1, **changes,
        },
        "t5": {
            "model_type": "t5", "vocab_size": 320, "d_model": 24, "d_kv": 8, "d_ff": 48,
            "num_layers": 2, "num_decoder_layers": 2, "num_heads": 3, "eos_token_id": 2,
            "pad_token_id": 1, "decoder_start_token_id": 1, "feed_forward_proj": "gated-gelu",
            "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16, **changes,
        },
        "bloom": {"model_type": "bloom", "vocab_size": 320, "hidden_size": 16, "n_layer": 1,
                  "n_head": 2},
    }[language]  # fmt: skip
    return hf.Blip2Config(
        vision_config=VISION,
        qformer_config={
            "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 24,
        },
        text_config=text, num_query_tokens=QUERIES, image_token_index=IMAGE,
    )  # fmt: skip


def opt_tokenizer() -> Any:
    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return fast_tokenizer("<s> $A", special, model_max_length=2000)


def t5_tokenizer() -> Any:
    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return fast_tokenizer("$A </s>", special, model_max_length=160)


@dataclass(frozen=True)
class Family:
    """One kind of captioner.

    Attributes:
        kind: the library's class.
        config: makes a small configuration.
        tokenizer: makes its tokeniser.
        direct: network, image, caption → the library's own loss without smoothing, and the
            log-probabilities of its logits.
    """

    kind: Any
    config: Callable[..., Any]
    tokenizer: Callable[[], Any]
    direct: Callable[[Any, Any, str], tuple[Tensor, Tensor]]

    def save(self, folder: Path, **changes: Any) -> Path:
        return saved(folder, self.kind(self.config(**changes)), self.tokenizer(), processor())

    def library(self, folder: Path) -> Any:
        return self.kind.from_pretrained(folder).eval()


def _picked(logits: Tensor, labels: Tensor) -> Tensor:
    """Log-probabilities of labels (1, l) under logits that stand in their place."""
    return logits.log_softmax(dim=-1).gather(2, labels[:, :, None])[0, :, 0]


def _blip(network: Any, image: Any, text: str) -> tuple[Tensor, Tensor]:
    tokens = bert_tokenizer()(text, return_tensors="pt")["input_ids"]
    tokens[:, 0] = network.config.text_config.bos_token_id
    network.text_decoder.label_smoothing = 0.0
    found = network(pixel_values=pixels(image), input_ids=tokens, labels=tokens)
    return found.loss, _picked(found.logits[:, :-1], tokens[:, 1:])


def _git(network: Any, image: Any, text: str) -> tuple[Tensor, Tensor]:
    tokens = bert_tokenizer()(text, return_tensors="pt")["input_ids"]
    found = network(pixel_values=pixels(image), input_ids=tokens, labels=tokens)
    return found.loss, _picked(found.logits[:, -tokens.shape[1] : -1], tokens[:, 1:])


def _opt(network: Any, image: Any, text: str) -> tuple[Tensor, Tensor]:
    words = opt_tokenizer()(text)["input_ids"]
    tokens = torch.tensor([[*[IMAGE] * QUERIES, *words, 2]])
    labels = tokens.clone()
    labels[:, : QUERIES + 1] = -100
    found = network(pixel_values=pixels(image), input_ids=tokens, labels=labels)
    logits = found.language_model_outputs.logits
    return found.loss, _picked(logits[:, QUERIES:-1], tokens[:, QUERIES + 1 :])


def _t5(network: Any, image: Any, text: str) -> tuple[Tensor, Tensor]:
    labels = torch.tensor([t5_tokenizer()(text)["input_ids"]])
    tokens = torch.tensor([[*[IMAGE] * QUERIES, *t5_tokenizer()("")["input_ids"]]])
    found = network(pixel_values=pixels(image), input_ids=tokens, labels=labels)
    return found.loss, _picked(found.logits, labels)


def _blip2(language: str) -> Callable[..., Any]:
    return lambda **changes: blip2_config(language, **changes)


FAMILIES = {
    "blip": Family(hf.BlipForConditionalGeneration, blip_config, bert_tokenizer, _blip),
    "git": Family(hf.GitForCausalLM, git_config, bert_tokenizer, _git),
    "blip-2 opt": Family(hf.Blip2ForConditionalGeneration, _blip2("opt"), opt_tokenizer, _opt),
    "blip-2 t5": Family(hf.Blip2ForConditionalGeneration, _blip2("t5"), t5_tokenizer, _t5),
}
