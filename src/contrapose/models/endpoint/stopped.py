"""When an endpoint gives no more answers."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.errors import ContraposeError
from contrapose.models.capabilities import Reply


class StoppedError(ContraposeError):
    """The endpoint cannot go on: it is down, too slow, or refuses the key or the model.

    It is no `InputError`: that would be one prompt's fault, and the others would still be asked.

    Attributes:
        replies: what it had answered of the prompts given with the last one; None for the others.
    """

    def __init__(self, message: str, replies: Sequence[Reply | None] = ()):
        self.message = message
        self.replies = tuple(replies)
        super().__init__(message)
