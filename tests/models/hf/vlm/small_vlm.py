"""Small image-text-to-text models of random weights, saved as downloaded ones lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from torch import nn

from contrapose.models.hf import load
from contrapose.models.options import LoadOptions

hf: Any = transformers
"""The library, without its types: many of its classes have none that are of use."""
CAPTIONS = (
    "a red cube on the blue ball",
    "two dogs",
    "the green cat is behind a ball and under the red cubes of the left dog",
    "a blue cube",
)
WORDS = "a red cube on the blue ball two dogs green cat is behind and under cubes of left dog"
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}IMAGE{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VICUNA = (
    "{% for m in messages %}{{ m['role'].upper() }}: {% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}IMAGE\n{% else %}{{ c['text'] }} {% endif %}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
TEXT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "patch_size": 8,
}
PATCHES = {
    "patch_size": 8,
    "vision_feature_select_strategy": "default",
    "num_additional_image_tokens": 1,
}
"""How LLaVA's processor counts an image's tokens."""


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth colours."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def tokenizer(*marks: str, eos: bool = True, named_marks: dict[str, str] | None = None) -> Any:
    """Words, and bytes for the rest; begins every text with `<s>`."""
    marks = (*marks, *(named_marks or {}).values())
    special = ["<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", *marks]
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges: list[tuple[str, str]] = []
    for word in dict.fromkeys(f"Ġ{word}" for word in WORDS.split()):
        built = word[0]
        for letter in word[1:]:
            merges.append((built, letter))
            built += letter
            pieces.append(built)
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys([*special, *pieces]))}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=list(dict.fromkeys(merges))))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    named: dict[str, Any] = {"pad_token": "<pad>", "bos_token": "<s>"}
    named |= {"eos_token": "</s>"} if eos else {}
    if named_marks:
        named["extra_special_tokens"] = named_marks
    more = ["<|im_start|>", "<|im_end|>", *marks]
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        additional_special_tokens=more,
        model_max_length=4096,
        **named,
    )


def strong(network: nn.Module, seed: int = 0) -> Any:
    """Weights large enough that images and captions tell."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.ndim >= 2:
                fan = weight.shape[-1] if weight.ndim == 2 else weight[0].numel()
                weight.copy_(torch.randn(weight.shape, generator=generator) * 1.2 * fan**-0.5)
            elif "norm" not in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    return network.eval()


def save(folder: Path, network: Any, processor: Any, **facts: Any) -> Any:
    """Write a folder with all that a model needs; facts are those of its processor."""
    strong(network).save_pretrained(folder)
    processor.tokenizer.save_pretrained(folder)
    processor.image_processor.save_pretrained(folder)
    (folder / "processor_config.json").write_text(json.dumps(facts))
    if processor.chat_template:
        (folder / "chat_template.jinja").write_text(processor.chat_template)
    return network


def llava(
    folder: Path, *, template: str | None = VICUNA, eos: bool = True, text: Any = None
) -> Any:
    """A LLaVA-1.5: CLIP tower and Llama, 16 tokens an image."""
    words = tokenizer("<image>", eos=eos)
    image = words.convert_tokens_to_ids("<image>")
    vision = hf.CLIPVisionConfig(**VISION, image_size=32).to_dict()
    language = (text or hf.LlamaConfig)(vocab_size=len(words), **TEXT).to_dict()
    config = hf.LlavaConfig(
        vision_config=vision, text_config=language, image_token_index=image, image_seq_length=16
    )
    images = hf.CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    made = _parts(images, words, template and template.replace("IMAGE", "<image>"))
    return save(folder, hf.LlavaForConditionalGeneration(config), made, **PATCHES)


