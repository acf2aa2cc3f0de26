"""Fetching the files of a model from the hub, once, or finding them in a folder."""

from __future__ import annotations

from pathlib import Path

from contrapose.errors import InputError

_TEXTS = ["*.json", "*.txt", "*.model", "*.jinja"]
_OTHERS = ["*/*.safetensors", "*/*.bin", "onnx/*", "openvino/*", "*.fp16.*", "*.bf16.*"]
"""Weights of other programs, or the same ones again in another dtype."""
_WEIGHTS = ("*model*.safetensors", "pytorch_model*.bin")
OPEN_CLIP = ("open_clip*.safetensors", "open_clip*.bin")


def fetch(
    source: str, revision: str | None, name: str, *, code: bool = False
) -> tuple[Path, str | None]:
    """The folder that holds a model, and its commit where it is from the hub.

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
    for pattern in (*_WEIGHTS, *OPEN_CLIP):
        others = [] if pattern in OPEN_CLIP else list(OPEN_CLIP)
        snapshot = download(source, revision, name, [*_TEXTS, *code_too, pattern], others)
        if any(pattern in OPEN_CLIP or _usual(file) for file in snapshot.glob(pattern)):
            break
    return snapshot, snapshot.name


def _usual(file: Path) -> bool:
    return not file.name.startswith("open_clip")


def download(
    source: str, revision: str | None, name: str, patterns: list[str], others: list[str]
) -> Path:
    """The snapshot of a repository of the hub with files of these names, fetched where needed.

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
                ignore_patterns=[*_OTHERS, *others],
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
