"""Token counter of models whose captions are tokenized by one object of theirs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol


class CaptionInputs(Protocol):
    """Tokenizer of a model's captions, with the longest that the model reads."""

    context: int
    cut: bool

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation."""


class CaptionTokenCounter(ABC):
    """Model that counts the tokens of captions (`TokenCounter`) as its caption inputs do."""

    @property
    @abstractmethod
    def caption_inputs(self) -> CaptionInputs:
        """Tokenizer of captions."""

    @property
    def context(self) -> int:
        """Context length: most tokens of a caption, special tokens and its end included."""
        return self.caption_inputs.context

    @property
    def cuts(self) -> bool:
        """Whether longer captions are truncated."""
        return self.caption_inputs.cut

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, as `context` counts them."""
        return self.caption_inputs.counts(texts)
