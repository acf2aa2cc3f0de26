"""Any image encoder and any sentence encoder, joined by trained heads into a dual encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from contrapose.errors import MissingExtraError
from contrapose.models.joined.spec import (
    SPEC,
    Joining,
    Side,
    read_joined,
    read_joining,
    save_joined,
)
from contrapose.models.options import LoadOptions

if TYPE_CHECKING:
    from contrapose.models.joined.model import Joined

__all__ = ["Joining", "Side", "load", "read_joined", "save_joined"]


def load(folder: Path, name: str, options: LoadOptions) -> Joined:
    """The model in a folder with a `joined.json`.

    Raises:
        InputError: the folder, its heads or an encoder cannot be used.
        MissingExtraError: torch or transformers is not installed.
    """
    sides = read_joining(folder / SPEC)
    try:
        import torch  # noqa: F401

        if "hf" in (sides.image.kind, sides.text.kind):
            import transformers  # noqa: F401
    except ImportError as error:
        missing = error.name or "transformers"
        raise MissingExtraError(missing, "hf", f"The model {name}") from None
    from contrapose.models.joined.model import Joined

    return Joined(folder, name, options)
