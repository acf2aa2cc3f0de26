"""What one model's games say, whole, part by part, and by kind of change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.data.example import diagonal
from contrapose.diagnose.changes import KIND
from contrapose.diagnose.findings import findings
from contrapose.diagnose.games import Side
from contrapose.diagnose.masking import filling_for
from contrapose.diagnose.orders import order_shares
from contrapose.diagnose.played import Played
from contrapose.diagnose.request import DiagnoseRequest
from contrapose.diagnose.schema import Counts, LeftOutValue, ModelDiagnosis
from contrapose.diagnose.sensitivity import Diagnosis, diagnose_played
from contrapose.diagnose.told import finding_value, metrics_value
from contrapose.metrics import FloatArray, equivariance
from contrapose.models import Model
from contrapose.results.selection import Selection


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosed:
    """A model's games, and what they say.

    Attributes:
        model: its name.
        score: what it was asked for.
        played: its games.
        diagnosis: the fourteen metrics and their comparisons.
        by_kind: the same for each kind of change (see `changes`).
    """

    model: str
    score: str
    played: tuple[Played, ...]
    diagnosis: Diagnosis
    by_kind: Mapping[str, Diagnosis]

    @property
    def label(self) -> str:
        """The model and its score."""
        return f"{self.model} · {self.score}"


def measured(
    model: Model,
    score: str,
    games: list[Played],
    side: Side,
    selection: Selection,
    kinds: Mapping[str, frozenset[str]] | None,
    request: DiagnoseRequest,
) -> tuple[Diagnosed, ModelDiagnosis]:
    """Measure one model's games: all of them, each part, and each kind of change.

    Args:
        model: who played.
        score: what it was asked for.
        games: that were played.
        side: that was asked.
        selection: whose parts are told apart.
        kinds: ids of examples by kind of change; None where that is not known.
        request: what the user asked.

    Raises:
        InputError: a score is infinite.
    """
    sure = {"resamples": request.resamples, "seed": request.seed}
    diagnosis = diagnose_played(games, **sure)
    ids = [id_ for block in games for id_ in block.ids]
    of_part = {
        part: [id_ for id_ in ids if id_.startswith(f"{part}/")]
        for part in (selection.parts if selection.suite and len(selection.parts) > 1 else ())
    }
    parts = _each(games, of_part, **sure)
    by_kind = _each(games, kinds or {}, **sure)
    only = None if kinds is None else {key: kinds[kind] for key, kind in KIND.items()}
    whole = _two_by_two(games)
    found = [each for each in findings(diagnosis, only=only, **sure) if side in (each.side, "all")]
    _, notes = filling_for(model, request.baseline)
    value = ModelDiagnosis(
        model=model.name,
        score=score,
        fingerprint=model.fingerprint,
        examples=sum(len(block.ids) for block in games),
        metrics=metrics_value(diagnosis, side),
        parts={part: metrics_value(each, side) for part, each in parts.items()},
        kinds={kind: metrics_value(each, side) for kind, each in by_kind.items()},
        findings=tuple(finding_value(each) for each in found),
        equivariance=equivariance(whole).summary() if len(whole) else None,
        orders=order_shares(games),
        counts=Counts(
            games=sum(len(block.ids) for block in games),
            cells=sum(block.values.size for block in games),
            encodings=sum(block.encodings for block in games),
            pairs=sum(block.pairs for block in games),
            naive=sum(block.naive for block in games),
        ),
        left_out=tuple(
            LeftOutValue(example=each.id, reason=each.reason)
            for block in games
            for each in block.left_out
        ),
        notes=() if side == "text" else notes,
    )
    return Diagnosed(model.name, score, tuple(games), diagnosis, by_kind), value


def _each(
    games: Sequence[Played], groups: Mapping[str, Collection[str]], *, resamples: int, seed: int
) -> dict[str, Diagnosis]:
    """The diagnosis of each group of examples; groups without games are left out."""
    found = {}
    for name, ids in groups.items():
        own = [some for some in (block.only(ids) for block in games) if some.ids]
        if own:
            found[name] = diagnose_played(own, resamples=resamples, seed=seed)
    return found


def _two_by_two(games: Sequence[Played]) -> FloatArray:
    """(k, 2, 2) the plain scores of 2 × 2 examples."""
    square = [
        block.values[..., -1, -1]
        for block in games
        if block.match.shape[1:] == (2, 2) and (block.match == diagonal(2)).all()
    ]
    return np.concatenate(square) if square else np.zeros((0, 2, 2))
