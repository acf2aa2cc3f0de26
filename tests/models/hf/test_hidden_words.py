"""Hidden words in models of the library: only their own rows of the word table become zero."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.masking.text import MaskedText, hide
from tests.models.hf import test_blip, test_bridgetower, test_flava, test_vilt
from tests.models.hf.small import (
    pictures,
    save_align,
    save_altclip,
    save_clip,
    save_naflex,
    save_siglip,
)
from tests.models.hf.small_captioners import FAMILIES as CAPTIONERS
from tests.models.hf.small_captioners import IMAGES
from tests.models.hf.small_fusion import bert_tokenizer, hf, opened, roberta_tokenizer, saved

CAPTION, WORD = "a red dog", (2, 5)


def save_gemma(folder: Path) -> Any:
    return save_siglip(folder, gemma=True)


DUAL: dict[str, Callable[[Path], Any]] = {
    "CLIP": save_clip,
    "SigLIP": save_siglip,
    "SigLIP 2": save_gemma,
    "NaFlex": save_naflex,
    "ALIGN": save_align,
    "AltCLIP": save_altclip,
}
FUSION: dict[str, tuple[Any, Any, Any]] = {
    "BLIP": (test_blip, hf.BlipForImageTextRetrieval, bert_tokenizer),
    "FLAVA": (test_flava, hf.FlavaForPreTraining, bert_tokenizer),
    "ViLT": (test_vilt, hf.ViltForImageAndTextRetrieval, bert_tokenizer),
    "BridgeTower": (test_bridgetower, hf.BridgeTowerForImageAndTextRetrieval, roberta_tokenizer),
}


def by_a_zero_row(
    captions: Any, table: Any, text: str, span: tuple[int, int], ask: Callable[[str], Tensor]
) -> tuple[Tensor, list[int]]:
    """What is answered when a word's tokens are one of no use, whose row of the table is zero.

    Also the word's own tokens.
    """
    plain = captions.tensors([text], "cpu")["input_ids"][0]
    unused = next(i for i in range(5, 100) if i not in plain.tolist())
    tokens, kept = captions._masker._tokens, table.weight.detach().clone()
    before = tokens["token-0"]
    tokens["token-0"] = unused
    try:
        with torch.no_grad():
            table.weight[unused] = 0.0
        masked = MaskedText(text, [span], "token-0")
        row = captions.tensors([masked], "cpu")["input_ids"][0]
        return ask(masked), plain[row == unused].tolist()
    finally:
        tokens["token-0"] = before
        with torch.no_grad():
            table.weight.copy_(kept)


@pytest.mark.parametrize("name", DUAL)
def test_a_dual_encoder_reads_zeros_in_place_of_a_word(name: str, tmp_path: Path) -> None:
    DUAL[name](tmp_path)
    model: Any = load_model(str(tmp_path))
    wanted, ids = by_a_zero_row(
        model.text_inputs,
        model.word_embedding,
        CAPTION,
        WORD,
        lambda text: model.embed_texts([text]),
    )
    tokenizer = model.text_inputs._tokenizer
    bare = tokenizer("red", add_special_tokens=False)["input_ids"]
    assert ids[-len(bare) :] == bare or tokenizer.decode(ids).strip() == "red"
    plain, found, again = model.embed_texts([CAPTION, hide(CAPTION, [WORD]), CAPTION])
    torch.testing.assert_close(found, wanted[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(plain, again)
    assert (plain - found).abs().max() > 1e-4


@pytest.mark.parametrize("name", FUSION)
def test_a_matcher_reads_zeros_in_place_of_a_word(name: str, tmp_path: Path) -> None:
    module, network, tokenizer = FUSION[name]
    saved(tmp_path, network(module.config()), tokenizer(), module.processor())
    model = opened(tmp_path)
    shown = pictures()[:1] * 2
    wanted, _ = by_a_zero_row(
        model.text_inputs,
        model.word_embedding,
        CAPTION,
        WORD,
        lambda text: model.match(shown[:1], [text]),
    )
    plain, found = model.match(shown, [CAPTION, hide(CAPTION, [WORD])])
    torch.testing.assert_close(found, wanted[0], rtol=1e-4, atol=1e-5)
    assert abs(float(plain - found)) > 1e-5


@pytest.mark.parametrize("name", CAPTIONERS)
def test_a_captioner_gives_hidden_tokens_nothing(name: str, tmp_path: Path) -> None:
    CAPTIONERS[name].save(tmp_path)
    model = opened(tmp_path)
    caption = "a red dog on the left"
    masked = hide(caption, [(2, 5)])
    found = model.token_logprobs(IMAGES[:1] * 3, [caption, masked, caption])
    plain, hidden, again = (
        found.values[a:b] for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)
    )
    torch.testing.assert_close(plain, again)
    flags = torch.tensor([*model.text_inputs.mask_flags(masked)[1:], False])
    assert flags.any()
    assert (hidden[flags] == 0).all()
    first = int(flags.nonzero()[0])
    torch.testing.assert_close(hidden[:first], plain[:first], rtol=1e-5, atol=1e-6)
    assert (hidden[~flags][first:] - plain[~flags][first:]).abs().max() > 1e-5


def test_padding_that_would_end_a_caption_is_token_0(tmp_path: Path) -> None:
    save_clip(tmp_path)
    model: Any = load_model(str(tmp_path))
    tokenizer = model.text_inputs._tokenizer
    assert tokenizer.pad_token_id == tokenizer.eos_token_id
    row = model.text_inputs.tensors([MaskedText(CAPTION, [WORD], "pad")], "cpu")["input_ids"][0]
    assert int((row == tokenizer.eos_token_id).sum()) == 1
    assert int((row == 0).sum()) == 3


def test_networks_that_count_places_by_padding_take_none(tmp_path: Path) -> None:
    save_altclip(tmp_path)
    model: Any = load_model(str(tmp_path))
    assert "pad" not in model.text_masks
    with pytest.raises(InputError, match="cannot hide words by 'pad'"):
        model.embed_texts([MaskedText(CAPTION, [WORD], "pad")])


def test_a_cut_caption_hides_what_is_left_of_a_word(tmp_path: Path) -> None:
    save_clip(tmp_path)
    model: Any = load_model(str(tmp_path), cut=True)
    long = "a red dog " + "and a cat " * 40
    whole, other = (f"{long}{word}" for word in ("red", "tan"))
    places = [(2, 5), (len(long), len(whole))]
    found = model.embed_texts([hide(text, places) for text in (whole, other)])
    torch.testing.assert_close(found[0], found[1])
    assert (found[0] - model.embed_texts([whole])[0]).abs().max() > 1e-4
