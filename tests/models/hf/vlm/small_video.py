"""Small image-text-to-text models of random weights that read videos, saved as released ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from contrapose.models.hf.checkpoint import Checkpoint
from tests.models.hf import torchvision_functional
from tests.models.hf.vlm.small_vlm import (
    CHATML,
    PATCHES,
    TEXT,
    VISION,
    hf,
    idefics3,
    onevision,
    qwen,
    save,
    tokenizer,
)
from tests.models.hf.vlm.small_vlm import _parts as parts

VIDEO_TURNS = CHATML.replace(
    "{% else %}{{ c['text'] }}", "{% elif c['type'] == 'video' %}VIDEO{% else %}{{ c['text'] }}"
)
"""Chat template with a place for images and one for videos."""
SMOL_TURNS = (
    "<|im_start|>{% for m in messages %}{{ m['role'] | capitalize }}"
    "{% if m['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}"
    "{% for c in m['content'] %}{% if c['type'] == 'text' %}{{ c['text'] }}"
    "{% elif c['type'] == 'image' %}<image>{% endif %}{% endfor %}<end_of_utterance>\n"
    "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)
"""Chat template of SmolVLM as it was released, without a place for videos."""
SQUARE = {"size": {"height": 32, "width": 32}}


def template(image: str, video: str, end: str = "<|im_end|>") -> str:
    return VIDEO_TURNS.replace("IMAGE", image).replace("VIDEO", video).replace("<|im_end|>", end)


def add_video(folder: Path, turns: str, **facts: Any) -> None:
    """Write the video part of a processor: its configuration, and the chat template."""
    (folder / "video_preprocessor_config.json").write_text(json.dumps(facts))
    (folder / "chat_template.jinja").write_text(turns)


def onevision_video(folder: Path) -> None:
    onevision(folder)
    kind = "LlavaOnevisionVideoProcessor"
    add_video(folder, template("<image>", "<video>"), video_processor_type=kind, **SQUARE)


def qwen_video(folder: Path, *, newer: bool = False) -> None:
    qwen(folder, newer=newer)
    add_qwen_video(folder, "Qwen2VLVideoProcessor")


def add_qwen_video(folder: Path, kind: str, **facts: Any) -> None:
    marks = [f"<|vision_start|><|{kind}_pad|><|vision_end|>" for kind in ("image", "video")]
    sizes = {"shortest_edge": 32 * 32, "longest_edge": 4 * 64 * 64}
    add_video(
        folder, template(*marks), video_processor_type=kind, size=sizes, patch_size=8,
        merge_size=2, temporal_patch_size=2, **facts,
    )  # fmt: skip


def smolvlm_video(folder: Path) -> None:
    idefics3(folder, smol=True)
    sizes = {"size": {"longest_edge": 32}, "max_image_size": {"longest_edge": 32}}
    add_video(
        folder, SMOL_TURNS,
        video_processor_type="SmolVLMVideoProcessor", num_frames=4, fps=1,
        video_sampling={"max_frames": 4, "fps": 1, "video_size": {"longest_edge": 32}}, **sizes,
    )  # fmt: skip


def qwen3_video(folder: Path) -> None:
    """A Qwen3-VL: times of the frames in the text, image features in several layers."""
    words = tokenizer("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    number = words.convert_tokens_to_ids
    config = hf.Qwen3VLConfig(
        vision_config={
            "patch_size": 8, "spatial_merge_size": 2, "temporal_patch_size": 2, "depth": 2,
            "hidden_size": 32, "intermediate_size": 64, "num_heads": 4, "out_hidden_size": 64,
            "num_position_embeddings": 16, "deepstack_visual_indexes": [0],
        },
        text_config={
            "vocab_size": len(words), **TEXT, "head_dim": 16,
            "rope_parameters": {
                "rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4,
                "mrope_interleaved": True,
            },
        },
        image_token_id=number("<|image_pad|>"),
        video_token_id=number("<|video_pad|>"),
        vision_start_token_id=number("<|vision_start|>"),
        vision_end_token_id=number("<|vision_end|>"),
    )  # fmt: skip
    images = hf.Qwen2VLImageProcessorPil(
        size={"shortest_edge": 32 * 32, "longest_edge": 64 * 64},
        patch_size=8, merge_size=2, temporal_patch_size=2,
    )  # fmt: skip
    save(folder, hf.Qwen3VLForConditionalGeneration(config), parts(images, words, "x"))
    add_qwen_video(folder, "Qwen3VLVideoProcessor")


def next_video(folder: Path) -> None:
    """A LLaVA-NeXT-Video: pooled frames of a CLIP tower."""
    words = tokenizer("<image>", "<video>")
    grid = [[32, 64], [64, 32], [64, 64]]
    config = hf.LlavaNextVideoConfig(
        vision_config=hf.CLIPVisionConfig(**VISION, image_size=32).to_dict(),
        text_config=hf.LlamaConfig(vocab_size=len(words), **TEXT).to_dict(),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        video_token_index=words.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=grid,
    )
    images = hf.LlavaNextImageProcessorPil(
        size={"shortest_edge": 32},
        crop_size={"height": 32, "width": 32},
        image_grid_pinpoints=grid,
    )
    save(
        folder, hf.LlavaNextVideoForConditionalGeneration(config), parts(images, words, "x"),
        **PATCHES,
    )  # fmt: skip
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    kind = "LlavaNextVideoVideoProcessor"
    add_video(folder, template("<image>", "<video>"), video_processor_type=kind, **sizes)


def video_llava(folder: Path) -> None:
    """A Video-LLaVA: a tower for images and one for videos."""
    words = tokenizer("<image>", "<video>")
    config = hf.VideoLlavaConfig(
        vision_config=hf.CLIPVisionConfig(**VISION, image_size=32).to_dict(),
        text_config=hf.LlamaConfig(vocab_size=len(words), **TEXT).to_dict(),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        video_token_index=words.convert_tokens_to_ids("<video>"),
        image_seq_length=16,
        video_seq_length=17 * 4,
    )
    images = hf.CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    save(
        folder, hf.VideoLlavaForConditionalGeneration(config), parts(images, words, "x"), **PATCHES
    )
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    kind = "VideoLlavaVideoProcessor"
    add_video(folder, template("<image>", "<video>"), video_processor_type=kind, **sizes)


def internvl(folder: Path) -> None:
    """An InternVL: frames as images between marks."""
    marks = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    words = tokenizer(named_marks=marks)
    config = hf.InternVLConfig(
        vision_config={**VISION, "image_size": [32, 32], "patch_size": [8, 8]},
        text_config=hf.Qwen2Config(vocab_size=len(words), **TEXT).to_dict(),
        image_token_id=words.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
    )
    images = hf.GotOcr2ImageProcessorPil(**SQUARE, crop_to_patches=False)
    save(
        folder, hf.InternVLForConditionalGeneration(config), parts(images, words, "x"),
        image_seq_length=4,
    )  # fmt: skip
    kind = "InternVLVideoProcessor"
    add_video(folder, template("<IMG_CONTEXT>", "<video>"), video_processor_type=kind, **SQUARE)


def video_llama(folder: Path) -> None:
    """A VideoLLaMA 3: frames of any shape, with their times in the text."""
    words = tokenizer("<|image_pad|>", "<|video_pad|>")
    number = words.convert_tokens_to_ids
    config = hf.VideoLlama3Config(
        vision_config={**VISION, "num_channels": 3},
        text_config=hf.Qwen2Config(vocab_size=len(words), **TEXT).to_dict(),
        image_token_id=number("<|image_pad|>"),
        video_token_id=number("<|video_pad|>"),
    )
    images = hf.VideoLlama3ImageProcessorPil(
        size={"shortest_edge": 32 * 32, "longest_edge": 64 * 64}, patch_size=8, merge_size=1,
        temporal_patch_size=1,
    )  # fmt: skip
    save(folder, hf.VideoLlama3ForConditionalGeneration(config), parts(images, words, "x"))
    add_video(
        folder, template("<|image_pad|>", "<|video_pad|>"),
        video_processor_type="VideoLlama3VideoProcessor", patch_size=8, merge_size=2,
        temporal_patch_size=1, size={"shortest_edge": 32 * 32, "longest_edge": 4 * 64 * 64},
    )  # fmt: skip


VIDEO_FAMILIES: dict[str, Callable[[Path], None]] = {
    "llava_onevision": onevision_video,
    "llava_next_video": next_video,
    "video_llava": video_llava,
    "qwen2_vl": qwen_video,
    "qwen2_5_vl": lambda folder: qwen_video(folder, newer=True),
    "qwen3_vl": qwen3_video,
    "internvl": internvl,
    "smolvlm": smolvlm_video,
    "video_llama_3": video_llama,
}


def load_video_processor(folder: Path) -> Any:
    """The library's video processor of a folder, whether torchvision is installed or not."""
    facts = json.loads((folder / "video_preprocessor_config.json").read_text())
    name = str(facts["video_processor_type"])
    with torchvision_functional.in_place():
        for module in ("llava_onevision", "llava_next_video", "video_llava", "qwen2_vl", "qwen3_vl",
                       "internvl", "smolvlm", "video_llama_3"):  # fmt: skip
            library = import_module(f"transformers.models.{module}.video_processing_{module}")
            if hasattr(library, name):
                return getattr(library, name).from_pretrained(folder)
    raise LookupError(name)


@pytest.fixture(scope="module")
def library_videos() -> Any:
    """The library's video processors, on parts of torchvision where it is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Checkpoint, "video_processor", lambda self: load_video_processor(Path(self.source))
        )
        patch.setattr("contrapose.models.hf.vlm.processors.find_spec", lambda name: name)
        yield
