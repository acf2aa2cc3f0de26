"""A model of the transformers library, as it lies in a folder or on the hub.

Every file is fetched before anything is built, so that all that can go wrong with the network goes
wrong in one place, and what is loaded afterwards is the content that the fingerprint is of.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from contrapose.errors import InputError, MissingExtraError
from contrapose.models.fingerprint import fingerprint
from contrapose.models.hf.hub import fetch
from contrapose.models.hf.quiet import quiet
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

M = TypeVar("M", bound="PreTrainedModel")

ADAPTERS = 1
"""Raised when the adapters begin to give other numbers for the same weights."""
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model", "sentencepiece*")
_TEXTS = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "*token*.json",
    "chat_template*",
)
_RECOMPUTED = ("position_ids", "inv_freq")
"""Ends of the names of buffers that no file needs to hold."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a model is, and how it is to be loaded.

    Attributes:
        name: the canonical model string, shown to users.
        source: the folder that holds it; what `from_pretrained` takes.
        revision: the commit on the hub; None for the user's own folder.
        options: device, dtype, what becomes of long captions, whether its code may run.
        config: the configuration of the transformers library.
        fingerprint: hash of weights, configuration, tokeniser, preprocessing, dtype and cut.
    """

    name: str
    source: str
    revision: str | None
    options: LoadOptions
    config: Any
    fingerprint: str

    def model(self, kind: type[M], *, unneeded: tuple[str, ...] = (), **changes: Any) -> M:
        """The network, in the chosen dtype on the chosen device, not to be trained.

        Args:
            kind: the class; every weight it has must be in the files.
            unneeded: beginnings of the names of weights that may be missing, since they are not
                used.
            changes: further arguments of `from_pretrained`.

        Raises:
            InputError: weights are missing, damaged, or of another shape.
        """
        arguments = {
            "dtype": self.options.torch_dtype,
            "local_files_only": True,
            "weights_only": True,
            "output_loading_info": True,
            **changes,
        }
        library: Any = kind
        try:
            with quiet():
                network, found = library.from_pretrained(self.source, **arguments)
        except Exception as error:  # the library raises almost anything on damaged files
            raise InputError(
                f"the weights of {self.name} cannot be loaded as {kind.__name__} "
                f"({_first_line(error)}); fetch or save them again."
            ) from None
        missing = sorted(
            name
            for name in found["missing_keys"]
            if not name.endswith(_RECOMPUTED) and not name.startswith(unneeded)
        )
        if missing:
            raise InputError(
                f"{self.name} has no trained weights for {missing[0]!r}"
                f"{f' and {len(missing) - 1} more' if missing[1:] else ''}, which "
                f"{kind.__name__} needs: it is a model of another kind, or cut short."
            )
        placed: M = network.to(self.options.device).eval()
        placed.requires_grad_(False)
        return placed

    def image_processor(self) -> Any:
        """The library's image preprocessing, by Pillow."""
        from transformers import AutoImageProcessor

        return self._part(AutoImageProcessor, "image preprocessing", backend="pil")

    def tokenizer(self) -> Any:
        """The library's tokeniser."""
        from transformers import AutoTokenizer

        if not files_of(Path(self.source), _VOCABULARIES):
            raise InputError(f"{self.name} has no tokeniser: it holds no vocabulary file.")
        return self._part(AutoTokenizer, "tokeniser")

    def _part(self, kind: Any, what: str, **arguments: Any) -> Any:
        try:
            with quiet():
                return kind.from_pretrained(
                    self.source,
                    local_files_only=True,
                    trust_remote_code=self.options.trust_remote_code,
                    **arguments,
                )
        except Exception as error:
            raise InputError(
                f"the {what} of {self.name} cannot be loaded ({_first_line(error)})."
            ) from None


def open_checkpoint(
    source: str,
    revision: str | None,
    name: str,
    options: LoadOptions,
    *,
    fetched: tuple[Path, str | None] | None = None,
) -> Checkpoint:
    """A checkpoint in a folder, or of an id on the hub; its files are fetched, nothing is built.

    Args:
        source: a folder, or an id `org/name` on the hub.
        revision: a branch, tag or commit of the hub.
        name: the canonical model string.
        options: how it is to be loaded.
        fetched: the folder and its commit, where they are known already.

    Raises:
        InputError: it is absent, gated, out of reach or damaged.
        MissingExtraError: transformers is not installed.
    """
    try:
        from transformers import AutoConfig
    except ImportError:
        raise MissingExtraError("transformers", "hf", f"The model {name}") from None
    folder, commit = fetched or fetch(source, revision, name, code=options.trust_remote_code)
    weights = [file for file in files_of(folder, _WEIGHTS) if not file.name.startswith("open_clip")]
    if any(file.suffix == ".safetensors" for file in weights):
        weights = [file for file in weights if file.suffix == ".safetensors"]
    if not weights:
        raise InputError(f"{name} holds no weights (no model.safetensors in {folder}).")
    try:
        with quiet():
            config = AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=options.trust_remote_code
            )
    except Exception as error:
        raise InputError(
            f"the configuration of {name} cannot be read ({_first_line(error)})."
        ) from None
    known = fingerprint(
        {*weights, *files_of(folder, (*_TEXTS, *_VOCABULARIES, "merges.txt"))},
        adapters=ADAPTERS,
        dtype=options.dtype,
        cut=options.cut,
    )
    return Checkpoint(name, str(folder), commit, options, config, known)


def files_of(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """The files of a folder itself that have such names, sorted."""
    return sorted({file for pattern in patterns for file in folder.glob(pattern)})


def _first_line(error: Exception) -> str:
    text = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
    return text or type(error).__name__
