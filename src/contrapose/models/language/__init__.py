"""Language models: the probability of a caption without its image (score `blind`)."""

from __future__ import annotations

from pathlib import Path

from contrapose.errors import MissingExtraError
from contrapose.models.capabilities import Model
from contrapose.models.options import LoadOptions

DEFAULT_LANGUAGE_MODEL = "lm:smollm2"
"""The small one that installs from a package."""


def load(source: str, revision: str | None, name: str, options: LoadOptions) -> Model:
    """Load a causal language model.

    Args:
        source: `smollm2`, a folder, a `.gguf` file, or an id `org/name` on the hub.
        revision: a branch, tag or commit of the hub.
        name: the canonical model string.
        options: how it is to be loaded.

    Raises:
        InputError: it cannot be had, or is no causal language model.
        MissingExtraError: a library that it needs is not installed.
    """
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        missing = error.name or "transformers"
        raise MissingExtraError(missing, "language", f"The model {name}") from None
    from contrapose.models.language.causal import (
        CausalLanguageModel,
        find_packaged_weights,
        load_gguf,
        load_transformers,
    )

    if source == "smollm2":
        parts = load_gguf(find_packaged_weights(name), name, options)
    elif source.endswith(".gguf"):
        parts = load_gguf(Path(source).expanduser(), name, options)
    else:
        parts = load_transformers(source, revision, name, options)
    return CausalLanguageModel(name, parts, options)
