"""Unpacked scoring and generation by the library's own forward pass.

It serves architectures whose captions cannot be packed behind a shared prefix: slower, and always
right, since no part of the network is reimplemented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from contrapose.errors import InputError, first_line
from contrapose.models.capabilities import Prompt, Reply
from contrapose.models.hf.checkpoint import silence_transformers
from contrapose.models.hf.vlm.prefix_scoring import Continuation
from contrapose.models.video_reader import FrameTiming

if TYPE_CHECKING:
    from contrapose.models.hf.vlm.prompts import ChatPrompts

SEQUENCES_AT_ONCE = 8
"""Sequences per pass."""


def score_unpacked(
    network: Any, prefix: Mapping[str, Tensor], texts: Sequence[Continuation], fill: int
) -> list[Tensor]:
    """Log-probabilities of each text's counted tokens after one prefix, on the CPU.

    Args:
        network: the library's model.
        prefix: inputs of its forward pass for the prefix alone: (1, p) tokens, and the image.
        texts: the texts after the prefix.
        fill: padding token of shorter sequences.
    """
    logprobs: list[Tensor] = []
    for start in range(0, len(texts), SEQUENCES_AT_ONCE):
        some = texts[start : start + SEQUENCES_AT_ONCE]
        inputs = {
            name: _repeat_input(name, values, prefix, some, fill) for name, values in prefix.items()
        }
        logits = network(**inputs, use_cache=False).logits
        length = prefix["input_ids"].shape[1]
        for row, text in zip(logits, some, strict=True):
            last = length + len(text.ids) - 1
            states = row[last - text.counted : last].float().log_softmax(dim=-1)
            targets = torch.tensor(text.ids[len(text.ids) - text.counted :], device=row.device)
            logprobs.append(states.gather(1, targets[:, None]).squeeze(1).cpu())
    return logprobs


def _repeat_input(
    name: str,
    values: Tensor,
    prefix: Mapping[str, Tensor],
    texts: Sequence[Continuation],
    fill: int,
) -> Tensor:
    """Repeat one input for several sequences that share a prefix."""
    repeated = torch.cat([values] * len(texts))
    if not is_per_token(name, values, prefix["input_ids"]):
        return repeated
    width = max(len(text.ids) for text in texts)
    if values.ndim > 2:
        return extend_input(repeated, width)
    rows = values.new_zeros(len(texts), width)
    for i, text in enumerate(texts):
        if name == "input_ids":
            rows[i] = fill
            rows[i, : len(text.ids)] = torch.tensor(text.ids)
        elif name == "attention_mask":
            rows[i, : len(text.ids)] = 1
    return torch.cat([repeated, rows], dim=1)


def is_per_token(name: str, values: Tensor, ids: Tensor) -> bool:
    """Whether an input has one value per token."""
    if name == "cross_attention_mask":  # images that each token may attend to
        return True
    return values.shape == ids.shape and not values.is_floating_point()


def is_pixels(values: Tensor) -> bool:
    """Whether an input has the network's dtype; single numbers, such as seconds, keep their own."""
    return values.is_floating_point() and values.ndim > 1


def extend_input(values: Tensor, count: int) -> Tensor:
    """Extend a per-token input by repeating its last value."""
    last = values[:, -1:].expand(-1, count, *values.shape[2:])
    return torch.cat([values, last], dim=1)


def replace_tail(
    prepared: Mapping[str, Tensor],
    head: Callable[[Sequence[int]], tuple[int, ...]],
    tail: tuple[int, ...],
) -> dict[str, Tensor]:
    """Replace the tokens after the image in prepared inputs.

    Args:
        prepared: inputs of one image with a prompt.
        head: selects the tokens up to the end of the image.
        tail: the new tokens after them.
    """
    ids = prepared["input_ids"]
    first = head(ids[0].tolist())
    replaced = {}
    for name, values in prepared.items():
        if name == "input_ids":
            replaced[name] = torch.tensor([[*first, *tail]])
        elif is_per_token(name, values, ids) and values.ndim > 2:
            replaced[name] = extend_input(values, len(tail))[:, : len(first) + len(tail)]
        elif is_per_token(name, values, ids):
            rest = values.new_full((1, len(tail)), int(name == "attention_mask"))
            replaced[name] = torch.cat([values[:, : len(first)], rest], dim=1)
        else:
            replaced[name] = values
    return replaced


MAX_REPLY_TOKENS = 32
"""Most tokens of a reply."""
FIRST_TOKENS = 20
"""Number of likeliest first tokens in a `Reply`."""


