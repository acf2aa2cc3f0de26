"""Who does the job: each loads the same weights, then scores every row as a user's run would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scorejob.job import Job

Scores: TypeAlias = NDArray[np.float64]
"""(rows, 2) cosines of the image with the caption and with its negative."""


Asked: TypeAlias = Callable[[Job], Scores]
"""Does the whole job, files opened and images decoded every time."""


@dataclass(frozen=True)
class Way:
    """One of those compared.

    Attributes:
        name: for the table.
        dtype: what the model computes in.
        load: loads the weights and gives the function that does the job.
        note: what a reader should know of it.
    """

    name: str
    dtype: str
    load: Callable[[], Asked]
    note: str = ""


def contrapose_way(weights: Path, device: str, dtype: str) -> Way:
    """`contrapose eval DIR?dtype=… --on own.jsonl --score itc --no-cache`, intervals and all."""

    def load() -> Asked:
        from contrapose.evaluation.evaluate import evaluate_models
        from contrapose.evaluation.parts import EvalRequest
        from contrapose.models import load_model

        model = load_model(f"{weights}?dtype={dtype}", device=device)

        def ask(job: Job) -> Scores:
            request = EvalRequest(benchmarks=(str(job.own),), scores=("itc",), device=device)
            (run,) = evaluate_models([model], request)
            if run.scores is None:
                raise RuntimeError("there are no scores")
            return np.asarray(run.scores["value"], dtype=np.float64).reshape(-1, 2)

        return ask

    return Way("contrapose", dtype, load, "evaluate_models, no cache, its own batches, intervals")
