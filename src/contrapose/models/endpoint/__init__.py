"""Chat endpoints of the OpenAI protocol: `openai:MODEL,url=http://host:port/v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.models.endpoint.protocol import EndpointError

if TYPE_CHECKING:
    from contrapose.models.endpoint.model import Endpoint

__all__ = [
    "EndpointError",
    "load",
]


def load(text: str) -> Endpoint:
    """Load the model behind an endpoint; no request is sent before the first call.

    Args:
        text: the full model string. Credentials in its address are used and never shown.

    Raises:
        InputError: a setting is unknown or invalid.
    """
    from contrapose.models.endpoint.model import Endpoint
    from contrapose.models.endpoint.settings import parse_settings

    return Endpoint(parse_settings(text))
