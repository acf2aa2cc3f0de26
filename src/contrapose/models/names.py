"""Model identity: parsing of model strings into canonical names, and content fingerprints.

| typed | canonical | kind |
|---|---|---|
| `tiny`, a plug-in's name | the same | a registered model |
| `hf:org/name@revision`, `org/name`, `hf-hub:org/name` | `hf:org/name@revision` | on the hub |
| `openclip:ViT-B-32/TAG`, `ViT-B-32,TAG` | `openclip:ViT-B-32/TAG` | open_clip, by its own tag |
| `ViT-B/32` and OpenAI's other names | `openclip:ViT-B-32/openai` | open_clip |
| `openclip:ViT-B-32/path/to/weights.pth` | the same | open_clip, from a file |
| `openclip:hf-hub:org/name` | the same | open_clip, from the hub |
| `joined:folder` | the same | two encoders and trained heads |
| `lm:smollm2`, `lm:org/name@revision`, `lm:folder`, `lm:file.gguf` | the same | a language model |
| `st:org/name@revision`, `st:folder` | the same | a model of sentence-transformers |
| `openai:MODEL,url=http://host:port/v1` | the same | a chat endpoint |
| `vllm:MODEL,url=…`, `sglang:MODEL,url=…` | the same | a model that vLLM or SGLang serves |
| `my_pkg:MyModel`, `my_file.py:MyModel` | the same | your class or function |
| `path/to/folder`, `hf:./folder`, `hf:/folder` | the path | the model in the folder |

Any of them may end with settings, `,dtype=bf16,long=cut`; `?dtype=bf16&long=cut` means the same,
and has to be quoted in a shell. Settings with their default value are left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from contrapose.errors import InputError
from contrapose.files import did_you_mean, local_path, require_regular, restore_folder
from contrapose.models.options import find_server_kind, join_settings, parse_dtype


def file_digest(file: Path) -> str:
    """SHA-256 of a file's content, also behind a link: the name of a link's target proves nothing.

    A process reads a file once, until it changes.
    """
    require_regular(file)
    path = local_path(file).resolve()
    state = path.stat()
    return _content_digest(path, state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=1024)
def _content_digest(path: Path, inode: int, size: int, changed: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fingerprint(files: Iterable[Path], **facts: object) -> str:
    """Hash of files, by name and content, and of facts such as the dtype.

    Folders do not count: a copy has the same fingerprint.
    """
    digest = hashlib.blake2b(digest_size=12)
    for file in sorted(files, key=lambda file: file.name):
        digest.update(f"{file.name}\0{file_digest(file)}\0".encode())
    for name in sorted(facts):
        digest.update(f"{name}={facts[name]}\0".encode())
    return digest.hexdigest()


DEFAULT_LANGUAGE_MODEL = "lm:smollm2"
"""A small language model that installs from a package."""

Scheme = Literal[
    "registered",
    "hf",
    "openclip",
    "joined",
    "lm",
    "st",
    "openai",
    "vllm",
    "sglang",
    "python",
    "folder",
]

SETTINGS: Mapping[str, tuple[str, ...]] = {
    "dtype": ("fp32", "bf16", "fp16"),
    "long": ("refuse", "cut"),
    "activation": ("gelu", "quickgelu"),
    "video": ("own", "images", "frames"),
}
"""Settings behind a model's name, with their values."""
_PREFIXES = {
    "hf": "hf",
    "hf-hub": "hf",
    "hf_hub": "hf",
    "openclip": "openclip",
    "open_clip": "openclip",
    "open-clip": "openclip",
    "joined": "joined",
    "lm": "lm",
    "st": "st",
    "local-dir": "folder",
}
_PREFIXED_SCHEMES = ("hf", "openclip", "joined", "lm", "st", "openai", "vllm", "sglang")
_OPENAI_NAME = re.compile(r"RN50|RN101|RN50x4|RN50x16|RN50x64|ViT-B/32|ViT-B/16|ViT-L/14(@336px)?")
_ARCHITECTURE = re.compile(r"ViT-|RN\d|EVA0|convnext_|coca_|PE-Core|MobileCLIP")
_WITH_SETTINGS = re.compile(
    r"(?P<body>.*)\?(?P<query>[^?/]*=[^?/]*)|(?P<name>.*?)(?P<list>(?:,\w+=[^,?/=]*)+)", re.DOTALL
)
_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_PYTHON = re.compile(r"(?:[A-Za-z_][\w.]*|.+\.py):[A-Za-z_]\w*")
_MODEL_TAG = re.compile(r"[\w.-]+,[\w./~-]+")


@dataclass(frozen=True, slots=True)
class ModelName:
    """A parsed model string.

    Attributes:
        scheme: source of the model.
        body: its name in that source.
        revision: a branch, tag or commit on the hub.
        settings: settings that differ from the default.
    """

    scheme: Scheme
    body: str
    revision: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        prefix = f"{self.scheme}:" if self.scheme in _PREFIXED_SCHEMES else ""
        revision = f"@{self.revision}" if self.revision else ""
        return f"{prefix}{self.body}{revision}{join_settings(self.settings)}"

    def without_settings(self) -> str:
        """The canonical string without its settings."""
        return str(replace(self, settings={}))


def is_folder(name: str) -> bool:
    """Whether a path is a folder; an interrupted replacement of it is undone first."""
    try:
        path = Path(name).expanduser()
        restore_folder(path)
        return path.is_dir()
    except (OSError, ValueError, RuntimeError):  # no path at all: too long, `~` of nobody
        return False


