from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from tests.models.hf.small_fusion import CAPTIONS, bert_tokenizer, hf, opened, picture, same, saved

IMAGES = [picture(50, 40, 0), picture(33, 70, 1), picture(28, 28, 2), picture(90, 20, 3, "L")]
QUERIES = 5


def config(*, text: bool = True) -> Any:
    return hf.Blip2Config(
        vision_config={
            "hidden_size": 24, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 4, "image_size": 28, "patch_size": 7,
        },
        qformer_config={
            "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 24,
            "use_qformer_text_input": text,
        },
        text_config={
            "model_type": "opt", "vocab_size": 40, "hidden_size": 16, "ffn_dim": 16,
            "num_hidden_layers": 1, "num_attention_heads": 2, "word_embed_proj_dim": 16,
        },
        num_query_tokens=QUERIES,
        image_text_hidden_size=16,
    )  # fmt: skip


def processor() -> Any:
    return hf.BlipImageProcessorPil(size={"height": 28, "width": 28})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    network = hf.Blip2ForImageTextRetrieval(config())
    return saved(tmp_path_factory.mktemp("blip2"), network, bert_tokenizer(), processor())


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return opened(folder)


def direct(folder: Path, image: Any, text: str, *, itm: bool) -> Tensor:
    """The library's own call on one pair."""
    network = hf.Blip2ForImageTextRetrieval.from_pretrained(folder).eval()
    words = bert_tokenizer()(text, return_token_type_ids=False, return_tensors="pt")
    pixels = processor()(image.convert("RGB"), return_tensors="pt")
    with torch.no_grad():
        found = network(**words, **pixels, use_image_text_matching_head=itm)
    score: Tensor = found.logits_per_image
    return score[0]


def test_itc_is_the_librarys(folder: Path, model: Any) -> None:
    images, texts = model.embed_images(IMAGES), model.embed_texts(CAPTIONS)
    assert images.shape == (4, QUERIES, 16)
    assert texts.shape == (4, 16)
    found = torch.einsum("nqd,nd->nq", images, texts).max(dim=1).values
    pairs = [direct(folder, i, t, itm=False)[0] for i, t in zip(IMAGES, CAPTIONS, strict=True)]
    same(found, torch.stack(pairs))
    torch.testing.assert_close(images.norm(dim=2), torch.ones(4, QUERIES))
    torch.testing.assert_close(texts.norm(dim=1), torch.ones(4))


def test_a_configuration_with_an_image_token_is_no_other(folder: Path, tmp_path: Path) -> None:
    """The library then expects a place for each query in the caption; ours never has them."""
    network = hf.Blip2ForImageTextRetrieval.from_pretrained(folder)
    network.config.image_token_index = 39
    saved(tmp_path, network, bert_tokenizer(), processor(), randomise=False)
    marked = opened(tmp_path)
    assert marked.network.config.image_token_index == 39
    with torch.no_grad():
        words = bert_tokenizer()(CAPTIONS[0], return_token_type_ids=False, return_tensors="pt")
        places = torch.full((1, QUERIES), 39)
        found = network.eval()(
            input_ids=torch.cat([places, words["input_ids"]], dim=1),
            attention_mask=torch.cat([torch.ones_like(places), words["attention_mask"]], dim=1),
            **processor()(IMAGES[0], return_tensors="pt"),
            use_image_text_matching_head=True,
        ).logits_per_image[0]
    ours = marked.match(IMAGES[:1], CAPTIONS[:1])[0]
    same(ours, found[1] - found[0])
    same(ours, opened(folder).match(IMAGES[:1], CAPTIONS[:1])[0])


def test_a_captioner_without_its_head_is_refused(tmp_path: Path) -> None:
    network = hf.Blip2Model(config())
    saved(tmp_path, network, bert_tokenizer(), processor(), randomise=False)
    with pytest.raises(InputError, match=r"is a captioner without its head \(Blip2Model\)"):
        opened(tmp_path)


def test_a_q_former_that_reads_no_captions_is_refused(tmp_path: Path) -> None:
    network = hf.Blip2ForImageTextRetrieval(config(text=False))
    saved(tmp_path, network, bert_tokenizer(), processor(), randomise=False)
    with pytest.raises(InputError, match="Q-Former reads no captions"):
        opened(tmp_path)
