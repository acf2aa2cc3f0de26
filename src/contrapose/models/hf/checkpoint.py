"""Checkpoints of the transformers library: download, configuration, network, tokenizer.

Every file is fetched before anything is built, so that all that can go wrong with the network goes
wrong in one place, and what is loaded afterwards is the content that the fingerprint is of.
"""

from __future__ import annotations

import logging as levels
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from contrapose.errors import InputError, MissingExtraError
from contrapose.models.names import fingerprint
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Context manager that silences progress bars and logs of transformers."""
    from transformers.utils import logging as library

    logging: Any = library
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity(levels.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


_HUB_TEXTS = ["*.json", "*.txt", "*.model", "*.jinja"]
_HUB_IGNORED = ["*/*.safetensors", "*/*.bin", "onnx/*", "openvino/*", "*.fp16.*", "*.bf16.*"]
"""Weights of other programs, or the same ones again in another dtype."""
_HUB_WEIGHTS = ("*model*.safetensors", "pytorch_model*.bin")
OPEN_CLIP_WEIGHTS = ("open_clip*.safetensors", "open_clip*.bin")


def fetch(
    source: str, revision: str | None, name: str, *, code: bool = False
) -> tuple[Path, str | None]:
    """Folder that holds a model, and its commit if it is from the hub.

    Args:
        source: a folder, or an id `org/name` on the hub.
        revision: a branch, tag or commit of the hub.
        name: what to call it in errors.
        code: fetch Python files as well.

    Raises:
        InputError: it is absent, gated or out of reach.
    """
    folder = Path(source).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise InputError(f"{name} is a folder: it has no revision {revision!r}.")
        return folder, None
    code_too = ["*.py"] if code else []
    for pattern in (*_HUB_WEIGHTS, *OPEN_CLIP_WEIGHTS):
        others = [] if pattern in OPEN_CLIP_WEIGHTS else list(OPEN_CLIP_WEIGHTS)
        snapshot = download(source, revision, name, [*_HUB_TEXTS, *code_too, pattern], others)
        if any(
            pattern in OPEN_CLIP_WEIGHTS or _is_transformers_file(file)
            for file in snapshot.glob(pattern)
        ):
            break
    return snapshot, snapshot.name


def _is_transformers_file(file: Path) -> bool:
    return not file.name.startswith("open_clip")


def download(
    source: str, revision: str | None, name: str, patterns: list[str], others: list[str]
) -> Path:
    """Download the matching files of a hub repository and return the snapshot folder.

    Args:
        source: an id `org/name`.
        revision: a branch, tag or commit.
        name: what to call it in errors.
        patterns: of the files to fetch.
        others: patterns of files to leave out.

    Raises:
        InputError: it is absent, gated or out of reach.
    """
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(
            snapshot_download(
                source,
                revision=revision,
                allow_patterns=patterns,
                ignore_patterns=[*_HUB_IGNORED, *others],
            )
        )
    except errors.GatedRepoError:
        page = f"https://huggingface.co/{source}"
        raise InputError(
            f"{name} is gated: accept its licence at {page} and set HF_TOKEN to a token of yours."
        ) from None
    except errors.RevisionNotFoundError:
        raise InputError(f"{source} has no revision {revision!r} on the hub.") from None
    except errors.RepositoryNotFoundError:
        raise InputError(
            f"there is no model {source!r} on the hub and no such folder here; for a private one "
            "set HF_TOKEN."
        ) from None
    except errors.HFValidationError:
        raise InputError(
            f"there is no folder {source!r}, and an id on the hub looks like org/name."
        ) from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        raise InputError(
            f"{name} is not on this machine and the hub cannot be reached: fetch it where there is "
            "a network, and give its folder here."
        ) from None
    except (errors.HfHubHTTPError, OSError) as error:
        first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
        raise InputError(f"{name} cannot be fetched from the hub ({first}).") from None


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
_RECOMPUTED_BUFFERS = ("position_ids", "inv_freq")
"""Ends of the names of buffers that no file needs to hold."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint of the transformers library: location, load options, configuration.

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
        """Load the network in the chosen dtype and device, frozen, in evaluation mode.

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
            with silence_transformers():
                network, found = library.from_pretrained(self.source, **arguments)
        except Exception as error:  # the library raises almost anything on damaged files
            raise InputError(
                f"the weights of {self.name} cannot be loaded as {kind.__name__} "
                f"({_first_line(error)}); fetch or save them again."
            ) from None
        missing = sorted(
            name
            for name in found["missing_keys"]
            if not name.endswith(_RECOMPUTED_BUFFERS) and not name.startswith(unneeded)
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
        """Load the library's image processor, Pillow backend."""
        from transformers import AutoImageProcessor

        return self._part(AutoImageProcessor, "image preprocessing", backend="pil")

    def tokenizer(self) -> Any:
        """Load the library's tokenizer."""
        from transformers import AutoTokenizer

        if not list_files(Path(self.source), _VOCABULARIES):
            raise InputError(f"{self.name} has no tokeniser: it holds no vocabulary file.")
        return self._part(AutoTokenizer, "tokeniser")

    def _part(self, kind: Any, what: str, **arguments: Any) -> Any:
        try:
            with silence_transformers():
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
    """Open a checkpoint of a folder or hub id: files are fetched, no network is built.

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
    weights = [
        file for file in list_files(folder, _WEIGHTS) if not file.name.startswith("open_clip")
    ]
    if any(file.suffix == ".safetensors" for file in weights):
        weights = [file for file in weights if file.suffix == ".safetensors"]
    if not weights:
        raise InputError(f"{name} holds no weights (no model.safetensors in {folder}).")
    try:
        with silence_transformers():
            config = AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=options.trust_remote_code
            )
    except Exception as error:
        raise InputError(
            f"the configuration of {name} cannot be read ({_first_line(error)})."
        ) from None
    known = fingerprint(
        {*weights, *list_files(folder, (*_TEXTS, *_VOCABULARIES, "merges.txt"))},
        adapters=ADAPTERS,
        dtype=options.dtype,
        cut=options.cut,
    )
    return Checkpoint(name, str(folder), commit, options, config, known)


def list_files(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Sorted files of a folder, not its subfolders, that match the patterns."""
    return sorted({file for pattern in patterns for file in folder.glob(pattern)})


def _first_line(error: Exception) -> str:
    text = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
    return text or type(error).__name__
