from __future__ import annotations

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import Encoder, Matcher
from tests.models.hf.small_fusion import (
    CAPTIONS,
    bert_tokenizer,
    forget_weights,
    hf,
    opened,
    picture,
    same,
    saved,
)

IMAGES = [picture(50, 40, 0), picture(33, 70, 1), picture(32, 32, 2), picture(90, 20, 3, "L")]


def config(*, codebook: bool = False) -> Any:
    tower = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }  # fmt: skip
    return hf.FlavaConfig(
        image_config={**tower, "image_size": 32, "patch_size": 8, "vocab_size": 20},
        text_config={**tower, "vocab_size": 40, "max_position_embeddings": 24},
        multimodal_config={**tower, "num_hidden_layers": 1},
        image_codebook_config={"hidden_size": 8, "vocab_size": 20, "num_blocks_per_group": 1},
        hidden_size=32,
        projection_dim=16,
        init_codebook=codebook,
    )


def processor(**arguments: Any) -> Any:
    size = {"height": 32, "width": 32}
    return hf.FlavaImageProcessorPil(
        size=size, crop_size=size, codebook_size=size, codebook_crop_size=size, **arguments
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    network = hf.FlavaForPreTraining(config(codebook=True))
    return saved(tmp_path_factory.mktemp("flava"), network, bert_tokenizer(), processor())


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return opened(folder)


def direct(folder: Path, image: Any, text: str) -> Any:
    """The library's own call on one pair, nothing masked."""
    network = hf.FlavaForPreTraining.from_pretrained(folder).eval()
    words = bert_tokenizer()(text, return_tensors="pt")
    pixels = processor()(image.convert("RGB"), return_tensors="pt")
    with torch.no_grad():
        return network(**words, **pixels, input_ids_masked=words["input_ids"], return_loss=False)


def test_itc_is_the_librarys_before_its_scale(folder: Path, model: Any) -> None:
    images, texts = model.embed_images(IMAGES), model.embed_texts(CAPTIONS)
    scale = hf.FlavaForPreTraining.from_pretrained(folder).flava.logit_scale.exp().item()
    pairs = [
        direct(folder, i, t).contrastive_logits_per_image[0, 0] / scale
        for i, t in zip(IMAGES, CAPTIONS, strict=True)
    ]
    same((images * texts).sum(dim=1), torch.stack(pairs))
    torch.testing.assert_close(images.norm(dim=1), torch.ones(4))
    assert any(f"times {scale:.4g}" in note for note in model.card.notes)


def test_neither_codebook_nor_masks_are_made(folder: Path, tmp_path: Path, model: Any) -> None:
    assert not any("codebook" in name for name, _ in model.network.named_parameters())
    network = hf.FlavaForPreTraining.from_pretrained(folder)
    masking = processor(return_image_mask=True, return_codebook_pixels=True, input_size_patches=4)
    saved(tmp_path, network, bert_tokenizer(), masking, randomise=False)
    ours = opened(tmp_path)
    assert isinstance(ours.prepare_image(IMAGES[0]), Tensor)
    torch.testing.assert_close(ours.match(IMAGES, CAPTIONS), model.match(IMAGES, CAPTIONS))


def test_without_the_matching_head_it_is_a_dual_encoder(
    folder: Path, tmp_path: Path, model: Any
) -> None:
    network = hf.FlavaForPreTraining.from_pretrained(folder)
    saved(tmp_path, network.flava, bert_tokenizer(), processor(), randomise=False)
    dual = opened(tmp_path)
    assert (isinstance(dual, Encoder), isinstance(dual, Matcher)) == (True, False)
    torch.testing.assert_close(dual.embed_images(IMAGES), model.embed_images(IMAGES))
    assert model.card.parameters > dual.card.parameters == hf.FlavaModel(config()).num_parameters()


def test_weights_that_were_never_trained_are_refused(tmp_path: Path) -> None:
    saved(tmp_path, hf.FlavaForPreTraining(config()), bert_tokenizer(), processor())
    forget_weights(tmp_path, "flava.image_projection")
    with pytest.raises(InputError, match=r"no trained weights for 'flava\.image_projection"):
        opened(tmp_path)


@pytest.mark.parametrize("zipped", [True, False])
def test_weights_that_are_not_in_safetensors(
    folder: Path, tmp_path: Path, model: Any, zipped: bool
) -> None:
    from safetensors.torch import load_file

    copied = copytree(folder, tmp_path / "copy")
    weights = load_file(copied / "model.safetensors")
    (copied / "model.safetensors").unlink()
    torch.save(weights, copied / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    torch.testing.assert_close(
        opened(copied).match(IMAGES, CAPTIONS), model.match(IMAGES, CAPTIONS)
    )


def test_damaged_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    copied = copytree(folder, tmp_path / "copy")
    file = copied / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(InputError, match="the weights of small cannot be read"):
        opened(copied)
