"""Settings of tuning: the request, hyperparameters, and the learning-rate schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from contrapose.errors import InputError
from contrapose.world.sample import World

Tower = Literal["image", "text"]
HEADS = "heads"
"""Not a loss: trains a head for each side on the vectors of the frozen model."""
SCENES = "scenes"
"""The training data that are made of scenes of the built-in world."""
SHARPNESS = 10.0
"""s of `distill`: debiased mean log-probabilities are multiplied with it before the teacher's
softmax. With a caption's number of tokens, about ten, they are sums again: the captioner's own odds
of one caption against another. Lower is softer."""
ProgressCallback = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Hyperparameters of a fine-tuning run.

    Attributes:
        steps: number of optimizer steps.
        batch: images per step, over all processes.
        rate: peak learning rate; None takes the student's default.
        decay: weight decay, of matrices only.
        warm: share of the steps of the linear warm-up.
        clip: maximal norm of the gradient.
        seed: of the order, the choice of captions, and dropout.
        freeze: towers that are not trained.
        lora: rank of LoRA adapters, where only those are trained.
        dtype: compute dtype; weights and optimizer stay in float32.
        pieces: micro-batches of a batch; the contrastive loss still compares all of it.
        ema: decay of the EMA of the weights, which replaces them at the end; None for no EMA.
        save_every: steps between checkpoints; 0 saves only the last.
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

    def learning_rate_factor(self, step: int) -> float:
        """Learning-rate factor at a step."""
        return learning_rate_factor(step, self.steps, round(self.warm * self.steps))

    def as_dict(self) -> dict[str, Any]:
        """JSON values for the log and for checkpoints."""
        return {**asdict(self), "freeze": list(self.freeze)}


def learning_rate_factor(step: int, steps: int, warmup: int = 0, time_share: float = 0.0) -> float:
    """Learning-rate factor at a step: linear warm-up, then cosine decay to zero.

    Args:
        step: counted from 0.
        steps: in all.
        warmup: steps of the warm-up.
        time_share: share of the time limit that is gone; the decay ends with it at the latest.
    """
    if step < warmup:
        return (step + 1) / warmup
    done = max((step - warmup) / max(steps - warmup, 1), time_share)
    return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


HeadKind = Literal["linear", "mlp"]


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """Hyperparameters of head training.

    Attributes:
        tau: the fixed temperature: about 0.1 for deltas.
        kind: one linear map a side, or one hidden layer beside it.
        width: of the common space.
        hidden: of the hidden layer.
        epochs: how often each caption is seen.
        steps: so many steps, whatever that is in epochs; None goes by `epochs`.
        batch_size: captions a step.
        lr: of AdamW, from which it falls to zero by a cosine.
        drop: share of the whitened features that are left out at each step.
        weight_decay: of AdamW.
        hold_out: share of the images that are not learnt from; the epoch with the best mean recall
            on them is kept. Zero learns from all and keeps the last.
        unit: bring features to unit length first, as `normalise` in a `joined.json` says, a side.
        start: where heads begin: `canonical` by what goes together in the features, `own` as maps
            that change nothing, for encoders that share a space already; None as the caller has
            the one or the other.
        seed: of everything random.
    """

    tau: float = 0.1
    kind: HeadKind = "linear"
    width: int = 512
    hidden: int = 1024
    epochs: int = 30
    steps: int | None = None
    batch_size: int = 4096
    lr: float = 1e-3
    drop: float = 0.2
    weight_decay: float = 0.0
    hold_out: float = 0.0
    unit: tuple[bool, bool] = (True, True)
    start: Literal["canonical", "own"] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Validate the settings.

        Raises:
            InputError: says which setting.
        """
        if not 0 < self.tau < math.inf:
            raise InputError(f"the temperature must be above zero, found {self.tau}.")
        if self.kind not in ("linear", "mlp"):
            raise InputError(f"a head is linear or mlp, not {self.kind!r}.")
        for name in ("width", "hidden", "epochs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, found {getattr(self, name)}.")
        if self.steps is not None and self.steps < 1:
            raise InputError(f"steps must be at least 1, found {self.steps}.")
        if self.start not in (None, "canonical", "own"):
            raise InputError(f"heads start canonical or own, not {self.start!r}.")
        if self.batch_size < 2:
            raise InputError(f"a batch needs at least 2 captions, found {self.batch_size}.")
        if not 0 < self.lr < math.inf or not 0 <= self.weight_decay < math.inf:
            raise InputError(f"lr {self.lr} and weight decay {self.weight_decay} do not work.")
        if not (0 <= self.drop < 1 and 0 <= self.hold_out < 1):
            raise InputError("the shares left out and held out must be at least 0 and below 1.")
        if self.seed < 0:
            raise InputError(f"the seed must not be negative, found {self.seed}.")


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """Options of a tuning run, named as those of `contrapose tune`.

    Attributes:
        model: name of the model to tune.
        data: a file of pairs, or `scenes`; for heads also a folder of cached features.
        out: the output folder of the model.
        objective: losses, as `hp+hn`; `heads` trains heads on the frozen model.
        settings: hyperparameters; heads use the seed only.
        heads: hyperparameters of heads; None takes the defaults.
        images: the folder that paths of images start from.
        kinds: kinds of changed captions to train on, as `swap`; none means all.
        scenes: number of training scenes to generate.
        world: the distribution those scenes are drawn from.
        held_out: the share of the user's pairs that is held out for the bill.
        examples: of each part of the panel of scenes.
        zero_shot: a folder with a folder of images per class, for zero-shot classification.
        guards: metrics, and how far each may fall.
        best: the metric that selects the best checkpoint; without it the last is taken.
        teacher: a captioner, for `distill`.
        alpha: how much of the teacher's prior is taken out.
        sharpness: how sure the teacher is of its choice.
        resume: go on from the newest checkpoint in `out`.
        overwrite: let `out` take the place of an earlier run.
        device: where to compute.
        workers: processes that make captions of scenes.
        tensorboard: folder of TensorBoard's event files; None writes none.
    """

    model: str
    data: str
    out: Path
    objective: str = "plain"
    settings: Settings = field(default_factory=Settings)
    heads: HeadSettings | None = None
    images: Path | None = None
    kinds: tuple[str, ...] = ()
    scenes: int = 4000
    world: World = "skewed"
    held_out: float = 0.05
    examples: int = 100
    zero_shot: Path | None = None
    guards: Mapping[str, float] = field(default_factory=dict)
    best: str | None = None
    teacher: str | None = None
    alpha: float = 1.0
    sharpness: float = SHARPNESS
    resume: bool = False
    overwrite: bool = False
    device: str = "auto"
    workers: int = 1
    tensorboard: Path | None = None

    @property
    def for_heads(self) -> bool:
        """Whether heads are trained on a frozen model."""
        return self.objective.strip().lower() == HEADS
