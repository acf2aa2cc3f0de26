"""Captioners of the library: `lm` is the library's own loss with the other sign, however packed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import (
    Captioner,
    CaptionTokenizer,
    CardProvider,
    ImagePreparer,
    Ragged,
    TokenCounter,
)
from contrapose.models.capabilities import ImageCacher
from contrapose.models.conformance import check_model
from contrapose.models.hf import captioner
from contrapose.models.packing import pack
from tests.models.hf.small_captioners import FAMILIES, IMAGES, SIDE
from tests.models.hf.small_fusion import (
    CAPTIONS,
    check_cut_captions,
    count_calls,
    opened,
    same,
)

FOLDERS: dict[str, Path] = {}


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    name = str(request.param)
    if name not in FOLDERS:
        FOLDERS[name] = FAMILIES[name].save(tmp_path_factory.mktemp("captioner"))
    return name


@pytest.fixture
def folder(family: str) -> Path:
    return FOLDERS[family]


@pytest.fixture
def model(folder: Path) -> Any:
    return opened(folder)


def split(found: Ragged) -> list[Tensor]:
    return [found.values[a:b] for a, b in pairwise(found.offsets)]


def vision(model: Any) -> Any:
    git = getattr(model.network, "git", None)
    return git.image_encoder if git is not None else model.network.vision_model


def test_what_it_can_do(model: Any) -> None:
    for protocol in (
        Captioner,
        ImageCacher,
        ImagePreparer,
        TokenCounter,
        CaptionTokenizer,
        CardProvider,
    ):
        assert isinstance(model, protocol)
    assert model.lm_tokens == "caption+end"


def test_lm_is_the_librarys_loss_with_the_other_sign(family: str, folder: Path, model: Any) -> None:
    network = FAMILIES[family].library(folder)
    pairs = [(image, text) for image in IMAGES[:3] for text in CAPTIONS]
    found = split(model.token_logprobs([image for image, _ in pairs], [text for _, text in pairs]))
    for values, (image, text) in zip(found, pairs, strict=True):
        with torch.no_grad():
            loss, wanted = FAMILIES[family].direct(network, image, text)
        same(values, wanted)
        same(values.mean(), -loss)
    assert torch.stack([each.mean() for each in found]).std() > 0.01


def test_rows_that_are_full_change_nothing(
    family: str, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [IMAGES[0]] * 4 + [IMAGES[1]] * 3
    texts = [*CAPTIONS, *CAPTIONS[:3]]
    whole = model.token_logprobs(images, texts)
    rows: list[int] = []

    def narrow(*given: Any, **named: Any) -> Any:
        packed = pack(*given, longest=16, **named)
        rows.append(len(packed.row_images))
        return packed

    monkeypatch.setattr(captioner, "pack", narrow)
    again = model.token_logprobs(images, texts)
    assert rows[0] > 2
    assert again.offsets == whole.offsets
    same(again.values, whole.values)


def test_an_image_is_looked_at_once(model: Any) -> None:
    calls = count_calls(vision(model))
    first, second = IMAGES[:2]
    model.token_logprobs([first, second, first, first], CAPTIONS)
    assert calls == [2]
    looked = model.encode_images([first, second])
    assert calls == [2, 2]
    model.token_logprobs([looked[0], looked[1], looked[0], looked[0]], CAPTIONS)
    assert calls == [2, 2]


def test_looked_images_are_as_good(model: Any) -> None:
    wanted = model.token_logprobs(IMAGES, CAPTIONS).values
    looked = model.encode_images(IMAGES)
    same(model.token_logprobs(looked, CAPTIONS).values, wanted)
    mixed = [IMAGES[0], looked[1], model.encode_images(IMAGES[2:3])[0], IMAGES[3]]
    same(model.token_logprobs(mixed, CAPTIONS).values, wanted)
    back = model.token_logprobs(looked[::-1], CAPTIONS[::-1])
    same(torch.cat(split(back)[::-1]), wanted)
    same(model.token_logprobs([looked[0]] * 4, CAPTIONS).values,
         model.token_logprobs([IMAGES[0]] * 4, CAPTIONS).values)  # fmt: skip
    assert model.encode_images([]) == []


def test_noise_is_seeded_and_of_the_familys_statistics(family: str, model: Any) -> None:
    noise = model.noise_images(3, 7)
    assert [tuple(each.shape) for each in noise] == [(3, SIDE, SIDE)] * 3
    whole = torch.stack(noise)
    assert (model.noise_mean, model.noise_std) == ((0.0, 0.25) if family == "git" else (1.0, 0.25))
    assert abs(whole.mean() - model.noise_mean) < 0.02
    assert abs(whole.std() - model.noise_std) < 0.02
    assert torch.equal(whole, torch.stack(model.noise_images(3, 7)))
    assert any(f"mean {model.noise_mean:g} " in note for note in model.card.notes)
    plain = model.token_logprobs([noise[0], noise[1], noise[0], IMAGES[0]], CAPTIONS)
    looked = model.encode_images(noise)
    kept = model.token_logprobs([looked[0], looked[1], looked[0], IMAGES[0]], CAPTIONS)
    same(plain.values, kept.values)


def test_half_precision_gives_numbers(folder: Path, model: Any) -> None:
    half = opened(folder, dtype="bf16")
    for images in (IMAGES, half.encode_images(IMAGES)):
        found = half.token_logprobs(images, CAPTIONS)
        assert found.values.dtype == torch.float32
        assert found.values.isfinite().all()
        assert (found.values - model.token_logprobs(IMAGES, CAPTIONS).values).abs().max() < 0.5
    assert half.fingerprint != model.fingerprint


def test_what_it_cannot_be_asked(family: str, model: Any) -> None:
    with pytest.raises(InputError, match="a caption is empty"):
        model.token_logprobs(IMAGES[:1], [" "])
    with pytest.raises(InputError, match="2 images were given with 1 captions"):
        model.token_logprobs(IMAGES[:2], CAPTIONS[:1])
    long = " ".join(["red"] * 400)
    (count,) = model.token_counts([long])
    with pytest.raises(InputError, match=f"has {count} tokens and small reads {model.context}"):
        model.token_logprobs(IMAGES[:1], [long])


def test_it_conforms(folder: Path) -> None:
    assert not check_model(opened(folder), load=lambda: opened(folder)).failed


def test_cut_captions_conform(folder: Path) -> None:
    check_cut_captions(lambda: opened(folder, cut=True))


def test_a_captioner_without_an_end_is_refused(family: str, tmp_path: Path) -> None:
    end = {"sep_token_id": None} if family == "blip" else {"eos_token_id": None}
    FAMILIES[family].save(tmp_path, **end)
    with pytest.raises(InputError, match="small has no end token"):
        opened(tmp_path)
