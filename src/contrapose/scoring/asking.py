"""Who is asked, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from contrapose.models import Model, QuestionTemplate
from contrapose.scoring.engine import Executor, LocalExecutor
from contrapose.scoring.pictures import Pictures
from contrapose.scoring.priors import Noise, Prior
from contrapose.scoring.scores import Progress, stored_as
from contrapose.scoring.shelf import Shelf
from contrapose.scoring.skips import Skips
from contrapose.scoring.store import Store

Policy = Literal["missing", "all", "none"]
"""Ask what the store does not know; ask everything again; ask nothing."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Who is asked, and how.

    Attributes:
        model: who.
        store: what is known already, and where answers go.
        batch_size: images, captions or pairs at once; None begins with the model's suggestion and
            grows where a CUDA device has room.
        prior: the images that a caption's prior is taken under.
        question: what `vqa` asks.
        progress: told after each batch.
        pictures: images that are open already.
        policy: what to do with what the store knows. Asked again, the newest answer counts.
        executor: who does the work.
        skips: what could not be asked.
        sizes: for each kind of question the size that memory allowed, once it ran out.
    """

    model: Model
    store: Store = field(default_factory=Store)
    batch_size: int | None = None
    prior: Prior = field(default_factory=Noise)
    question: QuestionTemplate = field(default_factory=QuestionTemplate)
    progress: Progress | None = None
    pictures: Pictures = field(default_factory=Pictures)
    policy: Policy = "missing"
    executor: Executor = field(default_factory=LocalExecutor)
    skips: Skips = field(default_factory=Skips)
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many are asked at once, to begin with."""
        return max(1, self.batch_size or self.model.batch_size)

    def shelf(self, score: str, suffix: str = "") -> Shelf:
        """The shelf of a score."""
        return self.store.shelf(
            self.model.fingerprint, stored_as(self.model, score, self.question) + suffix
        )
