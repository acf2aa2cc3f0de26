"""Models of the transformers library: one module a family, found by the model's own type."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from contrapose.errors import InputError, MissingExtraError
from contrapose.models.capabilities import Model
from contrapose.models.options import LoadOptions

FAMILIES: dict[str, str] = {
    "clip": "clip",
    "siglip": "siglip",
    "siglip2": "siglip2",
    "align": "align",
    "altclip": "altclip",
    "blip": "blip",
    "blip-2": "blip2",
    "git": "git",
    "flava": "flava",
    "vilt": "vilt",
    "bridgetower": "bridgetower",
}
"""The `model_type` of a configuration → module here whose `load(checkpoint)` gives the model;
`vlm` takes every other image-text-to-text model."""


def load(source: str, revision: str | None, name: str, options: LoadOptions) -> Model:
    """A model from a folder or from the hub.

    Raises:
        InputError: it cannot be had, or is of a family that is not known here.
        MissingExtraError: transformers or torch is not installed.
    """
    require_torch(name)
    from contrapose.models.hf import vlm
    from contrapose.models.hf.checkpoint import open_checkpoint
    from contrapose.models.hf.hub import fetch

    try:
        fetched = fetch(source, revision, name, code=options.trust_remote_code)
    except ImportError:
        raise MissingExtraError("transformers", "hf", f"The model {name}") from None
    if _open_clip_alone(fetched[0]):
        from contrapose.models import openclip

        return openclip.load_folder(fetched[0], name, options)
    checkpoint = open_checkpoint(source, revision, name, options, fetched=fetched)
    kind = str(checkpoint.config.model_type)
    family = FAMILIES.get(kind) or ("vlm" if vlm.is_one(kind) else None)
    if family is None:
        raise InputError(
            f"{name} is a model of type {kind!r}, which is not known here; known are "
            f"{', '.join(sorted(FAMILIES))} and all image-text-to-text models: see "
            "docs/plug-ins.md on adding one."
        )
    model: Model = import_module(f"contrapose.models.hf.{family}").load(checkpoint)
    return model


def require_torch(name: str) -> None:
    """Raise `MissingExtraError` where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("torch", "hf", f"The model {name}") from None


def _open_clip_alone(folder: Path) -> bool:
    """Whether a folder holds a model of open_clip and none of transformers."""
    if not (folder / "open_clip_config.json").is_file():
        return False
    config = folder / "config.json"
    return not config.is_file() or '"model_type"' not in config.read_text(encoding="utf-8")
