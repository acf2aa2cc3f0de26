"""Dual encoders give what the library gives when it is asked directly, one pair at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoImageProcessor, AutoTokenizer

from contrapose.errors import InputError
from contrapose.models import (
    CaptionTokenizer,
    CardProvider,
    Encoder,
    ImagePreparer,
    Matcher,
    TokenCounter,
    load_model,
)
from contrapose.models.conformance import check_model
from tests.models.hf.small import (
    CAPTIONS,
    LONG,
    pictures,
    save_align,
    save_altclip,
    save_clip,
    save_naflex,
    save_siglip,
)
from tests.models.hf.small_fusion import check_cut_captions

Saver = Callable[[Path], Any]


def save_gemma(folder: Path) -> Any:
    return save_siglip(folder, gemma=True)


def cosine_of_clip(found: Any, network: Any) -> Tensor:
    cosine: Tensor = found.logits_per_image / network.logit_scale.exp()
    return cosine


def cosine_of_siglip(found: Any, network: Any) -> Tensor:
    cosine: Tensor = (found.logits_per_image - network.logit_bias) / network.logit_scale.exp()
    return cosine


def cosine_of_align(found: Any, network: Any) -> Tensor:
    cosine: Tensor = found.logits_per_image * network.temperature
    return cosine


FULL = {"padding": "max_length", "max_length": 77}
SIGLIP = {"padding": "max_length", "max_length": 64, "return_attention_mask": False}
FAMILIES: dict[str, tuple[Saver, Callable[[Any, Any], Tensor], dict[str, Any], bool]] = {
    "CLIP": (save_clip, cosine_of_clip, FULL, False),
    "SigLIP": (save_siglip, cosine_of_siglip, SIGLIP, False),
    "SigLIP 2": (save_gemma, cosine_of_siglip, SIGLIP, True),
    "NaFlex": (save_naflex, cosine_of_siglip, SIGLIP, True),
    "ALIGN": (save_align, cosine_of_align, {"padding": "max_length", "max_length": 64}, False),
    "AltCLIP": (save_altclip, cosine_of_clip, {}, False),
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("model")
    save = FAMILIES[request.param][0]
    return request.param, folder, save(folder)


def direct(family: str, folder: Path, network: Any) -> Tensor:
    """The cosine of each image with each caption, by the library's own forward pass."""
    _, cosine, arguments, lower = FAMILIES[family]
    images: Any = AutoImageProcessor
    processor = images.from_pretrained(folder, backend="pil")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.padding_side = "right"
    rows = []
    for image in pictures():
        seen = processor(images=image.convert("RGB"), return_tensors="pt")
        row = []
        for caption in CAPTIONS:
            text = caption.lower() if lower else caption
            read = tokenizer([text], return_tensors="pt", **arguments)
            with torch.no_grad():
                row.append(cosine(network(**seen, **read), network).item())
        rows.append(row)
    return torch.tensor(rows)


def test_the_score_is_the_library_s_own(family: Any) -> None:
    name, folder, network = family
    model: Any = load_model(str(folder))
    assert all(
        isinstance(model, each)
        for each in (Encoder, ImagePreparer, TokenCounter, CaptionTokenizer, CardProvider)
    )
    assert not isinstance(model, Matcher)
    ours = model.embed_images(pictures()) @ model.embed_texts(CAPTIONS).T
    theirs = direct(name, folder, network)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert theirs.std() > 0.005, "the test could not tell one pair from another"
    assert ours.dtype == torch.float32


def test_batches_are_small_on_a_cpu(family: Any) -> None:
    assert load_model(str(family[1])).batch_size == 16


def test_a_folder_behind_hf(family: Any) -> None:
    bare, behind = load_model(str(family[1])), load_model(f"hf:{family[1]}")
    assert (behind.name, behind.fingerprint) == (bare.name, bare.fingerprint)
    assert behind.name == str(family[1])


def test_batches_change_nothing(family: Any) -> None:
    model: Any = load_model(str(family[1]))
    images, texts = pictures(), [*CAPTIONS, "a dog"]
    together = model.embed_images(images), model.embed_texts(texts)
    alone = (
        torch.cat([model.embed_images([image]) for image in images]),
        torch.cat([model.embed_texts([text]) for text in texts]),
    )
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one.norm(dim=1), torch.ones(len(one)))


