"""X-CLIP and the GIT of videos: a fixed number of frames, as the library's classes read them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import FrameTiming, VideoReader, load_model
from contrapose.models.conformance import check_model
from tests.models.hf.small import clip_tokenizer
from tests.models.hf.small_captioners import FAMILIES, SIDE, pixels
from tests.models.hf.small_fusion import (
    CAPTIONS,
    bert_tokenizer,
    hf,
    opened,
    picture,
    saved,
    strong,
)
from tests.models.hf.vlm import small_video
from tests.models.hf.vlm.small_video import load_video_processor

library_videos = small_video.library_videos

COUNT = 4
FRAMES = [picture(50, 40, seed) for seed in range(COUNT)]
TIMING = FrameTiming(tuple(map(float, range(COUNT))), COUNT, 1.0)


def save_xclip(folder: Path, processor: Any) -> Path:
    words: Any = clip_tokenizer()
    config = hf.XCLIPConfig(
        text_config={
            "vocab_size": len(words), "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 77,
            "bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id,
            "pad_token_id": words.pad_token_id,
        },
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 4, "image_size": SIDE, "patch_size": 8, "num_frames": COUNT,
            "mit_hidden_size": 32, "mit_intermediate_size": 48, "mit_num_hidden_layers": 1,
            "mit_num_attention_heads": 4,
        },
        projection_dim=32,
        prompt_num_attention_heads=4,
    )  # fmt: skip
    return saved(folder, hf.XCLIPModel(config), words, processor)


PROCESSORS = {
    "videomae": lambda: hf.VideoMAEImageProcessorPil(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    ),
    "clip": lambda: hf.CLIPImageProcessorPil(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    ),
}


@pytest.fixture(scope="module")
def xclip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_xclip(tmp_path_factory.mktemp("xclip"), PROCESSORS["videomae"]())


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("git")
    return FAMILIES["git"].save(folder, num_image_with_embedding=COUNT)


def library_logits(folder: Path, frames: list[Any], texts: tuple[str, ...]) -> Tensor:
    """Logits of a video with captions by the library's classes alone."""
    network = hf.XCLIPModel.from_pretrained(folder).eval()
    images = hf.AutoImageProcessor.from_pretrained(folder, backend="pil")
    shown = images(frames, return_tensors="pt")["pixel_values"].reshape(1, COUNT, 3, SIDE, SIDE)
    words = hf.AutoTokenizer.from_pretrained(folder)
    tokens = words(list(texts), padding=True, return_tensors="pt")
    with torch.no_grad():
        logits: Tensor = network(**tokens, pixel_values=shown).logits_per_video[0]
    return logits