def parse_name(
    text: str,
    known: Collection[str] = (),
    *,
    is_folder: Callable[[str], bool] = is_folder,
) -> ModelName:
    """Parse a model string.

    Args:
        text: the user's string.
        known: names of registered models.
        is_folder: whether a path is a folder.

    Raises:
        InputError: it is no model string; the message suggests similar ones.
    """
    text = text.strip()
    if not text:
        raise InputError("a model's name is empty.")
    if is_folder(text) and text not in known:
        return ModelName("folder", text)
    if kind := find_server_kind(text):  # an endpoint has other settings
        from contrapose.models.endpoint.settings import parse_settings

        endpoint = parse_settings(text)
        return ModelName(kind, endpoint.model, settings=endpoint.name_settings())
    body, settings = split_settings(text)
    return replace(_parse_body(body, known, is_folder), settings=_parse_options(settings, text))


def split_settings(text: str) -> tuple[str, list[str]]:
    """Split a model string into its name and its settings, `KEY=VALUE`.

    A comma that no `KEY=` follows belongs to the name, as in `ViT-B-32,openai`.
    """
    match = _WITH_SETTINGS.fullmatch(text)
    if match is None:
        return text, []
    if match["query"] is not None:
        return match["body"], match["query"].split("&")
    return match["name"], match["list"].removeprefix(",").split(",")


def split_models(text: str) -> list[str]:
    """Split model strings that are separated by commas; commas before settings separate none."""
    return [name for part in re.split(r",(?!\w+=)", text) if (name := part.strip())]


def _parse_body(text: str, known: Collection[str], is_folder: Callable[[str], bool]) -> ModelName:
    prefix, colon, rest = text.partition(":")
    if text in known:
        return ModelName("registered", text)
    if colon and prefix in _PREFIXES:
        return _parse_prefixed(_PREFIXES[prefix], rest, text, is_folder)
    if name := _parse_open_clip(text):
        return name
    if _PYTHON.fullmatch(text) and not text.startswith("http"):
        return ModelName("python", text)
    if is_folder(text):
        return ModelName("folder", text)
    hub_id, _, revision = text.partition("@")
    if _HUB.fullmatch(hub_id) and not text.startswith("."):
        return ModelName("hf", hub_id, revision or None)
    raise _unknown_model(text, known)


def _parse_open_clip(text: str) -> ModelName | None:
    """Parse the names that users of open_clip or of OpenAI's package type."""
    if _OPENAI_NAME.fullmatch(text):
        return ModelName("openclip", f"{text.replace('/', '-').replace('@336px', '-336')}/openai")
    if _MODEL_TAG.fullmatch(text):
        model, _, tag = text.partition(",")
        return ModelName("openclip", f"{model}/{tag}")
    return None


def _unknown_model(text: str, known: Collection[str]) -> InputError:
    if "/" in text or text.startswith((".", "~")):
        return InputError(f"there is no folder {text!r}.")
    if _ARCHITECTURE.match(text):
        return InputError(
            f"{text!r} names no weights: write openclip:{text}/TAG, TAG being its own."
        )
    near = did_you_mean(text, known, otherwise=f"models here: {', '.join(sorted(known))}.")
    return InputError(f"there is no model {text!r}: {near}")


def _parse_prefixed(
    scheme: str, rest: str, text: str, is_folder: Callable[[str], bool]
) -> ModelName:
    if not rest:
        raise InputError(f"the model {text!r} lacks what comes after the colon.")
    if scheme in ("hf", "st"):
        if is_folder(rest):
            return ModelName("folder" if scheme == "hf" else "st", rest)
        if rest.startswith(("/", ".", "~")):
            raise InputError(f"there is no folder {rest!r}.")
        name, _, revision = rest.partition("@")
        if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
            raise InputError(
                f"{text!r} is no model of the hub: they are written {scheme}:org/name."
            )
        return ModelName("hf" if scheme == "hf" else "st", name, revision or None)
    if scheme == "openclip":
        model, slash, weights = rest.replace(",", "/", 1).partition("/")
        if not (model and slash and weights):
            raise InputError(f"{text!r} names no weights: write openclip:ViT-B-32/openai.")
        return ModelName("openclip", f"{model}/{weights}")
    if scheme == "lm":
        return _parse_language(rest, text, is_folder)
    return ModelName("joined" if scheme == "joined" else "folder", rest)


def _parse_language(rest: str, text: str, is_folder: Callable[[str], bool]) -> ModelName:
    """Parse the name of a language model: built-in, folder, file, or hub id."""
    if rest == "smollm2" or rest.endswith(".gguf") or is_folder(rest):
        return ModelName("lm", rest)
    if rest.startswith(("/", ".", "~")):
        raise InputError(f"there is no folder {rest!r}.")
    name, _, revision = rest.partition("@")
    if not _HUB.fullmatch(name):
        near = did_you_mean(rest, ("smollm2",), otherwise="write lm:smollm2 or lm:org/name.")
        raise InputError(f"there is no language model {text!r}: {near}")
    return ModelName("lm", name, revision or None)


def _parse_options(parts: Iterable[str], model: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key not in SETTINGS:
            raise InputError(
                f"the model {model!r} has an unknown setting {key!r}: {did_you_mean(key, SETTINGS)}"
            )
        value = parse_dtype(value) if key == "dtype" else value.lower()
        if value not in SETTINGS[key]:
            near = did_you_mean(value, SETTINGS[key])
            raise InputError(f"the model {model!r} has {key}={value}: {near}")
        if key in settings:
            raise InputError(f"the model {model!r} says {key} twice.")
        settings[key] = value
    return settings
