"""Chat endpoints that speak OpenAI's protocol: `openai:MODEL?url=http://host:port/v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.models.endpoint.stopped import StoppedError

if TYPE_CHECKING:
    from contrapose.models.endpoint.model import Endpoint

__all__ = ["StoppedError", "load"]


def load(text: str) -> Endpoint:
    """The model behind an endpoint; nothing is sent before it is asked.

    Args:
        text: the whole model string. Credentials in its address are used and never shown.

    Raises:
        InputError: the string has a setting that is not known, or no sense.
    """
    from contrapose.models.endpoint.model import Endpoint
    from contrapose.models.endpoint.settings import parse_settings

    return Endpoint(parse_settings(text))