@pytest.mark.parametrize("processor", PROCESSORS)
def test_logits_of_x_clip_are_the_library_s(processor: str, tmp_path: Path) -> None:
    xclip = save_xclip(tmp_path, PROCESSORS[processor]())
    model = opened(xclip)
    reads: bool = isinstance(model, VideoReader)
    assert reads
    assert (model.video_input, model.frame_count, model.max_frames) == ("video", COUNT, COUNT)
    clip, other = (model.prepare_video(frames, TIMING) for frames in (FRAMES, FRAMES[::-1]))
    texts = [*CAPTIONS, *CAPTIONS]
    logits = model.match([clip, other] * 4, [texts[i // 2] for i in range(8)])
    for frames, values in ((FRAMES, logits[::2]), (FRAMES[::-1], logits[1::2])):
        torch.testing.assert_close(
            values, library_logits(xclip, frames, CAPTIONS), atol=1e-5, rtol=1e-5
        )
    still = model.match([FRAMES[0]], CAPTIONS[:1])
    wanted = library_logits(xclip, [FRAMES[0]] * COUNT, CAPTIONS[:1])
    torch.testing.assert_close(still, wanted, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(logits[0], logits[1])


def test_a_git_of_videos_is_the_library_s(git: Path) -> None:
    model = opened(git)
    clip = model.prepare_video(FRAMES, TIMING)
    ragged = model.token_logprobs([clip, clip, FRAMES[0]], [*CAPTIONS[:2], CAPTIONS[1]])
    network = hf.GitForCausalLM.from_pretrained(git).eval()
    videos = [FRAMES, FRAMES, [FRAMES[0]] * COUNT]
    words = bert_tokenizer()
    texts = (*CAPTIONS[:2], CAPTIONS[1])
    for (a, b), frames, text in zip(pairwise(ragged.offsets), videos, texts, strict=True):
        shown = torch.cat([pixels(frame) for frame in frames])[None]
        tokens = words(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits = network(input_ids=tokens, pixel_values=shown).logits
        after = logits[:, -tokens.shape[1] : -1].log_softmax(dim=-1)
        wanted = after.gather(2, tokens[:, 1:, None])[0, :, 0]
        torch.testing.assert_close(ragged.values[a:b], wanted, atol=1e-5, rtol=1e-5)


def save_videoprism(folder: Path) -> Path:
    pieces = ["<pad>", "</s>", "<unk>", "\u2581", *"abcdefghijklmnopqrstuvwxyz"]
    words = hf.VideoPrismTokenizer(
        vocab=[(piece, -1.0) for piece in pieces], extra_ids=0, model_max_length=64
    )
    shared: dict[str, Any] = {
        "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
        "attn_logit_softcapping": 50.0,
    }  # fmt: skip
    config = hf.VideoPrismConfig(
        vision_config={
            **shared, "image_size": SIDE, "num_frames": COUNT, "tubelet_size": [1, 8, 8],
            "num_spatial_layers": 1, "num_temporal_layers": 1, "num_auxiliary_layers": 1,
        },
        text_config={**shared, "vocab_size": len(words), "num_hidden_layers": 2},
    )  # fmt: skip
    network = hf.VideoPrismClipModel(config)
    strong(network)
    network.eval().save_pretrained(folder)
    words.save_pretrained(folder)
    facts = {
        "video_processor_type": "LlavaOnevisionVideoProcessor", "do_normalize": False,
        "size": {"height": SIDE, "width": SIDE},
    }  # fmt: skip
    (folder / "video_preprocessor_config.json").write_text(json.dumps(facts))
    return folder


def test_cosines_of_videoprism_are_the_library_s(tmp_path: Path, library_videos: Any) -> None:
    folder = save_videoprism(tmp_path)
    model = opened(folder)
    assert (model.video_input, model.frame_count) == ("video", COUNT)
    videos = [FRAMES, FRAMES[::-1], [FRAMES[0]] * COUNT]
    shown = [model.prepare_video(frames, TIMING) for frames in videos[:2]] + [FRAMES[0]]
    vectors, texts = model.embed_images(shown), model.embed_texts(CAPTIONS[:2])
    network = hf.VideoPrismClipModel.from_pretrained(folder).eval()
    processor = load_video_processor(folder)
    words = hf.AutoTokenizer.from_pretrained(folder)
    tokens = words(list(CAPTIONS[:2]), padding="max_length", max_length=64, return_tensors="pt")
    arrays = [np.stack([np.asarray(frame) for frame in frames]) for frames in videos]
    pixels = processor(arrays, do_sample_frames=False, return_tensors="pt")
    with torch.no_grad():
        output = network(**tokens, **pixels)
    wanted = torch.nn.functional.normalize(output.video_embeds, dim=-1)
    torch.testing.assert_close(vectors, wanted, atol=1e-5, rtol=1e-5)
    wanted = torch.nn.functional.normalize(output.text_embeds, dim=-1)
    torch.testing.assert_close(texts, wanted, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(vectors[0], vectors[1], atol=1e-3)
    assert model.pixel_mean == (0.0, 0.0, 0.0)


def test_videoprism_without_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contrapose.models.hf.vlm.processors.find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs torchvision"):
        opened(save_videoprism(tmp_path))


def test_they_conform_and_refuse_other_numbers(xclip: Path, git: Path) -> None:
    for folder in (xclip, git):
        model = opened(folder)
        assert folder == git or not check_model(model).failed
        with pytest.raises(InputError, match="reads 4 frames"):
            model.prepare_video(FRAMES[:3], TIMING)
        with pytest.raises(InputError, match="video=images"):
            opened(folder, video="images")
        apart: Any = load_model(f"{folder},video=frames")
        assert apart.max_frames == 0
        assert apart.name.endswith(",video=frames")


def test_forms_that_a_model_does_not_have() -> None:
    for form in ("own", "images"):
        with pytest.raises(InputError, match=f"no choice of video={form}"):
            load_model(f"tiny-clip,video={form}")
    assert load_model("tiny-clip,video=frames").name == "tiny-clip"
