"""How heads are trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from contrapose.errors import InputError

Kind = Literal["linear", "mlp"]


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """How heads are trained.

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
    kind: Kind = "linear"
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
        """Refuses what cannot be trained.

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
