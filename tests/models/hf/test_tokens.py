"""Tokenized captions: what the library's call gives, each caption once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.models.hf import tokens
from contrapose.models.hf.tokens import FastEncoder, LibraryTokenizer, TokenCache
from tests.models.hf.small import CAPTIONS, LONG, bert_tokenizer, clip_tokenizer

TOKENIZERS = {"clip": clip_tokenizer(), "bert": bert_tokenizer()}
captions = st.lists(st.sampled_from([*CAPTIONS, LONG, "", " ", "é\u0301 你好 🙂"]) | st.text())


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("arguments", [{}, {"add_special_tokens": False}])
@settings(deadline=None, max_examples=40)
@given(texts=captions)
def test_columns_are_those_of_the_library(
    name: str, arguments: dict[str, Any], texts: list[str]
) -> None:
    tokenizer = TOKENIZERS[name]
    tokenizer(["a"], padding="max_length", truncation=True, max_length=3)  # leaves its settings
    theirs = {
        key: list(rows)
        for key, rows in tokenizer(["a", *texts], verbose=False, **arguments).items()
    }
    fast = FastEncoder.of(tokenizer, theirs, arguments)
    assert fast is not None
    tokenizer(["a"], padding="max_length", truncation=True, max_length=3)
    assert fast.encode(["a", *texts]) == theirs


def test_other_tokenizers_are_called_themselves() -> None:
    class Other(type(TOKENIZERS["clip"])):  # type: ignore[misc]
        def _encode_plus(self, *args: Any, **kwargs: Any) -> Any:
            return super()._encode_plus(*args, **kwargs)

    tokenizer = clip_tokenizer()
    columns = dict(tokenizer(["a"]))
    assert FastEncoder.of(tokenizer, columns, {"truncation": True}) is None
    assert FastEncoder.of(tokenizer, columns | {"pixel_mask": [[1]]}, {}) is None
    tokenizer.__class__ = Other
    assert FastEncoder.of(tokenizer, columns, {}) is None
    rows = LibraryTokenizer(tokenizer, seeks_end=True).token_ids(CAPTIONS)
    assert rows == clip_tokenizer()(list(CAPTIONS), add_special_tokens=False)["input_ids"]


def test_a_counted_caption_is_tokenized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def encode(texts: list[str]) -> dict[str, list[Any]]:
        asked.extend(filter(None, texts))
        return {"input_ids": [list(map(ord, text)) for text in texts]}

    cache = TokenCache(encode)
    assert cache.counts(["ab", "c"]) == [2, 1]
    assert cache.take(["c", "ab", "c", "d"]) == {"input_ids": [[99], [97, 98], [99], [100]]}
    assert asked == ["ab", "c", "d"]
    assert cache.take(["c"]) == {"input_ids": [[99]]}  # it had left the cache
    assert asked == ["ab", "c", "d", "c"]
    monkeypatch.setattr(tokens, "MAX_CAPTIONS", 2)
    assert cache.counts(["x", "yy", "zzz"]) == [1, 2, 3]
    assert len(cache._rows) == 2
    assert cache.take(["zzz", "x"]) == {"input_ids": [[122] * 3, [120]]}
