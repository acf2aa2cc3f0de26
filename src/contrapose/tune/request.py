"""The request and the result of a tuning run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from contrapose import __version__
from contrapose.tune.distill import SHARPNESS
from contrapose.tune.objective import HEADS, parse_objective
from contrapose.tune.report import Bill
from contrapose.tune.settings import HeadSettings, Settings
from contrapose.tune.trainer import TrainingResult
from contrapose.world.sample import World

SCENES = "scenes"

ProgressCallback = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """Options of a tuning run, named as those of `contrapose tune`.

    Attributes:
        model: what is tuned.
        data: a file of pairs, or `scenes`; for heads also a folder of cached features.
        out: the folder that the model goes to.
        objective: what is minimised, as `hp+hn`; `heads` leaves the model as it is.
        settings: how; of heads the seed alone.
        heads: how heads are learnt; None takes what suits most.
        images: the folder that paths of images start from.
        kinds: of changed captions that are learnt from, as `swap`; none named takes all.
        scenes: how many scenes are made to learn from.
        world: whose odds those scenes have.
        held_out: the share of one's own pairs that is kept for the bill.
        examples: of each part of the bill on scenes.
        zero_shot: a folder with a folder of images a class, for a line of the bill.
        guards: measures and how far they may fall.
        best: the measure by which the best checkpoint is known; without it the last is taken.
        teacher: a captioner, for `distill`.
        alpha: how much of the teacher's prior is taken out.
        sharpness: how sure the teacher is of its choice.
        resume: go on from the newest checkpoint in `out`.
        overwrite: let `out` take the place of an earlier run.
        device: where to compute.
        workers: processes that make captions of scenes.
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

    @property
    def for_heads(self) -> bool:
        """Whether heads are trained on a frozen model."""
        return self.objective.strip().lower() == HEADS

    def as_dict(self) -> dict[str, Any]:
        """JSON values stored beside the model."""
        own = {"name": HEADS} if self.for_heads else parse_objective(self.objective).as_dict()
        return {
            "contrapose": __version__,
            "model": self.model,
            "data": self.data,
            "scenes": self.scenes if self.data == SCENES else None,
            "world": self.world if self.data == SCENES else None,
            "kinds": list(self.kinds),
            "objective": own,
            "settings": self.settings.as_dict(),
            "heads": None if self.heads is None else asdict(self.heads),
            "teacher": self.teacher,
            "zero_shot": None if self.zero_shot is None else str(self.zero_shot),
            "guards": dict(self.guards),
            "best": self.best,
        }


@dataclass(frozen=True, slots=True)
class TuneResult:
    """Result of a tuning run.

    Attributes:
        out: the folder of the model, as `load_model` takes it.
        trained: how the training ended.
        bill: before and after; None in all processes but the first.
    """

    out: Path
    trained: TrainingResult
    bill: Bill | None
