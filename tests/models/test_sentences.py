"""Models of sentence-transformers: the vectors of the same weights in transformers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

import contrapose as cp
from contrapose.data import in_memory_benchmark
from contrapose.errors import InputError, MissingExtraError
from contrapose.evaluation.evaluate import evaluate_models
from contrapose.evaluation.parts import EvalRequest
from contrapose.models import Encoder, check_model, load_model, registry
from contrapose.models.capabilities import TokenCounter
from contrapose.search.searcher import Searcher
from contrapose.search.writer import IndexRequest, build_index
from tests.fakes import choices
from tests.models.hf.small import CAPTIONS, bert_tokenizer, pictures, save_clip
from tests.models.hf.vlm.small_vlm import llava

pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLIP as sentence-transformers saves it."""
    plain, saved = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("saved")
    save_clip(plain)
    model: Any = load_model(f"st:{plain}")
    model.network.save(str(saved))
    shutil.copytree(plain, saved / "onnx")  # for another program
    return saved


def test_its_vectors_are_those_of_transformers(folder: Path) -> None:
    model, same = load_model(f"st:{folder}"), load_model(str(folder))
    assert isinstance(model, Encoder)
    assert isinstance(same, Encoder)
    assert isinstance(model, TokenCounter)
    torch.testing.assert_close(model.embed_images(pictures()), same.embed_images(pictures()))
    torch.testing.assert_close(model.embed_texts(CAPTIONS), same.embed_texts(CAPTIONS))
    assert model.name == f"st:{folder}"
    assert model.context == 77
    assert model.embed_texts([]).shape[0] == 0


def test_it_conforms(folder: Path) -> None:
    name = f"st:{folder}"
    assert not check_model(load_model(name), load=lambda: load_model(name)).failed


def test_a_copy_has_its_fingerprint_and_other_weights_have_not(
    folder: Path, tmp_path: Path
) -> None:
    model: Any = load_model(f"st:{folder}")
    copied = tmp_path / "copy"
    shutil.copytree(folder, copied, ignore=shutil.ignore_patterns("onnx", "README.md"))
    assert load_model(f"st:{copied}").fingerprint == model.fingerprint
    assert load_model(f"st:{folder},long=cut").fingerprint != model.fingerprint
    save_clip(copied, seed=1)
    assert load_model(f"st:{copied}").fingerprint != model.fingerprint


def test_long_captions_are_refused_or_cut(folder: Path) -> None:
    long = "a very long caption " * 20
    model, cut = load_model(f"st:{folder}"), load_model(f"st:{folder},long=cut")
    assert isinstance(model, Encoder)
    assert isinstance(cut, Encoder)
    with pytest.raises(InputError, match="tokens"):
        model.embed_texts([long])
    assert cut.embed_texts([long]).shape == (1, 16)
    with pytest.raises(InputError, match="empty"):
        model.embed_texts([" "])


def save_with_prompt(folder: Path, target: Path, prompt: str) -> str:
    model: Any = load_model(f"st:{folder}")
    model.network.prompts, model.network.default_prompt_name = {"q": prompt}, "q"
    model.network.save(str(target))
    return f"st:{target}"


def test_tokens_of_a_default_prompt_count(folder: Path, tmp_path: Path) -> None:
    """Captions that the library would cut are refused, those that fit are read to the end."""
    name = save_with_prompt(folder, tmp_path, "a photo of ")
    model, plain = load_model(name), load_model(f"st:{folder}")
    assert isinstance(model, Encoder)
    assert isinstance(model, TokenCounter)
    assert isinstance(plain, Encoder)
    assert isinstance(plain, TokenCounter)
    assert model.token_counts(CAPTIONS) == plain.token_counts([f"a photo of {c}" for c in CAPTIONS])
    torch.testing.assert_close(
        model.embed_texts(CAPTIONS), plain.embed_texts([f"a photo of {c}" for c in CAPTIONS])
    )
    (word,), (prompt,) = plain.token_ids(["red"]), plain.token_ids(["a photo of"])  # type: ignore[attr-defined]
    words = (77 - 2 - len(prompt)) // len(word)
    fits = model.embed_texts([" ".join(["red"] * (words - 1) + [end]) for end in ("red", "dog")])
    assert not torch.equal(fits[0], fits[1])
    with pytest.raises(InputError, match="tokens"):
        model.embed_texts([" ".join(["red"] * (words + 1))])
    assert "a photo of" in model.card.notes[1]  # type: ignore[attr-defined]
    assert not check_model(model, load=lambda: load_model(name)).failed


@pytest.mark.parametrize("prompt", ["query: ", "a"])
def test_a_caption_is_read_whatever_the_prompt_ends_with(
    folder: Path, tmp_path: Path, prompt: str
) -> None:
    model: Any = load_model(save_with_prompt(folder, tmp_path, prompt))
    assert model.embed_texts(["a", "!"]).shape == (2, 16)