def test_prepared_images_are_as_good(family: Any) -> None:
    model: Any = load_model(str(family[1]))
    images = pictures()
    prepared = [model.prepare_image(image) for image in images]
    mixed = [prepared[0], images[1], *prepared[2:]]
    torch.testing.assert_close(model.embed_images(mixed), model.embed_images(images))
    if model.resize_crop is not None:
        for image, pixels in zip(images, prepared, strict=True):
            assert np.array_equal(model.resize_crop.to_bytes(image.convert("RGB")), pixels)


def test_long_captions_are_refused_or_cut(family: Any) -> None:
    name, folder, _ = family
    model: Any = load_model(str(folder))
    limit = {"CLIP": 77, "AltCLIP": 77}.get(name, 64)
    assert model.context == limit
    assert not model.cuts
    count = model.token_counts([LONG])[0]
    special = model.token_counts([""])[0]
    assert len(model.token_ids([LONG])[0]) + special == count
    assert count > limit
    with pytest.raises(InputError, match=f"has {count} tokens and .* reads {limit}.*long=cut"):
        model.embed_texts(["a dog", LONG])
    for empty in ("", "  \n"):
        with pytest.raises(InputError, match="a caption is empty"):
            model.embed_texts(["a dog", empty])

    cutting: Any = load_model(f"{folder},long=cut")
    assert cutting.cuts
    assert cutting.fingerprint != model.fingerprint
    assert cutting.name == f"{folder},long=cut"
    assert cutting.token_counts([LONG]) == [count]
    same = cutting.embed_texts([LONG, LONG + " and a cat", "a dog"])
    torch.testing.assert_close(same[0], same[1])
    torch.testing.assert_close(same[2], model.embed_texts(["a dog"])[0], rtol=1e-4, atol=1e-5)


def test_half_precision_keeps_scores_in_float32(family: Any) -> None:
    model: Any = load_model(str(family[1]))
    half: Any = load_model(str(family[1]), dtype="bf16")
    assert half.card.dtype == "bf16"
    assert half.fingerprint != model.fingerprint
    assert half.name.endswith(",dtype=bf16")
    for ask, what in (("embed_images", pictures()), ("embed_texts", CAPTIONS)):
        rough, fine = getattr(half, ask)(what), getattr(model, ask)(what)
        assert rough.dtype == torch.float32
        assert rough.isfinite().all()
        assert (rough * fine).sum(dim=1).min() > 0.97
        assert not torch.equal(rough, fine)


def test_the_card_says_what_matters(family: Any) -> None:
    name, folder, network = family
    model: Any = load_model(str(folder))
    assert model.card.family == {"NaFlex": "SigLIP 2"}.get(name, name)
    assert model.card.parameters == sum(weight.numel() for weight in network.parameters())
    assert model.card.context == model.context
    assert any("multiplied by" in note for note in model.card.notes)
    assert model.card.preprocessing


def test_it_conforms(family: Any) -> None:
    assert check_model(load_model(str(family[1]))).failed == ()


def test_cut_captions_conform(family: Any) -> None:
    check_cut_captions(lambda: load_model(f"{family[1]},long=cut"))


def test_upper_case_is_lowered_where_it_was_in_training(tmp_path: Path) -> None:
    save_siglip(tmp_path / "one")
    save_siglip(tmp_path / "two", gemma=True)
    first: Any = load_model(str(tmp_path / "one"))
    second: Any = load_model(str(tmp_path / "two"))
    texts = ["A Red DOG", "a red dog"]
    upper, lower = first.embed_texts(texts)
    assert not torch.allclose(upper, lower, atol=1e-3)
    assert torch.equal(*second.embed_texts(texts))


def test_padding_reaches_siglip(tmp_path: Path) -> None:
    """Had it been padded to the longest of the batch, the numbers would be others."""
    network = save_siglip(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    model: Any = load_model(str(tmp_path))
    with torch.no_grad():
        short = network.get_text_features(
            **tokenizer(["a dog"], return_tensors="pt", return_attention_mask=False)
        ).pooler_output
    ours = model.embed_texts(["a dog"])
    assert torch.cosine_similarity(ours, short).item() < 0.999
