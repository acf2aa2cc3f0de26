"""Small language models with random weights, saved as downloaded ones lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertLMHeadModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from tests.models.hf.small import WORDS

CONTEXT = 24


def tokenizer(*, start: str | None = None, adds: bool = False) -> PreTrainedTokenizerFast:
    """Words are tokens; `start` is a special token, which the tokeniser may add itself."""
    words = ["[UNK]", *([start] if start else []), *WORDS]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    if start and adds:
        inner.post_processor = processors.TemplateProcessing(
            single=f"{start} $A", special_tokens=[(start, 1)]
        )
    given: dict[str, Any] = {"unk_token": "[UNK]"}
    if start:
        given |= {"bos_token": start, "eos_token": start}
    kind: Any = PreTrainedTokenizerFast
    made: PreTrainedTokenizerFast = kind(tokenizer_object=inner, model_max_length=CONTEXT, **given)
    return made


def _saved(folder: Path, kind: Any, config: Any, words: PreTrainedTokenizerFast) -> Path:
    network = kind(config)
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(0, 0.3)
    network.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def gpt2(folder: Path, start: str | None = "<|endoftext|>", seed: int = 0) -> Path:
    """GPT-2: the tokeniser adds nothing."""
    torch.manual_seed(seed)
    words = tokenizer(start=start)
    config = GPT2Config(
        vocab_size=len(words), n_positions=CONTEXT, n_embd=16, n_layer=2, n_head=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    return _saved(folder, GPT2LMHeadModel, config, words)


def llama(folder: Path) -> Path:
    """Llama: the tokeniser puts <s> before every text."""
    torch.manual_seed(1)
    words = tokenizer(start="<s>", adds=True)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=CONTEXT,
        bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    return _saved(folder, LlamaForCausalLM, config, words)


def bert(folder: Path) -> Path:
    """BERT, which reads from both sides."""
    torch.manual_seed(2)
    words = tokenizer(start="[CLS]")
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=CONTEXT, is_decoder=False,
    )  # fmt: skip
    return _saved(folder, BertLMHeadModel, config, words)
