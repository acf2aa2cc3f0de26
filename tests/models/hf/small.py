"""Small models of the transformers library with random weights, saved as downloaded ones lie.

Each builder writes a folder with configuration, weights, tokeniser and image processor; nothing is
fetched. Weights are wide enough that different inputs give clearly different answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AlignConfig,
    AlignModel,
    AlignTextConfig,
    AlignVisionConfig,
    AltCLIPConfig,
    AltCLIPModel,
    AltCLIPTextConfig,
    AltCLIPVisionConfig,
    BertTokenizer,
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    CLIPTextConfig,
    CLIPTokenizer,
    CLIPVisionConfig,
    EfficientNetImageProcessorPil,
    GemmaTokenizer,
    PreTrainedTokenizerFast,
    Siglip2Config,
    Siglip2ImageProcessorPil,
    Siglip2Model,
    Siglip2TextConfig,
    Siglip2Tokenizer,
    Siglip2VisionConfig,
    SiglipConfig,
    SiglipImageProcessorPil,
    SiglipModel,
    SiglipTextConfig,
    SiglipVisionConfig,
)

WORDS = [
    "a",
    "red",
    "green",
    "blue",
    "dog",
    "cat",
    "sits",
    "on",
    "under",
    "the",
    "left",
    "right",
    "of",
    "photo",
    "two",
    "small",
    "large",
]
CAPTIONS = (
    "a red dog",
    "a green cat sits under the small blue dog",
    "the dog",
    "two large cats on the left of a photo of a blue dog",
)
LONG = "a red dog sits on the left of a blue cat " * 20


def pictures() -> list[Image.Image]:
    """Images of several shapes, one of them grey."""
    random = np.random.default_rng(7)
    shapes = ((48, 64, 3), (64, 48, 3), (40, 40, 3), (90, 31, 3))
    colour = [Image.fromarray(_smooth(random, shape)) for shape in shapes]
    grey = Image.fromarray(_smooth(random, (50, 70, 3))).convert("L")
    return [*colour, grey]


def _smooth(random: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    coarse = random.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    return np.asarray(
        Image.fromarray(coarse).resize((shape[1], shape[0]), Image.Resampling.BICUBIC)
    )


def randomised(network: Any, seed: int = 0) -> Any:
    """The network with weights that make its answers differ, in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.ndim >= 2:
                fan = weight[0].numel()
                weight.copy_(torch.randn(weight.shape, generator=generator) * (1.5 / fan**0.5))
            elif weight.ndim == 1 and not name.endswith("weight"):
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    return network.eval()


def clip_tokenizer(context: int = 77) -> CLIPTokenizer:
    """Bytes and no merges: every letter is a token."""
    letters = pre_tokenizers.ByteLevel.alphabet()
    symbols = [*sorted(letters), *(f"{letter}</w>" for letter in sorted(letters))]
    vocabulary = {symbol: i for i, symbol in enumerate(symbols)}
    for special in ("<|startoftext|>", "<|endoftext|>"):
        vocabulary[special] = len(vocabulary)
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=context)


def bert_tokenizer(context: int = 64) -> BertTokenizer:
    """Words, and letters for the rest."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'\"-"
    pieces = [*WORDS, *letters, *(f"##{letter}" for letter in letters)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys([*special, *pieces]))}
    return BertTokenizer(vocab=vocabulary, model_max_length=context)


def fast_tokenizer(template: str, special: dict[str, str], **changes: Any) -> Any:
    """A byte tokeniser with the special tokens of some family around each text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [*special.values(), *letters]
    vocabulary = {name: i for i, name in enumerate(dict.fromkeys(names))}
    unknown = special.get("unk_token")
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=unknown))
    inner.normalizer = normalizers.NFC()
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    used = [(name, vocabulary[name]) for name in special.values() if name in template]
    inner.post_processor = processors.TemplateProcessing(single=template, special_tokens=used)
    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=inner, **special, **changes)


def gemma_letters() -> dict[str, int]:
    """Special tokens and all bytes, in lower and upper case."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    letters = ["▁", *(chr(code) for code in range(33, 127))]
    return {name: i for i, name in enumerate([*special, *letters])}


def save_clip(folder: Path, *, seed: int = 0, **changes: Any) -> Any:
    """A CLIP of 32-pixel images and 77 tokens."""
    tokenizer = clip_tokenizer()
    text = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
    )
    config = CLIPConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16, **changes
    )
    network = randomised(CLIPModel(config), seed)
    processor = CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    return _saved(folder, network, tokenizer, processor)


def save_siglip(folder: Path, *, gemma: bool = False) -> Any:
    """A SigLIP of 32-pixel images and 64 tokens; with Gemma's tokeniser it is a SigLIP 2."""
    tokenizer: Any
    if gemma:
        tokenizer = GemmaTokenizer(vocab=gemma_letters(), merges=[], add_eos_token=True)
    else:
        special = {"pad_token": "</s>", "eos_token": "</s>", "unk_token": "<unk>"}
        tokenizer = fast_tokenizer("$A </s>", special, model_max_length=64)
    text = SiglipTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.eos_token_id,
    )
    vision = SiglipVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
    )
    config = SiglipConfig(text_config=text.to_dict(), vision_config=vision.to_dict())
    processor = SiglipImageProcessorPil(size={"height": 32, "width": 32})
    return _saved(folder, randomised(SiglipModel(config)), tokenizer, processor)


def save_naflex(folder: Path) -> Any:
    """A SigLIP 2 whose images keep their shape, in at most 16 patches of 8 pixels."""
    tokenizer = Siglip2Tokenizer(vocab=gemma_letters(), merges=[])
    text = Siglip2TextConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    )
    vision = Siglip2VisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_patches=16,
        patch_size=8,
    )
    config = Siglip2Config(text_config=text.to_dict(), vision_config=vision.to_dict())
    processor = Siglip2ImageProcessorPil(patch_size=8, max_num_patches=16)
    return _saved(folder, randomised(Siglip2Model(config)), tokenizer, processor)


def save_align(folder: Path) -> Any:
    """An ALIGN of 32-pixel images."""
    tokenizer = bert_tokenizer()
    text = AlignTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
    )
    vision = AlignVisionConfig(
        image_size=32,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        depth_divisor=8,
        hidden_dim=32,
        in_channels=[32, 8],
        out_channels=[8, 16],
        kernel_sizes=[3, 3],
        depthwise_padding=[],
        strides=[1, 2],
        num_block_repeats=[1, 1],
        expand_ratios=[1, 6],
    )
    config = AlignConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16
    )
    processor = EfficientNetImageProcessorPil(
        size={"height": 36, "width": 36},
        crop_size={"height": 32, "width": 32},
        do_center_crop=True,
        rescale_offset=True,
        rescale_factor=1 / 127.5,
        do_normalize=False,
        include_top=False,
    )
    return _saved(folder, randomised(AlignModel(config)), tokenizer, processor)


def save_altclip(folder: Path) -> Any:
    """An AltCLIP of 32-pixel images and 77 tokens."""
    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = fast_tokenizer("<s> $A </s>", special, model_max_length=77)
    text = AltCLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=130,
        project_dim=32,
        pad_token_id=tokenizer.pad_token_id,
    )
    vision = AltCLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
    )
    config = AltCLIPConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16
    )
    processor = CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    return _saved(folder, randomised(AltCLIPModel(config)), tokenizer, processor)


def _saved(folder: Path, network: Any, tokenizer: Any, processor: Any) -> Any:
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    processor.save_pretrained(folder)
    return network