def test_captions_that_look_like_images_are_text(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library would fetch such an address, or open such a file."""
    monkeypatch.chdir(tmp_path)
    pictures()[0].save("a.png")
    model, same = load_model(f"st:{folder}"), load_model(str(folder))
    assert isinstance(model, Encoder)
    assert isinstance(same, Encoder)
    texts = ["http://127.0.0.1:9/a.png", "a dog", "a.png", "data:image/png;base64,AAAA"]
    torch.testing.assert_close(model.embed_texts(texts), same.embed_texts(texts))


def test_a_folder_without_a_vocabulary_is_refused(folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare, ignore=shutil.ignore_patterns("*token*", "vocab*", "merges*"))
    assert not list(bare.glob("*token*"))
    shutil.copytree(folder, bare / "onnx", dirs_exist_ok=True)  # for another program
    with pytest.raises(InputError, match="no vocabulary file"):
        load_model(f"st:{bare}")


@pytest.fixture(scope="module")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence encoder, which reads no images."""
    from transformers import BertConfig, BertModel

    folder: Path = tmp_path_factory.mktemp("text")
    tokenizer = bert_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    network: Any = BertModel
    network(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    pooling = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling",
         "type": "sentence_transformers.models.Pooling"},
    ]  # fmt: skip
    (folder / "modules.json").write_text(json.dumps(pooling))
    (folder / "1_Pooling").mkdir()
    mode = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(mode))
    return folder


def test_a_model_of_text_alone_is_a_text_encoder(text_folder: Path) -> None:
    model: Any = load_model(f"st:{text_folder}")
    assert model.sides == ("text",)
    vectors = model.embed_texts(CAPTIONS)
    assert vectors.shape == (len(CAPTIONS), 16)
    ids, counts = model.token_ids(CAPTIONS), model.token_counts(CAPTIONS)
    assert [len(row) + 2 for row in ids] == counts
    with pytest.raises(InputError, match="a text encoder alone"):
        model.embed_images(pictures())
    with pytest.raises(InputError, match="a text encoder alone"):
        evaluate_models([model], EvalRequest((in_memory_benchmark(choices(2), name="x"),)))


def test_search_in_its_space_and_in_no_other(
    folder: Path, text_folder: Path, tmp_path: Path
) -> None:
    """The index of a multimodal model is searched by it, and by a text encoder of its space."""
    photos = tmp_path / "photos"
    photos.mkdir()
    for i, image in enumerate(pictures()):
        image.save(photos / f"{i}.png")
    both = load_model(f"st:{folder}")
    index = build_index(IndexRequest(photos), both).index
    assert isinstance(both, Encoder)
    hits = cp.search(Searcher(index, both), text=CAPTIONS[0], k=2).hits
    scores = normalize(both.embed_images(pictures())) @ normalize(both.embed_texts(CAPTIONS[:1]))[0]
    assert [hit.path for hit in hits] == [f"{i}.png" for i in scores.topk(2).indices.tolist()]
    text = load_model(f"st:{text_folder}")
    with pytest.raises(InputError, match=r"joined\.json whose \"space\" is"):
        Searcher(index, text)
    for space, fits in ((both.name, True), ("elsewhere", False)):
        joined = tmp_path / space.replace("/", "-")
        joined.mkdir()
        side = {"kind": "model", "source": f"st:{text_folder}"}
        spec = {"format": "contrapose-joined-1", "space": space, "text": side}
        (joined / "joined.json").write_text(json.dumps(spec))
        model: Any = load_model(f"joined:{joined}")
        torch.testing.assert_close(model.embed_texts(CAPTIONS), text.embed_texts(CAPTIONS))  # type: ignore[attr-defined]
        if fits:
            assert len(cp.search(Searcher(index, model), text=CAPTIONS[0], k=2).hits) == 2
        else:
            with pytest.raises(InputError, match="space"):
                Searcher(index, model)


def test_an_untrained_pooling_is_refused(tmp_path: Path) -> None:
    llava(tmp_path)
    with pytest.raises(InputError, match=r"no modules\.json"):
        load_model(f"st:{tmp_path}")


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no model: there is no modules\.json"):
        load_model(f"st:{tmp_path}")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "vocab.txt").write_text("a")
    with pytest.raises(InputError, match="cannot be loaded by sentence-transformers"):
        load_model(f"st:{tmp_path}")
    with pytest.raises(InputError, match="there is no folder"):
        load_model("st:/no/such/folder")


def test_without_the_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(module: str) -> Any:
        raise ModuleNotFoundError(name="sentence_transformers")

    monkeypatch.setattr(registry, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r"\[st\]"):
        load_model(f"st:{folder}")
