"""Checkpoints of the transformers library: download, configuration, network, tokenizer.

All files are downloaded before anything is built: connection errors arise in one place, and the
fingerprint is of the content that is loaded.
"""

from __future__ import annotations

import logging as levels
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zipfile import is_zipfile

from contrapose.errors import InputError, MissingExtraError, first_line
from contrapose.files import require_regular
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
"""Weights for other programs, or the same weights in another dtype."""
_HUB_WEIGHTS = ("*model*.safetensors", "pytorch_model*.bin")
OPEN_CLIP_WEIGHTS = ("open_clip*.safetensors", "open_clip*.bin")


def fetch(
    source: str, revision: str | None, name: str, *, code: bool = False
) -> tuple[Path, str | None]:
    """Folder that holds a model, and its commit if it is from the hub.

    Args:
        source: a folder, or an id `org/name` on the hub.
        revision: a branch, tag or commit of the hub.
        name: of the model, for errors.
        code: download Python files as well.

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
            pattern in OPEN_CLIP_WEIGHTS or not file.name.startswith("open_clip")
            for file in snapshot.glob(pattern)
        ):
            break
    return snapshot, snapshot.name


def download(
    source: str,
    revision: str | None,
    name: str,
    patterns: list[str],
    others: list[str],
    *,
    folders: bool = False,
) -> Path:
    """Download the matching files of a hub repository and return the snapshot folder.

    Args:
        source: an id `org/name`.
        revision: a branch, tag or commit.
        name: of the model, for errors.
        patterns: of the files to download.
        others: patterns of files to ignore.
        folders: download weights in subfolders too.

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
                ignore_patterns=[*(() if folders else _HUB_IGNORED), *others],
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
        raise InputError(f"{name} cannot be fetched from the hub ({first_line(error)}).") from None


M = TypeVar("M", bound="PreTrainedModel")

ADAPTERS = 1
"""Version in the fingerprint: raised when the adapters change the numbers of the same weights."""
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "*.model", "sentencepiece*")
_TEXTS = (
    "config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
    "*token*.json",
    "chat_template*",
)
_RECOMPUTED_BUFFERS = ("position_ids", "inv_freq")
"""Suffixes of buffers that need not be in a weight file."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint of the transformers library: location, load options, configuration.

    Attributes:
        name: the canonical model string, shown to users.
        source: its folder, as `from_pretrained` takes it.
        revision: the commit on the hub; None for a local folder.
        options: load options.
        config: the library's configuration.
        fingerprint: hash of weights, configuration, tokenizer, preprocessing, dtype and cut.
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
            kind: the library's class; the files must hold all its weights.
            unneeded: name prefixes of weights that are not used and may be missing.
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
                network, loading = library.from_pretrained(self.source, **arguments)
        except Exception as error:  # the library raises almost anything on damaged files
            raise InputError(
                f"the weights of {self.name} cannot be loaded as {kind.__name__} "
                f"({first_line(error)}); fetch or save them again."
            ) from None
        missing = sorted(
            name
            for name in loading["missing_keys"]
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

        return self._load_part(AutoImageProcessor, "image preprocessing", backend="pil")

    def video_processor(self) -> Any:
        """Load the library's video processor, which needs torchvision."""
        from transformers import AutoVideoProcessor

        return self._load_part(AutoVideoProcessor, "video preprocessing")

    def tokenizer(self) -> Any:
        """Load the library's tokenizer."""
        from transformers import AutoTokenizer

        require_vocabulary(Path(self.source).iterdir(), self.name)
        return self._load_part(AutoTokenizer, "tokeniser")

    def _load_part(self, kind: Any, what: str, **arguments: Any) -> Any:
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
                f"the {what} of {self.name} cannot be loaded ({first_line(error)})."
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
        options: load options.
        fetched: the folder and its commit, if it is downloaded already.

    Raises:
        InputError: it is absent, gated, out of reach or damaged.
        MissingExtraError: transformers is not installed.
    """
    _require_transformers(name)
    folder, commit = fetched or fetch(source, revision, name, code=options.trust_remote_code)
    weights = [
        file for file in list_files(folder, _WEIGHTS) if not file.name.startswith("open_clip")
    ]
    if any(file.suffix == ".safetensors" for file in weights):
        weights = [file for file in weights if file.suffix == ".safetensors"]
    if not weights:
        raise InputError(f"{name} holds no weights (no model.safetensors in {folder}).")
    config = _read_config(folder, name, options)
    known = fingerprint(
        {*weights, *list_files(folder, (*_TEXTS, *_VOCABULARIES, "merges.txt"))},
        adapters=ADAPTERS,
        dtype=options.dtype,
        cut=options.cut,
    )
    return Checkpoint(name, str(folder), commit, options, config, known)


def open_processor(source: str, name: str) -> Checkpoint:
    """Open tokenizer, chat template and image preprocessing of a model that runs elsewhere.

    Args:
        source: a folder, or an id `org/name`, with `@REVISION`, on the hub; no weights are fetched.
        name: the canonical model string.

    Raises:
        InputError: it is absent, gated, out of reach or damaged.
        MissingExtraError: transformers is not installed.
    """
    _require_transformers(name)
    folder = Path(source).expanduser()
    commit = None
    if not folder.is_dir():
        hub_id, _, revision = source.partition("@")
        folder = download(hub_id, revision or None, name, _HUB_TEXTS, [])
        commit = folder.name
    options = LoadOptions()
    config = _read_config(folder, name, options)
    files = list_files(folder, (*_TEXTS, *_VOCABULARIES, "merges.txt"))
    return Checkpoint(name, str(folder), commit, options, config, fingerprint(files))


def _require_transformers(name: str) -> None:
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise MissingExtraError("transformers", "hf", f"The model {name}") from None


def _read_config(folder: Path, name: str, options: LoadOptions) -> Any:
    from transformers import AutoConfig

    try:
        with silence_transformers():
            return AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=options.trust_remote_code
            )
    except Exception as error:
        raise InputError(
            f"the configuration of {name} cannot be read ({first_line(error)})."
        ) from None


def list_files(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Sorted files of a folder, not its subfolders, that match the patterns."""
    return sorted({file for pattern in patterns for file in folder.glob(pattern)})


