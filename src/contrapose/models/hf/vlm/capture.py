"""What a model gives its language model for an image and a prompt: embedded tokens and positions.

The vision tower, the projection and the merging of image tokens are the library's own: its forward
pass is run with a stand-in for the language model, which notes what it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from contrapose.models.hf.vlm.packed import Prefixes

_KNOWN = {"inputs_embeds", "position_ids", "attention_mask", "past_key_values", "input_ids"}
_HARMLESS = {"use_cache", "return_dict", "output_attentions", "output_hidden_states"}


def language_model(network: Any) -> Any:
    """The language model inside a network of images and text; None where there is none such."""
    body = getattr(network, "model", network)
    return getattr(body, "language_model", None) or getattr(body, "text_model", None)


def embed(network: Any, inputs: Mapping[str, Tensor]) -> Prefixes:
    """Prefixes of one length, as the library gives them to its language model.

    Args:
        network: the library's model.
        inputs: what its forward pass takes, (b, p) tokens and the images.
    """
    from transformers.modeling_outputs import BaseModelOutputWithPast

    noted: dict[str, Any] = {}

    def note(*args: Any, **kwargs: Any) -> BaseModelOutputWithPast:
        if args:
            raise RuntimeError("the language model is given arguments without names")
        noted.update(kwargs)
        return BaseModelOutputWithPast(last_hidden_state=kwargs["inputs_embeds"])

    given = {name: values for name, values in inputs.items() if name != "attention_mask"}
    with _standing_in(language_model(network), note):
        network.model(**given, use_cache=False)
    mask = noted.get("attention_mask")
    strange = [
        name
        for name, value in noted.items()
        if name not in _KNOWN | _HARMLESS and value is not None and value is not False
    ]
    if strange or mask is not None:
        raise RuntimeError(f"the language model is given {[*strange, 'a mask'][0]}")
    embeds: Tensor = noted["inputs_embeds"]
    return Prefixes(embeds, _positions(noted.get("position_ids"), embeds))


def _positions(given: Tensor | None, embeds: Tensor) -> Tensor:
    batch, length = embeds.shape[:2]
    if given is None:
        return torch.arange(length, device=embeds.device).expand(batch, -1)
    if given.ndim == 3:
        return given[-3:]  # before the three axes some models have one for masks
    return given.expand(batch, -1)


@contextmanager
def _standing_in(module: Any, forward: Any) -> Iterator[None]:
    """A module whose forward pass is another one for a while."""
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
