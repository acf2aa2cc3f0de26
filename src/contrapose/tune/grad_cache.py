"""GradCache: the exact gradient of a large batch, computed in micro-batches (Gao et al. 2021).

Vectors of all micro-batches are computed without gradients, the losses are computed on all of them,
and each micro-batch is encoded once more to propagate the gradients of its vectors. Losses that
need other outputs of a micro-batch, such as image states, get them in that second pass. Memory is
that of one micro-batch; time is one more forward pass. Dropout draws the same in both passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

EncoderOutputs = tuple[Tensor, ...]
"""Vectors of some rows of a batch, and further outputs of the encoder."""
Encode = Callable[[slice], EncoderOutputs]
ExtraLosses = Callable[[int, EncoderOutputs], None]
"""Accumulates gradients of further losses on the outputs of a micro-batch, and on weights."""

Gradients = Sequence[Tensor | None]


def split_rows(size: int, count: int) -> list[slice]:
    """Row slices of the micro-batches; fewer where there are fewer rows."""
    count = min(count, size)
    return [slice(size * i // count, size * (i + 1) // count) for i in range(count)]


def backward_in_micro_batches(
    encoders: Mapping[str, Encode],
    micro_batches: Sequence[slice],
    losses: Callable[[dict[str, Tensor]], Tensor],
    further: Mapping[str, ExtraLosses] | None = None,
) -> None:
    """Accumulate the gradients of a loss on the whole batch, micro-batch by micro-batch.

    Args:
        encoders: by name, what encodes some rows.
        micro_batches: the rows of each micro-batch.
        losses: the loss of all vectors, by the same names.
        further: by encoder, further losses of each micro-batch; they add to the same gradients.
    """
    random: dict[str, list[_RandomState]] = {}
    vectors: dict[str, Tensor] = {}
    for name, encode in encoders.items():
        random[name] = []
        parts = []
        for rows in micro_batches:
            random[name].append(_RandomState())
            with torch.no_grad():
                parts.append(encode(rows)[0])
        vectors[name] = torch.cat(parts).requires_grad_()
    losses(vectors).backward()  # type: ignore[no-untyped-call]
    after = _RandomState()
    for name, encode in encoders.items():
        extra = (further or {}).get(name)
        gradient = vectors[name].grad
        if gradient is None and extra is None:
            continue
        for number, rows in enumerate(micro_batches):
            random[name][number].restore_state()
            outputs = encode(rows)
            local = None if gradient is None else gradient[rows]
            gradients: Gradients = [local, *[None] * (len(outputs) - 1)]
            if extra is not None:
                # What it draws is drawn nowhere else.
                after.restore_state()
                gradients = _add_extra_gradients(outputs, gradients, partial(extra, number))
                after = _RandomState()
            _backward_outputs(outputs, gradients)
    after.restore_state()


def _add_extra_gradients(
    outputs: EncoderOutputs, gradients: Gradients, extra: Callable[[EncoderOutputs], None]
) -> Gradients:
    """Gradients with those of extra losses added."""
    leaves = tuple(it.detach().requires_grad_(it.requires_grad) for it in outputs)
    for leaf, gradient in zip(leaves, gradients, strict=True):
        leaf.grad = gradient if leaf.requires_grad else None
    extra(leaves)
    return [leaf.grad for leaf in leaves]


def _backward_outputs(outputs: EncoderOutputs, gradients: Gradients) -> None:
    pairs = [
        (output, gradient)
        for output, gradient in zip(outputs, gradients, strict=True)
        if output.requires_grad and gradient is not None
    ]
    if pairs:
        torch.autograd.backward([it for it, _ in pairs], [gradient for _, gradient in pairs])


class _RandomState:
    """Snapshot of torch's random generators."""

    def __init__(self) -> None:
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None

    def restore_state(self) -> None:
        """Restore the snapshot."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)
