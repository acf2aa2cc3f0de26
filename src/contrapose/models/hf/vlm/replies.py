"""What a chat model says to one turn, word by word, always the likeliest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from PIL.Image import Image
from torch import Tensor

from contrapose.errors import InputError
from contrapose.models.capabilities import Prompt, Reply
from contrapose.models.hf.quiet import quiet
from contrapose.models.hf.vlm.whole import continued

if TYPE_CHECKING:
    from contrapose.models.hf.vlm.prompts import Prompts

LONGEST = 32
"""Most tokens of a reply."""
FIRST = 20
"""Likeliest first tokens that are told."""


def reply_to(prompt: Prompt, network: Any, processor: Any, prompts: Prompts) -> Reply:
    """The likeliest reply to one prompt.

    Raises:
        InputError: the chat template or the processor does not take its images.
    """
    inputs = _inputs(prompt, processor, prompts)
    weight = network.get_input_embeddings().weight
    placed = {
        name: values.to(weight.device, weight.dtype if values.is_floating_point() else None)
        for name, values in inputs.items()
    }
    with quiet():
        found = network.generate(
            **placed,
            max_new_tokens=LONGEST,
            do_sample=False,
            num_beams=1,
            eos_token_id=prompts.end,
            pad_token_id=prompts.end,
            output_logits=True,
            return_dict_in_generate=True,
        )
    length = inputs["input_ids"].shape[1]
    said = found.sequences[0, length:].tolist()
    likely = found.logits[0][0].float().log_softmax(dim=-1)
    values, tokens = likely.topk(min(FIRST, len(likely)))
    first: dict[str, float] = {}
    for value, token in zip(values.tolist(), tokens.tolist(), strict=True):
        first.setdefault(processor.tokenizer.decode([token]), value)
    text = processor.tokenizer.decode(said, skip_special_tokens=True).strip()
    return Reply(text, first, tokens_in=length, tokens_out=len(said))


def _inputs(prompt: Prompt, processor: Any, prompts: Prompts) -> dict[str, Tensor]:
    """What the network takes for a turn."""
    text = prompts.ask(prompt.text, len(prompt.images))
    if len(prompt.images) == 1 and isinstance(prompt.images[0], Mapping):
        return continued(prompt.images[0], prompts.head, prompts.turn(text))
    if not all(isinstance(image, Image) for image in prompt.images):
        raise InputError(
            f"{prompts.name} takes several images in a chat as images only, not prepared ones."
        )
    shown = [cast(Image, image).convert("RGB") for image in prompt.images]
    try:
        with prompts.lock:
            found = processor(
                images=shown or None,
                text=[text],
                return_tensors="pt",
                add_special_tokens=not prompts.bare,
            )
    except Exception as error:  # the library raises almost anything here
        first = str(error).strip().split("\n", maxsplit=1)[0].rstrip(":. ")
        raise InputError(
            f"{prompts.name} does not take {len(shown)} images in one turn ({first})."
        ) from None
    return {name: torch.as_tensor(values) for name, values in found.items()}