def qwen(folder: Path, *, newer: bool = False) -> Any:
    """A Qwen2-VL or Qwen2.5-VL: images of any shape, positions of three axes."""
    words = tokenizer("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    number = words.convert_tokens_to_ids
    shared: dict[str, Any] = {"patch_size": 8, "spatial_merge_size": 2, "temporal_patch_size": 2}
    text = {
        "vocab_size": len(words),
        **TEXT,
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4},
    }
    marks = {
        "image_token_id": number("<|image_pad|>"),
        "video_token_id": number("<|video_pad|>"),
        "vision_start_token_id": number("<|vision_start|>"),
        "vision_end_token_id": number("<|vision_end|>"),
    }
    if newer:
        vision = {
            **shared,
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 4,
            "out_hidden_size": 64,
            "window_size": 32,
            "fullatt_block_indexes": [1],
        }
        config = hf.Qwen2_5_VLConfig(vision_config=vision, text_config=text, **marks)
        network = hf.Qwen2_5_VLForConditionalGeneration(config)
    else:
        vision = {**shared, "depth": 2, "embed_dim": 32, "num_heads": 4, "hidden_size": 64}
        config = hf.Qwen2VLConfig(vision_config=vision, text_config=text, **marks)
        network = hf.Qwen2VLForConditionalGeneration(config)
    images = hf.Qwen2VLImageProcessorPil(
        size={"shortest_edge": 32 * 32, "longest_edge": 64 * 64},
        patch_size=8,
        merge_size=2,
        temporal_patch_size=2,
    )
    place = "<|vision_start|><|image_pad|><|vision_end|>"
    return save(folder, network, _parts(images, words, CHATML.replace("IMAGE", place)))


def idefics3(folder: Path, *, smol: bool = False) -> Any:
    """An Idefics3, or a SmolVLM: an image in tiles, a Llama."""
    rows = [f"<row_{i}_col_{j}>" for i in range(1, 5) for j in range(1, 5)]
    words = tokenizer(
        "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", *rows
    )
    vision = {**VISION, "image_size": 32}
    text = hf.LlamaConfig(vocab_size=len(words), **TEXT).to_dict()
    shared: dict[str, Any] = {
        "vision_config": vision,
        "text_config": text,
        "scale_factor": 2,
        "image_token_id": words.convert_tokens_to_ids("<image>"),
        "pad_token_id": 0,
    }
    sizes: dict[str, Any] = {
        "size": {"longest_edge": 64},
        "max_image_size": {"longest_edge": 32},
    }
    template = CHATML.replace("IMAGE", "<image>").replace("<|im_end|>", "<end_of_utterance>")
    if smol:
        network = hf.SmolVLMForConditionalGeneration(hf.SmolVLMConfig(**shared))
        images = hf.SmolVLMImageProcessorPil(**sizes)
        made = _parts(images, words, template)
    else:
        network = hf.Idefics3ForConditionalGeneration(hf.Idefics3Config(**shared))
        images = hf.Idefics3ImageProcessorPil(**sizes)
        made = _parts(images, words, template)
    return save(folder, network, made, image_seq_len=4)


def llava_next(folder: Path) -> Any:
    """A LLaVA-NeXT: tiles and a small picture, a Mistral without a window."""
    words = tokenizer("<image>")
    vision = hf.CLIPVisionConfig(**VISION, image_size=32).to_dict()
    text = hf.MistralConfig(vocab_size=len(words), sliding_window=None, **TEXT).to_dict()
    grid = [[32, 64], [64, 32], [64, 64]]
    config = hf.LlavaNextConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=grid,
    )
    images = hf.LlavaNextImageProcessorPil(
        size={"shortest_edge": 32},
        crop_size={"height": 32, "width": 32},
        image_grid_pinpoints=grid,
    )
    template = "[INST] IMAGE\n{{ messages[0]['content'][1]['text'] }} [/INST]" + (
        "{% if messages[1:] %} {{ messages[1]['content'][0]['text'] }}</s>{% endif %}"
    )
    made = _parts(images, words, template.replace("IMAGE", "<image>"))
    return save(folder, hf.LlavaNextForConditionalGeneration(config), made, **PATCHES)


def onevision(folder: Path) -> Any:
    """A LLaVA-OneVision: tiles of a SigLIP tower, a Qwen2."""
    words = tokenizer("<image>", "<video>")
    vision = hf.SiglipVisionConfig(**VISION, image_size=32, vision_use_head=False).to_dict()
    text = hf.Qwen2Config(vocab_size=len(words), **TEXT).to_dict()
    grid = [[32, 64], [64, 32], [64, 64]]
    config = hf.LlavaOnevisionConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=words.convert_tokens_to_ids("<image>"),
        video_token_index=words.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=grid,
        vision_aspect_ratio="anyres_max_9",
    )
    images = hf.LlavaOnevisionImageProcessorPil(
        size={"height": 32, "width": 32}, image_grid_pinpoints=grid
    )
    made = _parts(images, words, CHATML.replace("IMAGE", "<image>"))
    facts = {"num_image_tokens": 16, "vision_feature_select_strategy": "full"}
    return save(folder, hf.LlavaOnevisionForConditionalGeneration(config), made, **facts)