def generate_reply(prompt: Prompt, network: Any, processor: Any, prompts: ChatPrompts) -> Reply:
    """Generate the greedy reply to one prompt.

    Raises:
        InputError: the chat template or the processor does not take its images.
    """
    inputs = _prepare_inputs(prompt, processor, prompts)
    length = inputs["input_ids"].shape[1]
    most = int(network.config.get_text_config().max_position_embeddings)
    if length + MAX_REPLY_TOKENS > most:
        raise InputError(
            f"the prompt with its images takes {length:,} tokens, and {prompts.name} reads "
            f"{most:,} with a reply of {MAX_REPLY_TOKENS}."
        )
    weight = network.get_input_embeddings().weight
    placed = {
        name: values.to(weight.device, weight.dtype if is_pixels(values) else None)
        for name, values in inputs.items()
    }
    with silence_transformers():
        output = network.generate(
            **placed,
            max_new_tokens=MAX_REPLY_TOKENS,
            do_sample=False,
            num_beams=1,
            eos_token_id=prompts.end,
            pad_token_id=prompts.end,
            output_logits=True,
            return_dict_in_generate=True,
        )
    generated = output.sequences[0, length:].tolist()
    likely = output.logits[0][0].float().log_softmax(dim=-1)
    values, tokens = likely.topk(min(FIRST_TOKENS, len(likely)))
    first: dict[str, float] = {}
    for value, token in zip(values.tolist(), tokens.tolist(), strict=True):
        first.setdefault(processor.tokenizer.decode([token]), value)
    text = processor.tokenizer.decode(generated, skip_special_tokens=True).strip()
    return Reply(text, first, tokens_in=length, tokens_out=len(generated))


def _prepare_inputs(prompt: Prompt, processor: Any, prompts: ChatPrompts) -> dict[str, Tensor]:
    """Network inputs of a chat turn."""
    text = prompts.render_question(prompt.text, len(prompt.images))
    if len(prompt.images) == 1 and isinstance(prompt.images[0], Mapping):
        return replace_tail(prompt.images[0], prompts.head, prompts.tail_tokens(text))
    if not all(isinstance(image, Image) for image in prompt.images):
        raise InputError(
            f"{prompts.name} takes several images in a chat as images only, not prepared ones."
        )
    images = [cast(Image, image).convert("RGB") for image in prompt.images]
    return prepare_turn(images, text, processor, prompts)


def prepare_turn(
    images: Sequence[Image], text: str, processor: Any, prompts: ChatPrompts
) -> dict[str, Tensor]:
    """Network inputs of a rendered turn with several images.

    Raises:
        InputError: the processor does not take them.
    """
    try:
        with prompts.lock:
            columns = processor(
                images=list(images) or None,
                text=[text],
                return_tensors="pt",
                add_special_tokens=not prompts.bare,
            )
    except Exception as error:  # the library raises almost anything here
        raise InputError(
            f"{prompts.name} does not take {len(images)} images in one turn ({first_line(error)})."
        ) from None
    return {name: torch.as_tensor(values) for name, values in columns.items()}


def prepare_clip(
    frames: Sequence[Image], timing: FrameTiming, processor: Any, prompts: ChatPrompts
) -> dict[str, Tensor]:
    """Network inputs of a video by the library's processor, with the caption prompt.

    The frames are those given: the processor chooses none itself.

    Raises:
        InputError: the frames have several sizes, or the chat template or the processor does not
            take a video.
    """
    if len({frame.size for frame in frames}) > 1:
        raise InputError("the video changes the size of its frames.")
    pixels = np.stack([np.asarray(frame.convert("RGB")) for frame in frames])
    metadata = {
        "total_num_frames": timing.total,
        "fps": timing.fps,
        "duration": timing.duration,
        "frames_indices": timing.indices,
        "height": pixels.shape[1],
        "width": pixels.shape[2],
        "video_backend": "pyav",
    }
    text = prompts.video_text
    try:
        with prompts.lock, silence_transformers():
            columns = processor(
                videos=[[pixels]],
                text=[text],
                return_tensors="pt",
                add_special_tokens=not prompts.bare,
                input_data_format="channels_last",
                do_sample_frames=False,
                video_metadata=[[metadata]],
            )
    except Exception as error:  # the library raises almost anything here
        raise InputError(
            f"{prompts.name} does not take a video of {len(frames)} frames ({first_line(error)})."
        ) from None
    prepared = {name: torch.as_tensor(values) for name, values in columns.items()}
    prompts.head(prepared["input_ids"][0].tolist())  # the text after the video is as after an image
    return prepared


def prepare_images_turn(
    frames: Sequence[Image], processor: Any, prompts: ChatPrompts
) -> dict[str, Tensor]:
    """Network inputs of frames as the images of one turn, with the caption prompt.

    Raises:
        InputError: the processor does not take them.
    """
    images = tuple(frame.convert("RGB") for frame in frames)
    text = prompts.render_question(prompts.prompt, len(images))
    return prepare_turn(images, text, processor, prompts)
