"""Models of the transformers library, dispatched to a family by `model_type`."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from contrapose.errors import InputError, MissingExtraError, first_line
from contrapose.models.capabilities import Model
from contrapose.models.options import LoadOptions

FAMILIES: dict[str, str] = {
    "clip": "dual.load_clip",
    "siglip": "dual.load_siglip",
    "siglip2": "dual.load_siglip2",
    "align": "dual.load_align",
    "altclip": "dual.load_altclip",
    "blip": "blip.load_blip",
    "blip-2": "blip2.load_blip2",
    "git": "git.load_git",
    "xclip": "xclip.load_xclip",
    "videoprism": "videoprism.load_videoprism",
    "flava": "flava.load_flava",
    "vilt": "vilt.load_vilt",
    "bridgetower": "bridgetower.load_bridgetower",
}
"""Loader of each `model_type`, as module and function of this package; `vlm.load_vlm` loads every
other image-text-to-text model."""


def load(source: str, revision: str | None, name: str, options: LoadOptions) -> Model:
    """Load a model from a folder or from the hub.

    Raises:
        InputError: it cannot be loaded, or its family is unknown.
        MissingExtraError: transformers or torch is not installed.
    """
    require_torch(name)
    check_torchvision(name)
    from contrapose.models.hf import vlm
    from contrapose.models.hf.checkpoint import fetch, open_checkpoint

    try:
        fetched = fetch(source, revision, name, code=options.trust_remote_code)
    except ImportError:
        raise MissingExtraError("transformers", "hf", f"The model {name}") from None
    if _is_open_clip_only(fetched[0]):
        from contrapose.models import openclip

        return openclip.load_folder(fetched[0], name, options)
    checkpoint = open_checkpoint(source, revision, name, options, fetched=fetched)
    kind = str(checkpoint.config.model_type)
    family = FAMILIES.get(kind) or ("vlm.load_vlm" if vlm.is_vlm(kind) else None)
    if family is None:
        raise InputError(
            f"{name} is a model of type {kind!r}, which is not known here; known are "
            f"{', '.join(sorted(FAMILIES))} and all image-text-to-text models: see "
            "docs/plug-ins.md on adding one."
        )
    module, _, loader = family.rpartition(".")
    model: Model = getattr(import_module(f"contrapose.models.hf.{module}"), loader)(checkpoint)
    return model


def require_torch(name: str) -> None:
    """Raise `MissingExtraError` where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("torch", "hf", f"The model {name}") from None


def check_torchvision(name: str) -> None:
    """Raise `InputError` where a torchvision is installed that does not fit torch.

    transformers, open_clip and timm import torchvision wherever it is installed, and fail with it.
    """
    if "torchvision" in sys.modules or find_spec("torchvision") is None:
        return
    try:
        import_module("torchvision")
    except (ImportError, OSError, RuntimeError) as error:
        raise InputError(
            f"{name} cannot be loaded: torchvision {version('torchvision')} does not fit torch "
            f"{version('torch')} ({first_line(error)}); uninstall torchvision, or install the one "
            "that was built with this torch, from where torch came."
        ) from None


def _is_open_clip_only(folder: Path) -> bool:
    """Whether a folder holds an open_clip model and no transformers model."""
    if not (folder / "open_clip_config.json").is_file():
        return False
    config = folder / "config.json"
    return not config.is_file() or '"model_type"' not in config.read_text(encoding="utf-8")
