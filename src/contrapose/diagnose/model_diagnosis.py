"""Diagnosis of one model's games: overall, per part, and per kind of change.

An interaction has to dominate its parts only where the parts stay the same, so each claim is tested
only on the examples whose captions differ in the matching way.

An interaction has to dominate its parts only where the parts stay the same. So each claim is tested
on the examples that are of its kind, and on no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.data import Example
from contrapose.data.examples import diagonal_match
from contrapose.data.tagging import split_words
from contrapose.diagnose.findings import derive_findings
from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.games import GameSide
from contrapose.diagnose.planning import choose_fill
from contrapose.diagnose.players import MissingPlayers, WordFinder, WordGroups
from contrapose.diagnose.request import DiagnoseRequest
from contrapose.diagnose.schema import (
    Counts,
    LeftOutValue,
    ModelDiagnosis,
    finding_value,
    metric_values,
    order_shares,
)
from contrapose.diagnose.sensitivity import Diagnosis, diagnose_blocks
from contrapose.errors import MissingExtraError
from contrapose.evaluation.selection import Selection
from contrapose.metrics import FloatArray, equivariance
from contrapose.models import Model

SWAPPED_OBJECTS = "objects change places"
SWAPPED_ATTRIBUTES = "attributes change hands"
SAME_THINGS = "the things stay the same"

CHANGE_KIND: Mapping[str, str] = {
    "Q_R&O": SWAPPED_OBJECTS,
    "Q_A&O": SWAPPED_ATTRIBUTES,
    "D_O1&O2": SAME_THINGS,
    "Q_T:R&O->I:O1&O2": SAME_THINGS,
    "D_I:O1&O2->T:R&O": SAME_THINGS,
}
"""The kind of change on which each interaction is tested."""


def examples_by_kind(
    examples: Sequence[Example], words: WordFinder
) -> dict[str, frozenset[str]] | None:
    """Ids of the examples of each kind of change.

    None where nothing is known of the captions' words, because the tagger is not installed.
    """
    try:
        found = words.find(examples)
    except MissingExtraError:
        return None
    kinds = {
        example.id: change_kinds(example.texts, groups)
        for example, groups in zip(examples, found, strict=True)
        if not isinstance(groups, MissingPlayers)
    }
    return {
        kind: frozenset(id_ for id_, each in kinds.items() if kind in each)
        for kind in dict.fromkeys(CHANGE_KIND.values())
    }


def change_kinds(texts: Sequence[str], groups: Sequence[WordGroups]) -> frozenset[str]:
    """Kinds of change among captions; every caption must differ from the first in that way.

    - objects change places: the words are the same, and the object words come in another order;
    - attributes change hands: the words are the same, the objects' order too, the attributes' not;
    - the things stay the same: the same object and attribute words, whatever becomes of the rest.
    """
    if len(texts) < 2:
        return frozenset()
    bags = [Counter(split_words(text.lower())) for text in texts]
    orders = {
        name: [_group_words(text, own, name) for text, own in zip(texts, groups, strict=True)]
        for name in ("O", "A")
    }
    objects, attributes = orders["O"], orders["A"]
    kinds = set()
    if all(
        sorted(objects[0]) == sorted(objects[j]) and sorted(attributes[0]) == sorted(attributes[j])
        for j in range(1, len(texts))
    ):
        kinds.add(SAME_THINGS)
    if all(bag == bags[0] for bag in bags[1:]):
        if all(order != objects[0] for order in objects[1:]):
            kinds.add(SWAPPED_OBJECTS)
        elif all(order == objects[0] for order in objects[1:]) and all(
            order != attributes[0] for order in attributes[1:]
        ):
            # The attribute itself is another thing then, though its words are all there.
            kinds.add(SWAPPED_ATTRIBUTES)
            kinds.discard(SAME_THINGS)
    return frozenset(kinds)


def _group_words(text: str, groups: WordGroups, name: str) -> list[str]:
    return [text[start:end].lower() for start, end in sorted(groups.get(name, ()))]


@dataclass(frozen=True, slots=True, eq=False)
class ModelGames:
    """Games of one model, with their diagnoses.

    Attributes:
        model: its name.
        score: what it was asked for.
        played: its games.
        diagnosis: the fourteen metrics and their comparisons.
        by_kind: the same for each kind of change (see `changes`).
    """

    model: str
    score: str
    played: tuple[GameBlock, ...]
    diagnosis: Diagnosis
    by_kind: Mapping[str, Diagnosis]

    @property
    def label(self) -> str:
        """Model name and score."""
        return f"{self.model} · {self.score}"


def diagnose_games(
    model: Model,
    score: str,
    games: list[GameBlock],
    side: GameSide,
    selection: Selection,
    kinds: Mapping[str, frozenset[str]] | None,
    request: DiagnoseRequest,
) -> tuple[ModelGames, ModelDiagnosis]:
    """Diagnose one model's games: all of them, each part, and each kind of change.

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
    diagnosis = diagnose_blocks(games, **sure)
    ids = [id_ for block in games for id_ in block.ids]
    of_part = {
        part: [id_ for id_ in ids if id_.startswith(f"{part}/")]
        for part in (selection.parts if selection.suite and len(selection.parts) > 1 else ())
    }
    parts = _diagnose_groups(games, of_part, **sure)
    by_kind = _diagnose_groups(games, kinds or {}, **sure)
    only = None if kinds is None else {key: kinds[kind] for key, kind in CHANGE_KIND.items()}
    whole = _two_by_two_scores(games)
    found = [
        each for each in derive_findings(diagnosis, only=only, **sure) if side in (each.side, "all")
    ]
    _, notes = choose_fill(model, request.baseline)
    value = ModelDiagnosis(
        model=model.name,
        score=score,
        fingerprint=model.fingerprint,
        examples=sum(len(block.ids) for block in games),
        metrics=metric_values(diagnosis, side),
        parts={part: metric_values(each, side) for part, each in parts.items()},
        kinds={kind: metric_values(each, side) for kind, each in by_kind.items()},
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
    return ModelGames(model.name, score, tuple(games), diagnosis, by_kind), value


def _diagnose_groups(
    games: Sequence[GameBlock], groups: Mapping[str, Collection[str]], *, resamples: int, seed: int
) -> dict[str, Diagnosis]:
    """Diagnosis of each group of examples; groups without games are omitted."""
    found = {}
    for name, ids in groups.items():
        own = [some for some in (block.only(ids) for block in games) if some.ids]
        if own:
            found[name] = diagnose_blocks(own, resamples=resamples, seed=seed)
    return found


def _two_by_two_scores(games: Sequence[GameBlock]) -> FloatArray:
    """(k, 2, 2) plain scores of the 2 × 2 examples."""
    square = [
        block.values[..., -1, -1]
        for block in games
        if block.match.shape[1:] == (2, 2) and (block.match == diagonal_match(2)).all()
    ]
    return np.concatenate(square) if square else np.zeros((0, 2, 2))
