"""Token counter by a model's caption inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from contrapose.models import TokenCounter
from contrapose.models.caption_tokens import CaptionTokenCounter
from contrapose.models.endpoint.served import ServedModel


@dataclass
class Words:
    """Caption inputs whose tokens are words, and an end."""

    context: int = 5
    cut: bool = True

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of words of each caption, its end included."""
        return [len(text.split()) + 1 for text in texts]


class Reader(CaptionTokenCounter):
    """Model whose captions are words."""

    caption_inputs = Words()


def test_a_model_counts_as_its_caption_inputs_do() -> None:
    model = Reader()
    assert isinstance(model, TokenCounter)
    assert (model.context, model.cuts) == (5, True)
    assert list(model.token_counts(["a cat", ""])) == [3, 1]


def test_models_of_one_tokenizer_share_the_counter() -> None:
    hf = pytest.importorskip("contrapose.models.hf.base")
    vlm = pytest.importorskip("contrapose.models.hf.vlm.model")
    for kind in (ServedModel, hf.HFModel, vlm.Vlm):
        assert issubclass(kind, CaptionTokenCounter)
        assert not {"context", "cuts", "token_counts"} & set(vars(kind))
