"""Models behind HTTP: chat endpoints (`openai:MODEL,url=…`), servers of vLLM and SGLang."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from contrapose.lazy import lazy_exports

if TYPE_CHECKING:
    from contrapose.models.endpoint.model import Endpoint
    from contrapose.models.endpoint.protocol import EndpointError
else:
    __getattr__, __dir__, _ = lazy_exports(__name__, {"protocol": "EndpointError"})

__all__ = [
    "EndpointError",
    "load",
]


def load(text: str, *, cut: bool = False) -> Endpoint:
    """Load the model behind an endpoint.

    A chat endpoint gets no request before the first call; a server of vLLM or SGLang is asked what
    it serves.

    Args:
        text: the full model string. Credentials in its address are used and never shown.
        cut: truncate long captions, where the model string does not say it.

    Raises:
        InputError: a setting is unknown or invalid, or there is no tokenizer.
        EndpointError: the server does not answer, or does not serve the model.
        MissingExtraError: a library that a served model needs is not installed.
    """
    from contrapose.models.endpoint.model import Endpoint
    from contrapose.models.endpoint.settings import parse_settings

    settings = parse_settings(text)
    if settings.kind == "openai":
        return Endpoint(settings)
    from contrapose.models.endpoint.served import load_served

    return load_served(replace(settings, cut=True) if cut and "long=" not in text else settings)
