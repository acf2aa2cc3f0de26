"""Joined encoders: any image encoder and any sentence encoder with trained heads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from contrapose.errors import MissingExtraError
from contrapose.models.joined.spec import (
    SPEC,
    JoinedSpec,
    Side,
    read_joined,
    read_joined_spec,
    save_joined,
)
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from contrapose.models.joined.model import JoinedEncoder

__all__ = [
    "JoinedSpec",
    "Side",
    "load",
    "read_joined",
    "save_joined",
]


def load(folder: Path, name: str, options: LoadOptions) -> JoinedEncoder:
    """Load joined encoders from a folder with a `joined.json`.

    Raises:
        InputError: the folder, its heads or an encoder cannot be used.
        MissingExtraError: torch or transformers is not installed.
    """
    sides = read_joined_spec(folder / SPEC)
    try:
        import torch  # noqa: F401

        if "hf" in (sides.image.kind, sides.text.kind):
            import transformers  # noqa: F401
    except ImportError as error:
        missing = error.name or "transformers"
        raise MissingExtraError(missing, "hf", f"The model {name}") from None
    from contrapose.models.joined.model import JoinedEncoder

    return JoinedEncoder(folder, name, options)