def idefics2(folder: Path) -> Any:
    """An Idefics2: a perceiver after the tower, a Mistral without a window."""
    words = tokenizer("<image>", "<fake_token_around_image>", "<end_of_utterance>")
    config = hf.Idefics2Config(
        vision_config={**VISION, "image_size": 32},
        text_config=hf.MistralConfig(vocab_size=len(words), sliding_window=None, **TEXT).to_dict(),
        perceiver_config={
            "hidden_size": 64,
            "resampler_n_latents": 4,
            "resampler_depth": 1,
            "resampler_n_heads": 4,
            "resampler_head_dim": 16,
            "num_key_value_heads": 2,
        },
        image_token_id=words.convert_tokens_to_ids("<image>"),
    )
    images = hf.Idefics2ImageProcessorPil(
        size={"shortest_edge": 16, "longest_edge": 32}, do_image_splitting=False
    )
    template = CHATML.replace("IMAGE", "<image>").replace("<|im_end|>", "<end_of_utterance>")
    made = _parts(images, words, template)
    return save(folder, hf.Idefics2ForConditionalGeneration(config), made, image_seq_len=4)


def gemma3(folder: Path) -> Any:
    """A Gemma 3: sliding windows, and image tokens that see each other."""
    marks = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    words = tokenizer(named_marks=marks)
    number = words.convert_tokens_to_ids
    config = hf.Gemma3Config(
        vision_config={**VISION, "image_size": 32, "vision_use_head": False},
        text_config=hf.Gemma3TextConfig(
            vocab_size=len(words),
            head_dim=16,
            sliding_window=8,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            **TEXT,
        ).to_dict(),
        mm_tokens_per_image=4,
        boi_token_index=number("<start_of_image>"),
        eoi_token_index=number("<end_of_image>"),
        image_token_index=number("<image_soft_token>"),
    )
    images = hf.Gemma3ImageProcessorPil(size={"height": 32, "width": 32})
    made = _parts(images, words, CHATML.replace("IMAGE", "<start_of_image>"))
    return save(folder, hf.Gemma3ForConditionalGeneration(config), made, image_seq_length=4)


def mllama(folder: Path) -> Any:
    """A Llama 3.2 with vision: the image is read by cross-attention."""
    words = tokenizer("<|image|>", "<|begin_of_text|>")
    kinds = hf.models.mllama.configuration_mllama
    config = hf.MllamaConfig(
        vision_config=kinds.MllamaVisionConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_global_layers=1,
            attention_heads=4,
            vision_output_dim=64,
            image_size=32,
            patch_size=8,
            max_num_tiles=2,
            intermediate_layers_indices=[0],
            supported_aspect_ratios=[[1, 1], [1, 2], [2, 1]],
        ).to_dict(),
        text_config=kinds.MllamaTextConfig(
            vocab_size=len(words), cross_attention_layers=[1], **TEXT
        ).to_dict(),
        image_token_index=words.convert_tokens_to_ids("<|image|>"),
    )
    images = hf.MllamaImageProcessorPil(size={"height": 32, "width": 32}, max_image_tiles=2)
    made = _parts(images, words, CHATML.replace("IMAGE", "<|image|>"))
    return save(folder, hf.MllamaForConditionalGeneration(config), made)


def _parts(images: Any, words: Any, template: str | None) -> Any:
    """What a processor is made of; some can only be built with torchvision."""
    return SimpleNamespace(image_processor=images, tokenizer=words, chat_template=template)


FAMILIES: dict[str, Callable[[Path], Any]] = {
    "llava": llava,
    "llava_next": llava_next,
    "qwen2_vl": qwen,
    "qwen2_5_vl": lambda folder: qwen(folder, newer=True),
    "llava_onevision": onevision,
    "idefics2": idefics2,
    "idefics3": idefics3,
    "smolvlm": lambda folder: idefics3(folder, smol=True),
}
WHOLE: dict[str, Callable[[Path], Any]] = {"gemma3": gemma3, "mllama": mllama}
"""Those that cannot be packed."""


def opened(folder: Path, **options: Any) -> Any:
    """The adapter of a folder."""
    return load(str(folder), None, "small", LoadOptions(**options))
