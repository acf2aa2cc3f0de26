"""What no model may be given: an empty caption, or one that it cannot read to its end."""

from __future__ import annotations

from contrapose.errors import InputError

SHOWN = 40
"""Letters of a caption that an error shows."""


def check_caption(name: str, text: str, count: int, added: int, context: int | None) -> None:
    """Refuse a caption that a model cannot be given.

    Args:
        name: of the model.
        text: the caption.
        count: its tokens, with all that the model adds.
        added: how many of them the model adds to any caption.
        context: most tokens; None where longer captions are cut.

    Raises:
        InputError: it is empty, holds nothing the model knows, or is too long.
    """
    if not text.strip():
        raise InputError("a caption is empty.")
    if count <= added:
        raise InputError(f"{name} reads nothing in the caption {text[:SHOWN]!r}.")
    if context is not None and count > context:
        raise InputError(
            f"the caption {text[:SHOWN]!r}… has {count} tokens and {name} reads {context}: "
            "shorten it, or load the model with ?long=cut."
        )
