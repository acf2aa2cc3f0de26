"""Tokenizer of the built-in models: known words, and UTF-8 bytes for all others.

Words of the vocabulary are one token each. Any other word is spelled in UTF-8 bytes: no word is
unknown, and different words have different tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

PAD, START, END, MATCH = range(4)
"""Padding; start of a caption for the language model; its end; start of a caption to match."""
SPECIAL = 4
BYTES = 256
_PIECES = re.compile(r"\w+(?:-\w+)*|[^\w\s]")
"""A word, with its hyphens; or a punctuation mark."""


class Tokenizer:
    """Word-level tokenizer with byte fallback: special tokens, 256 bytes, then the words.

    A spelled word is followed by the byte of a space, so that two of them never run together.
    """

    def __init__(self, words: Sequence[str]):
        self.words = tuple(words)
        self._number = {word: SPECIAL + BYTES + i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return SPECIAL + BYTES + len(self.words)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without start and end; case and spacing do not count."""
        tokens: list[int] = []
        for piece in _PIECES.findall(text.lower()):
            number = self._number.get(piece)
            tokens += self.spell(piece) if number is None else [number]
        return tokens

    def spell(self, word: str) -> list[int]:
        """Byte tokens of a word."""
        return [SPECIAL + byte for byte in f"{word} ".encode(errors="surrogatepass")]

    def decode(self, tokens: Sequence[int]) -> str:
        """Decode tokens to text."""
        pieces: list[str] = []
        spelled = bytearray()
        for token in tokens:
            if SPECIAL <= token < SPECIAL + BYTES:
                spelled.append(token - SPECIAL)
                continue
            if spelled:
                pieces.append(spelled.decode(errors="replace").strip())
                spelled = bytearray()
            if token >= SPECIAL + BYTES:
                pieces.append(self.words[token - SPECIAL - BYTES])
        if spelled:
            pieces.append(spelled.decode(errors="replace").strip())
        return " ".join(pieces)
