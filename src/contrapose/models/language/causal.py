"""A causal language model as the scoring engine sees it: log P of every token of a caption.

What a caption begins with decides the probability of its first word. In training a document
begins with a token of its own, and so does a caption here: every token of it then counts. The end
does not: a caption may go on. So it is with GPTScore (Fu et al. 2023), which Lin et al. (2024) use
for P_LLM(t).
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from contrapose.errors import InputError
from contrapose.models.capabilities import ModelCard, Ragged
from contrapose.models.captions import check_caption
from contrapose.models.language.sources import Parts
from contrapose.models.options import LoadOptions
from contrapose.models.precise import precise

DOCUMENT = "<|endoftext|>"
"""What stands between documents in the training of GPT-2, Pythia, Qwen, SmolLM and others. Chat
models name another token as their first, which is followed by a role and not by text."""

UNLIMITED = 1 << 20
"""Tokens that a model without a stated limit reads."""

ON_CPU, ELSEWHERE = 16, 256


class CausalLanguage:
    """The likelihood of captions without any image (`blind`).

    Attributes:
        name: as the user would type it.
        fingerprint: of weights, tokeniser and dtype.
        batch_size: captions at once.
        context: most tokens of a caption, with what is put before it.
        cuts: whether longer captions are cut.
        start: the tokens that are put before every caption.
        card: what a user should know.
    """

    def __init__(self, name: str, parts: Parts, options: LoadOptions):
        """Wrap a loaded network.

        Raises:
            InputError: it looks ahead, and so gives no probability of a caption.
        """
        self.name = name
        self.fingerprint = parts.fingerprint
        self.batch_size = ON_CPU if options.device == "cpu" else ELSEWHERE
        self.cuts = options.cut
        self._network, self._tokenizer = parts.network, parts.tokenizer
        self._device = options.device
        self._lock = Lock()  # a fast tokeniser may not be used by two threads at once
        self.start = start_of(self._tokenizer)
        self.context = _context(self._network.config, self._tokenizer)
        self._refuse_looking_ahead()
        self.card = ModelCard(
            family=f"language model ({self._network.config.model_type})",
            parameters=self._network.num_parameters(),
            dtype=options.dtype,
            preprocessing="none: it sees no image",
            context=self.context,
            notes=(*parts.notes, f"Log-probabilities are of: {self.lm_tokens}."),
        )

    @property
    def lm_tokens(self) -> str:
        """All tokens of the caption count; without a token before it, all but the first."""
        if not self.start:
            return "caption without its first token"
        return f"caption after {''.join(self._tokenizer.convert_ids_to_tokens(list(self.start)))}"

    @precise
    def text_logprobs(self, texts: Sequence[str]) -> Ragged:
        """Log P(t_k | t_<k) of each counted token of each caption.

        Raises:
            InputError: a caption is empty, of one token where the first cannot count, or too long.
        """
        if not texts:
            return Ragged(torch.zeros(0), [0])
        rows = [self._row(text, ids) for text, ids in zip(texts, self._encode(texts), strict=True)]
        width = max(map(len, rows))
        tokens = torch.zeros((len(rows), width), dtype=torch.long)
        real = torch.zeros_like(tokens)
        for i, row in enumerate(rows):
            tokens[i, : len(row)] = torch.tensor(row)
            real[i, : len(row)] = 1
        chosen = self._logprobs(tokens.to(self._device), real.to(self._device)).cpu()
        skipped = max(len(self.start), 1)  # what is put before has no probability, nor a first word
        counted = real[:, 1:].bool()
        counted[:, : skipped - 1] = False
        ends = counted.sum(dim=1).cumsum(dim=0).tolist()
        return Ragged(chosen[counted], [0, *ends])

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each caption before any cut, with what is put before it."""
        return [len(self.start) + len(ids) for ids in self._encode(texts)]

    def _logprobs(self, tokens: Tensor, real: Tensor) -> Tensor:
        """(n, l − 1) log P of each token but the first; captions are padded after their end."""
        logits = self._network(input_ids=tokens, attention_mask=real, use_cache=False).logits
        flat = logits[:, :-1].float().flatten(0, 1)
        losses = cross_entropy(flat, tokens[:, 1:].flatten(), reduction="none")
        return -losses.view(len(tokens), -1)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        with self._lock:
            found = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return list(found["input_ids"])

    def _row(self, text: str, ids: list[int]) -> list[int]:
        row = [*self.start, *ids]
        check_caption(
            self.name, text, len(row), len(self.start), None if self.cuts else self.context
        )
        if len(row) < 2:
            raise InputError(
                f"the caption {text!r} is one token, and {self.name} gives the first token of a "
                "caption no probability."
            )
        return row[: self.context]

    @precise
    def _refuse_looking_ahead(self) -> None:
        ids = [*self.start, *self._encode(["a dog"])[0], *self._encode(["a dog"])[0]][:8]
        one = torch.tensor([ids, ids])
        one[1, -1] = ids[0]
        if one[0, -1] == one[1, -1]:
            one[1, -1] = ids[1]
        found = self._logprobs(one.to(self._device), torch.ones_like(one).to(self._device))
        first, second = found[:, :-1]
        if not torch.allclose(first, second, rtol=1e-4, atol=1e-4):
            raise InputError(
                f"{self.name} is no causal language model: what it says of a word hangs on the "
                "words after it."
            )


def start_of(tokenizer: Any) -> tuple[int, ...]:
    """The tokens to put before a caption; none where the tokeniser knows none that would do.

    What the tokeniser itself puts before a text; else the mark between documents; else what it
    calls its first token, or the end of the text before.
    """
    plain = list(tokenizer("dog", add_special_tokens=False)["input_ids"])
    added = list(tokenizer("dog")["input_ids"])
    for at in range(1, len(added) - len(plain) + 1):
        if added[at : at + len(plain)] == plain:
            return tuple(added[:at])
    special = {
        str(token): i
        for token, i in zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
    }
    for mark in (DOCUMENT, tokenizer.bos_token, tokenizer.eos_token):
        if mark is not None and str(mark) in special:
            return (special[str(mark)],)
    return ()


def _context(config: Any, tokenizer: Any) -> int:
    """Most tokens, by what the network or the tokeniser says."""
    limits = [
        getattr(config.get_text_config(), "max_position_embeddings", None),
        tokenizer.model_max_length,
    ]
    return min([int(limit) for limit in limits if limit] + [UNLIMITED])
