"""Models of open_clip: by tag, from the hub, from a folder, or from a weight file.

OpenAI's models, and all that were tuned from them, were trained with QuickGELU. Their weights fit
a network with GELU just as well, and give worse numbers without a word; so the activation is
always known here before weights are loaded: from the tag, from the configuration beside the
weights, or from the user.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrapose.errors import InputError, MissingExtraError
from contrapose.files import did_you_mean
from contrapose.models.names import fingerprint
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from contrapose.models.openclip.model import OpenClip

ADAPTER = 1
"""Raised when this adapter begins to give other numbers for the same weights."""
QUICKGELU_SUFFIX = "-quickgelu"
_WEIGHT_FILES = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "model.safetensors",
    "pytorch_model.bin",
)


def load(body: str, name: str, options: LoadOptions, activation: str | None) -> OpenClip:
    """Load an open_clip model.

    Args:
        body: `MODEL/TAG`, `MODEL/path/to/weights` or `hf-hub:org/name`.
        name: the canonical model string.
        options: how it is to be loaded.
        activation: `gelu` or `quickgelu`, where the user says so.

    Raises:
        InputError: there is no such model, or its activation is not known.
        MissingExtraError: open_clip is not installed.
    """
    library = _import_open_clip(name)
    if body.startswith("hf-hub:"):
        _refuse_activation(name, activation)
        return load_folder(_fetch_repository(body.removeprefix("hf-hub:"), name), name, options)
    model, _, weights = body.partition("/")
    if model not in library.list_models():
        near = did_you_mean(model, library.list_models(), otherwise="see open_clip.list_models().")
        raise InputError(f"open_clip has no model {model!r}: {near}")
    tag = library.get_pretrained_cfg(model, weights)
    if tag:
        _refuse_activation(name, activation)
        file = _download_tag(library, tag, name)
        quick = bool(tag.get("quick_gelu", False))
    else:
        file = _find_weight_file(weights, model, library)
        quick = _is_quick_gelu(library.get_model_config(model), model, activation, file)
    plain = model.removesuffix(QUICKGELU_SUFFIX)
    model = plain if plain in library.list_models() else model
    network = _create_network(library, model, name, options, file=file, quick=quick)
    known = _compute_fingerprint([file], library.get_model_config(model), quick, network, options)
    return _wrap_network(
        name, known, network, _load_tokenizer(library, model, name), options, quick
    )


def load_folder(folder: Path, name: str, options: LoadOptions) -> OpenClip:
    """Load an open_clip model from a folder with an `open_clip_config.json`.

    Raises:
        InputError: the folder lacks something, or is damaged.
        MissingExtraError: open_clip is not installed.
    """
    library = _import_open_clip(name)
    try:
        config = json.loads((folder / "open_clip_config.json").read_text(encoding="utf-8"))
        model = dict(config["model_cfg"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"holds no usable open_clip_config.json ({error}).", file=folder) from None
    found = [folder / each for each in _WEIGHT_FILES if (folder / each).is_file()]
    if not found:
        raise InputError("holds no weights (no open_clip_model.safetensors).", file=folder)
    quick = bool(model.get("quick_gelu", False))
    network = _create_network(library, f"local-dir:{folder}", name, options, file=None, quick=quick)
    tokenizer = _load_tokenizer(library, f"local-dir:{folder}", name)
    known = _compute_fingerprint(
        [found[0], *folder.glob("*token*.json"), *folder.glob("vocab*")],
        model,
        quick,
        network,
        options,
    )
    return _wrap_network(name, known, network, tokenizer, options, quick)


def _wrap_network(
    name: str, known: str, network: Any, tokenizer: Any, options: LoadOptions, quick: bool
) -> OpenClip:
    from contrapose.models.openclip.model import OpenClip

    return OpenClip(name, known, network, tokenizer, options, quick=quick)


def _import_open_clip(name: str) -> Any:
    try:
        import open_clip
    except ImportError as error:
        missing = "open_clip_torch" if error.name in (None, "open_clip") else str(error.name)
        raise MissingExtraError(missing, "openclip", f"The model {name}") from None
    return open_clip


def _refuse_activation(name: str, activation: str | None) -> None:
    if activation is not None:
        raise InputError(f"{name}: its activation is known; leave out activation={activation}.")


def _is_quick_gelu(config: Any, model: str, activation: str | None, file: Path) -> bool:
    """Whether a weight file, which cannot state it, belongs to a network with QuickGELU."""
    stated = bool(config.get("quick_gelu", False))
    if stated and activation == "gelu":
        raise InputError(f"{model} has QuickGELU: leave out activation=gelu.")
    if stated or activation is not None:
        return stated or activation == "quickgelu"
    if "timm_model_name" in config["vision_cfg"]:
        return False  # such towers have an activation of their own
    raise InputError(
        f"{file.name} does not say which activation it was trained with: add "
        "?activation=quickgelu for OpenAI's weights and all that were tuned from them (NegCLIP), "
        "?activation=gelu for LAION's."
    )


def _find_weight_file(weights: str, model: str, library: Any) -> Path:
    file = Path(weights).expanduser()
    if file.is_file():
        return file
    if "/" in weights or file.suffix in (".pt", ".pth", ".bin", ".safetensors"):
        raise InputError("there is no such file of weights.", file=weights)
    tags = library.list_pretrained_tags_by_model(model)
    near = did_you_mean(weights, tags, otherwise=f"there are {', '.join(tags) or 'none'}.")
    raise InputError(f"open_clip has no weights {weights!r} for {model}: {near}")


def _download_tag(library: Any, tag: Any, name: str) -> Path:
    try:
        return Path(library.download_pretrained(tag))
    except Exception as error:
        first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
        raise InputError(
            f"the weights of {name} cannot be fetched ({first}): fetch them where there is a "
            "network, and name the file here instead of the tag."
        ) from None


def _fetch_repository(source: str, name: str) -> Path:
    from contrapose.models.hf.checkpoint import OPEN_CLIP_WEIGHTS, download

    texts = ["*.json", "*.txt", "*.model"]
    for pattern in OPEN_CLIP_WEIGHTS:
        folder = download(source, None, name, [*texts, pattern], [])
        if any(folder.glob(pattern)):
            break
    return folder


def _create_network(
    library: Any, model: str, name: str, options: LoadOptions, *, file: Path | None, quick: bool
) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="QuickGELU mismatch")
            network = library.create_model(
                model,
                pretrained=None if file is None else str(file),
                precision=options.dtype,
                device=options.device,
                force_quick_gelu=quick,
                weights_only=True,
                require_pretrained=True,
            )
    except Exception as error:  # the library raises almost anything on damaged files
        first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
        raise InputError(f"the weights of {name} cannot be loaded ({first}).") from None
    return network.eval().requires_grad_(False)


def _load_tokenizer(library: Any, model: str, name: str) -> Any:
    try:
        return library.get_tokenizer(model)
    except Exception as error:
        first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
        raise InputError(f"the tokeniser of {name} cannot be loaded ({first}).") from None


def _compute_fingerprint(
    files: list[Path], config: Any, quick: bool, network: Any, options: LoadOptions
) -> str:
    return fingerprint(
        files,
        adapter=ADAPTER,
        model=json.dumps({**config, "quick_gelu": quick}, sort_keys=True),
        preprocessing=json.dumps(network.visual.preprocess_cfg, sort_keys=True),
        dtype=options.dtype,
        cut=options.cut,
    )
