"""How a model is tuned: steps, rate, what stays as it is, how often it is kept."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from contrapose.errors import InputError

Tower = Literal["image", "text"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The numbers of a training run.

    Attributes:
        steps: in all.
        batch: images a step, over all processes.
        rate: highest learning rate; None takes the one that suits the kind of model.
        decay: weight decay, of matrices alone.
        warm: share of the steps in which the rate rises.
        clip: most that the gradient of all weights may measure.
        seed: of the order, of which captions are taken, and of dropout.
        freeze: towers that stay as they are.
        lora: rank of low-rank updates, where those alone are taught.
        dtype: what is computed in; weights and optimiser stay in float32.
        pieces: how many pieces a batch is computed in; the contrast still sees all of it.
        ema: decay of the running mean of the weights that is kept instead of the last ones.
        save_every: steps between checkpoints; 0 keeps the end alone.
        log_every: steps between lines of the log.
    """

    steps: int = 300
    batch: int = 128
    rate: float | None = None
    decay: float = 0.05
    warm: float = 0.1
    clip: float = 1.0
    seed: int = 0
    freeze: tuple[Tower, ...] = ()
    lora: int | None = None
    dtype: Literal["fp32", "bf16"] = "fp32"
    pieces: int = 1
    ema: float | None = None
    save_every: int = 100
    log_every: int = 10

    def __post_init__(self) -> None:
        least = {"steps": 1, "batch": 2, "pieces": 1, "save_every": 0, "log_every": 1, "seed": 0}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise InputError(f"{name} must be at least {smallest}, not {getattr(self, name)}.")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise InputError(f"the learning rate must be above zero, not {self.rate}.")
        if self.ema is not None and not 0 < self.ema < 1:
            raise InputError(f"the decay of the running mean lies between 0 and 1, not {self.ema}.")
        if self.lora is not None and self.lora < 1:
            raise InputError(f"the rank of low-rank updates must be at least 1, not {self.lora}.")
        if not 0 <= self.warm < 1:
            raise InputError(f"the share of warm-up lies between 0 and 1, not {self.warm}.")
        if {"image", "text"} <= set(self.freeze):
            raise InputError("with both towers frozen there is nothing to teach.")
        if self.pieces > self.batch:
            raise InputError(f"a batch of {self.batch} cannot be cut into {self.pieces} pieces.")

    def as_dict(self) -> dict[str, Any]:
        """For the log and for checkpoints."""
        return {**asdict(self), "freeze": list(self.freeze)}


def schedule(step: int, settings: Settings) -> float:
    """The share of the highest rate: a linear warm-up, then a cosine to zero."""
    warm = round(settings.warm * settings.steps)
    if step < warm:
        return (step + 1) / warm
    gone = (step - warm) / max(settings.steps - warm, 1)
    return 0.5 * (1 + math.cos(math.pi * min(gone, 1.0)))