def require_vocabulary(files: Iterable[Path], name: str) -> None:
    """Refuse a model without a vocabulary: transformers would make an empty tokenizer for it.

    Raises:
        InputError: no file is a vocabulary.
    """
    if not any(file.match(pattern) for file in files for pattern in _VOCABULARIES):
        raise InputError(f"{name} has no tokeniser: it holds no vocabulary file.")


def refuse_architectures(checkpoint: Checkpoint, unsupported: Mapping[str, str]) -> None:
    """Refuse a checkpoint saved as another, unsupported class of its family.

    Args:
        checkpoint: the checkpoint.
        unsupported: class name → description of such a model.

    Raises:
        InputError: it is one of those.
    """
    for kind in checkpoint.config.architectures or ():
        if kind in unsupported:
            raise InputError(
                f"{checkpoint.name} is {unsupported[kind]} ({kind}): it has no image-text matching "
                "or contrastive head, nor another that a score is read from here."
            )


def has_weights(checkpoint: Checkpoint, prefix: str) -> bool:
    """Whether the weight files of a checkpoint have names with the given prefix.

    Raises:
        InputError: they cannot be read.
    """
    try:
        names = _list_weight_names(Path(checkpoint.source))
    except Exception as error:  # the libraries raise almost anything on damaged files
        raise InputError(
            f"the weights of {checkpoint.name} cannot be read ({first_line(error)}); fetch or save "
            "them again."
        ) from None
    return any(name.startswith(prefix) for name in names)


def _list_weight_names(folder: Path) -> set[str]:
    import torch
    from safetensors import safe_open

    names: set[str] = set()
    for file in folder.glob("*.safetensors"):
        require_regular(file)
        with safe_open(file, framework="pt") as stream:
            names.update(stream.keys())
    if not names:
        for file in folder.glob("pytorch_model*.bin"):
            names |= {*torch.load(file, "cpu", weights_only=True, mmap=is_zipfile(file))}
    return names
