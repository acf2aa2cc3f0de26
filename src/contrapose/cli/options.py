"""Options that several verbs read alike."""

from __future__ import annotations

from typing import Literal

from contrapose.errors import InputError


def alpha_option(text: str | None, *, prior: bool) -> float | Literal["auto"]:
    """How much of a prior to take out; `auto` when the user does not say.

    Raises:
        InputError: neither `auto` nor a number from 0 to 1, or there is no prior to take out.
    """
    if text is not None and not prior:
        raise InputError("--alpha says how much of a prior to take out: pass --prior too.")
    if text is None or text == "auto":
        return "auto"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(f"--alpha must be auto or a number from 0 to 1, found {text!r}.")
    return value
