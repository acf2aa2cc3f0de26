"""Pipelines of diffusers, with small random weights, saved and loaded as downloaded ones are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrapose.build.edits.generators import (
    GenerationError,
    GeneratorOptions,
    load_generator,
)
from contrapose.build.edits.recipe import EditPrompt
from contrapose.errors import InputError, MissingExtraError

PROMPT = EditPrompt("p", "object", ("a photo of a cat", "a photo of a dog"), ("cat", "dog"), 7)


@pytest.fixture(scope="module")
def parts() -> dict[str, Any]:
    pytest.importorskip("diffusers", reason="diffusers is not installed")
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    from tests.models.hf.small import clip_tokenizer

    torch.manual_seed(0)
    tokenizer = clip_tokenizer()
    text = CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip

    def unet(channels: int) -> Any:
        return UNet2DConditionModel(
            sample_size=8, in_channels=channels, out_channels=4, layers_per_block=1,
            block_out_channels=(8, 16), norm_num_groups=4, cross_attention_dim=16,
            attention_head_dim=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        )  # fmt: skip

    autoencoder = AutoencoderKL(
        block_out_channels=(4, 4), norm_num_groups=4, latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    return {
        "unets": {4: unet(4), 8: unet(8)},
        "shared": {
            "vae": autoencoder,
            "text_encoder": CLIPTextModel(text),
            "tokenizer": tokenizer,
            "scheduler": DDIMScheduler(steps_offset=1, clip_sample=False),
            "safety_checker": None,
            "feature_extractor": None,
        },
    }


def save(parts: dict[str, Any], name: str, folder: Path, channels: int = 4) -> str:
    import diffusers

    pipeline = getattr(diffusers, name)(
        unet=parts["unets"][channels], **parts["shared"], requires_safety_checker=False
    )
    pipeline.save_pretrained(folder / name, safe_serialization=True)
    return f"diffusers:{folder / name}"


@pytest.fixture(scope="module")
def drawer(parts: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(parts, "StableDiffusionPipeline", tmp_path_factory.mktemp("sd"))


def difference(images: Any) -> float:
    first, second = (np.asarray(image, dtype=np.float64) for image in images)
    return float(np.abs(first - second).mean())


def test_both_captions_start_from_one_noise(drawer: str) -> None:
    cpu = GeneratorOptions(device="cpu")
    apart = load_generator(f"{drawer}?steps=4&share=0&guidance=7", options=cpu)
    pair = apart.generate(PROMPT, 32)
    assert [image.size for image in pair] == [(32, 32)] * 2
    assert difference(pair) > 0
    again = apart.generate(PROMPT, 32)
    assert difference((pair[0], again[0])) == 0
    assert difference((pair[1], again[1])) == 0
    # The same caption twice from one seed is the same image: nothing but the caption differs.
    same = EditPrompt("p", "object", ("a cat", "a cat"), ("cat", "cat"), 7)
    assert difference(apart.generate(same, 32)) <= 1
    other = EditPrompt("p", "object", PROMPT.captions, PROMPT.values, 8)
    assert difference((pair[0], apart.generate(other, 32)[0])) > difference(pair)
    # With shared first steps the two are closer, and the first is as it was.
    shared = load_generator(f"{drawer}?steps=4&share=0.25&guidance=7", options=cpu)
    close = shared.generate(PROMPT, 32)
    assert difference((close[0], pair[0])) <= 1
    assert 0 < difference(close) < difference(pair)
    # One step is never shared alone, or the second caption would have none.
    single = load_generator(f"{drawer}?steps=1&share=1", options=cpu)
    assert difference(single.generate(PROMPT, 32)) > 0


def test_an_editor_follows_the_instruction(
    parts: dict[str, Any], drawer: str, tmp_path: Path
) -> None:
    editor = save(parts, "StableDiffusionInstructPix2PixPipeline", tmp_path, channels=8)
    cpu = GeneratorOptions(device="cpu")
    with pytest.raises(InputError, match="editor"):
        load_generator(editor, options=cpu)
    generator = load_generator(f"{drawer}?steps=2", f"{editor}?steps=2", cpu)
    first, second = generator.generate(PROMPT, 32)
    assert first.size == second.size == (32, 32)
    assert difference((first, second)) > 0
    assert "edited by" in generator.name
    with pytest.raises(InputError, match="does not edit"):
        load_generator(drawer, drawer, cpu)


def test_an_image_to_image_pipeline_follows_the_caption(
    parts: dict[str, Any], drawer: str, tmp_path: Path
) -> None:
    editor = save(parts, "StableDiffusionImg2ImgPipeline", tmp_path)
    cpu = GeneratorOptions(device="cpu")
    pairs = {}
    for strength in ("0.5", "1"):
        name = f"{editor}?steps=4&strength={strength}"
        pairs[strength] = load_generator(f"{drawer}?steps=2", name, cpu).generate(PROMPT, 32)
    assert difference(pairs["0.5"]) < difference(pairs["1"])


def test_a_blotted_image_costs_one_pair(drawer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator: Any = load_generator(f"{drawer}?steps=1", options=GeneratorOptions(device="cpu"))
    call = type(generator.pipeline).__call__

    def blot(*arguments: Any, **options: Any) -> Any:
        output = call(*arguments, **options)
        output.nsfw_content_detected = [False, True]
        return output

    blot.__signature__ = __import__("inspect").signature(call)  # type: ignore[attr-defined]
    monkeypatch.setattr(type(generator.pipeline), "__call__", blot)
    with pytest.raises(GenerationError, match="safety"):
        generator.generate(PROMPT, 32)


def test_folders_that_are_no_pipelines(parts: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="loaded"):
        load_generator(f"diffusers:{tmp_path}", options=GeneratorOptions(device="cpu"))


@pytest.mark.parametrize(
    ("query", "word"),
    [("?step=3", "step"), ("?steps=0", "steps"), ("?steps=x", "steps"), ("?share=2", "share"),
     ("?dtype=int8", "dtype"), ("?steps=3&steps=4", "steps")],
)  # fmt: skip
def test_settings_are_checked_before_anything_is_loaded(query: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        load_generator(f"diffusers:folder{query}")


def test_a_dry_run_loads_nothing(tmp_path: Path) -> None:
    import contrapose as cp

    name = "diffusers:nowhere/at-all?steps=3"
    plan = cp.build_edits(name, out=tmp_path / "out", pairs=5, filter_by="no-model", dry_run=True)
    assert plan["parameters"]["generator"] == name
    assert list(tmp_path.iterdir()) == []


def test_without_diffusers_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "diffusers", None)
    with pytest.raises(MissingExtraError, match="generate"):
        load_generator("diffusers:folder")
