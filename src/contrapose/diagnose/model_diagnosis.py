"""Diagnosis of one model's games (overall, per part, per kind of change), and its folder on disk.

An interaction has to dominate its parts only where the parts stay the same, so each claim is tested
only on the examples whose captions differ in the matching way.

The folder of a diagnosis holds:

diagnosis.json     the diagnosis as JSON
examples.parquet   one row per comparison and metric: model, score, example, metric, side,
                   exchanged, kept, right and wrong (positions from 0), cluster, the scores of right
                   and wrong, their dividends, and the sensitivity
dividends.parquet  one row per coalition: model, score, example, image, text, its regions and words,
                   the score with these alone, and their dividend
report.html        the same as a page
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.data import Example
from contrapose.data.tagging import split_words
from contrapose.diagnose.findings import derive_findings
from contrapose.diagnose.game_blocks import GameBlock, GameIndex, two_by_two_scores
from contrapose.diagnose.metrics import Comparisons, Diagnosis, diagnose_blocks
from contrapose.diagnose.planning import Baseline, choose_fill
from contrapose.diagnose.players import (
    GameSide,
    MissingPlayers,
    RegionFinder,
    WordFinder,
    WordGroups,
)
from contrapose.diagnose.schema import (
    Counts,
    DiagnosisReport,
    LeftOutValue,
    ModelDiagnosis,
    metric_values,
    order_shares,
)
from contrapose.errors import InputError, MissingExtraError
from contrapose.evaluation.selection import Selection
from contrapose.files import arrow_path, new_folder, require_free, write_bytes, write_text
from contrapose.metrics import equivariance
from contrapose.metrics.dividends import dividends, pattern_name
from contrapose.models import Model
from contrapose.results.schema import NotebookView

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
    """Ids of the examples of each kind of change; None where the tagger is not installed."""
    try:
        players = words.find(examples)
    except MissingExtraError:
        return None
    kinds = {
        example.id: change_kinds(example.texts, groups)
        for example, groups in zip(examples, players, strict=True)
        if not isinstance(groups, MissingPlayers)
    }
    return {
        kind: frozenset(id_ for id_, some in kinds.items() if kind in some)
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
        name: [_group_words(text, spans, name) for text, spans in zip(texts, groups, strict=True)]
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
            # The words are the same, but each attribute now belongs to another object.
            kinds.add(SWAPPED_ATTRIBUTES)
            kinds.discard(SAME_THINGS)
    return frozenset(kinds)


def _group_words(text: str, groups: WordGroups, name: str) -> list[str]:
    return [text[start:end].lower() for start, end in sorted(groups.get(name, ()))]


@dataclass(frozen=True, slots=True, eq=False)
class ModelGames:
    """Games of one model, with their diagnoses.

    Attributes:
        model: the model's name.
        score: the score that the games are about.
        blocks: its games.
        diagnosis: the fourteen metrics and their comparisons.
        by_kind: the same for each kind of change (see `change_kinds`).
    """

    model: str
    score: str
    blocks: tuple[GameBlock, ...]
    diagnosis: Diagnosis
    by_kind: Mapping[str, Diagnosis]

    @property
    def label(self) -> str:
        """Model name and score."""
        return f"{self.model} · {self.score}"


def diagnose_games(
    model: Model,
    score: str,
    blocks: Sequence[GameBlock],
    examples: Mapping[str, Example],
    side: GameSide,
    selection: Selection,
    kinds: Mapping[str, frozenset[str]] | None,
    baseline: Baseline,
    *,
    resamples: int,
    seed: int,
) -> tuple[ModelGames, ModelDiagnosis]:
    """Diagnose one model's games: all of them, each part, and each kind of change.

    Args:
        model: the model that played.
        score: the score that the games are about.
        blocks: its games.
        examples: the examples by id.
        side: side of the reported metrics.
        selection: the benchmark, whose parts are diagnosed by themselves too.
        kinds: ids of examples by kind of change; None where that is not known.
        baseline: replacement for hidden words and regions.
        resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.

    Raises:
        InputError: a score is infinite.
    """
    draw = {"resamples": resamples, "seed": seed}
    diagnosis = diagnose_blocks(blocks, **draw)
    ids = [id_ for block in blocks for id_ in block.ids]
    ids_by_part = {
        part: [id_ for id_ in ids if id_.startswith(f"{part}/")]
        for part in (selection.parts if selection.suite and len(selection.parts) > 1 else ())
    }
    by_part = _diagnose_groups(blocks, ids_by_part, **draw)
    by_kind = _diagnose_groups(blocks, kinds or {}, **draw)
    only = None if kinds is None else {key: kinds[kind] for key, kind in CHANGE_KIND.items()}
    findings = derive_findings(diagnosis, only=only, **draw)
    square = two_by_two_scores(blocks)
    _, notes = choose_fill(model, baseline)
    value = ModelDiagnosis(
        model=model.name,
        score=score,
        fingerprint=model.fingerprint,
        examples=len(GameIndex(blocks, examples).ids),
        metrics=metric_values(diagnosis, side),
        parts={part: metric_values(one, side) for part, one in by_part.items()},
        kinds={kind: metric_values(one, side) for kind, one in by_kind.items()},
        findings=tuple(finding for finding in findings if side in (finding.side, "all")),
        equivariance=equivariance(square).summary() if len(square) else None,
        orders=order_shares(blocks),
        counts=Counts(
            games=sum(block.match.size for block in blocks),
            cells=sum(block.values.size for block in blocks),
            encodings=sum(block.encodings for block in blocks),
            pairs=sum(block.pairs for block in blocks),
            naive=sum(block.naive for block in blocks),
        ),
        left_out=tuple(
            LeftOutValue(example=example.id, reason=example.reason)
            for block in blocks
            for example in block.left_out
        ),
        notes=() if side == "text" else notes,
    )
    return ModelGames(model.name, score, tuple(blocks), diagnosis, by_kind), value


def _diagnose_groups(
    blocks: Sequence[GameBlock], groups: Mapping[str, Collection[str]], *, resamples: int, seed: int
) -> dict[str, Diagnosis]:
    """Diagnosis of each group of examples; groups without games are omitted."""
    diagnoses = {}
    for name, ids in groups.items():
        selected = [part for part in (block.only(ids) for block in blocks) if part.ids]
        if selected:
            diagnoses[name] = diagnose_blocks(selected, resamples=resamples, seed=seed)
    return diagnoses


@dataclass(frozen=True, slots=True, eq=False)
class DiagnosisRun(NotebookView):
    """Finished diagnosis, with the data needed to show single examples.

    Attributes:
        report: the diagnosis as it is printed and written.
        models: the games of each model.
        examples: examples by id; those of a suite have their part's name before it.
        words: source of the word groups; None where words do not play.
        regions: source of the regions; None where they do not play.
    """

    report: DiagnosisReport
    models: tuple[ModelGames, ...]
    examples: Mapping[str, Example]
    words: WordFinder | None
    regions: RegionFinder | None


RESULTS, EXAMPLES, DIVIDENDS = "diagnosis.json", "examples.parquet", "dividends.parquet"

MAX_ROWS = 5_000_000
"""The most coalitions that are written to `dividends.parquet`; a larger file is left out."""

Columns = dict[str, Any]


def write_diagnosis(
    run: DiagnosisRun,
    folder: Path,
    *,
    overwrite: bool = False,
    beside: Mapping[str, str | bytes] | None = None,
) -> None:
    """Write the folder of a diagnosis atomically.

    Args:
        run: the diagnosis.
        folder: the folder to write.
        overwrite: replace an earlier diagnosis.
        beside: other files of the folder, by name.

    Raises:
        InputError: the folder exists and is not a diagnosis that may be overwritten.
    """
    require_diagnosis_folder(folder, overwrite=overwrite)
    comparisons = [
        table
        for model in run.models
        for compared in model.diagnosis.comparisons.values()
        for table in _comparison_columns(model, compared)
    ]
    with new_folder(folder, overwrite=overwrite) as temporary:
        write_text(temporary / RESULTS, run.report.model_dump_json(indent=2) + "\n")
        _write_parquet(temporary / EXAMPLES, comparisons)
        if sum(model.counts.cells for model in run.report.models) <= MAX_ROWS:
            tables = [
                _coalition_columns(model, block)
                for model in run.models
                for block in model.blocks
                if block.ids  # else all its examples were skipped
            ]
            _write_parquet(temporary / DIVIDENDS, tables)
        for name, content in (beside or {}).items():
            data = content if isinstance(content, bytes) else content.encode()
            write_bytes(temporary / name, data)


def require_diagnosis_folder(folder: Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that a diagnosis cannot be written to, before it is computed.

    Raises:
        InputError: the folder exists and is not a diagnosis that may be overwritten.
    """
    require_free(folder, overwrite=overwrite)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RESULTS).is_file():
        raise InputError(
            "holds no diagnosis, and is not written over; choose another.", file=folder
        )


def _comparison_columns(model: ModelGames, compared: Comparisons) -> Iterator[Columns]:
    """Columns of one table per metric."""
    family = compared.family
    for column, key in enumerate(family.keys):
        rows = np.flatnonzero(compared.present[:, column])
        if not len(rows):
            continue
        yield {
            **_model_columns(model, len(rows)),
            "example": [compared.ids[row] for row in rows],
            "metric": [key] * len(rows),
            "side": [family.side] * len(rows),
            "exchanged": [family.exchanged] * len(rows),
            "kept": compared.kept[rows],
            "right": compared.right[rows],
            "wrong": compared.wrong[rows],
            "cluster": compared.clusters[rows],
            "score_right": compared.rewards[rows, 0],
            "score_wrong": compared.rewards[rows, 1],
            "dividend_right": compared.dividends[rows, 0, column],
            "dividend_wrong": compared.dividends[rows, 1, column],
            "sensitivity": compared.sensitivities[rows, column],
        }


def _coalition_columns(model: ModelGames, block: GameBlock) -> Columns:
    shape = block.values.shape
    example, image, text, region, word = (index.reshape(-1) for index in np.indices(shape))
    regions = [pattern_name(block.image_players, coalition) for coalition in range(shape[3])]
    words = [pattern_name(block.text_players, coalition) for coalition in range(shape[4])]
    return {
        **_model_columns(model, block.values.size),
        "example": np.array(block.ids, dtype=object)[example],
        "image": image,
        "text": text,
        "regions": np.array(regions, dtype=object)[region],
        "words": np.array(words, dtype=object)[word],
        "score_with": block.values.reshape(-1),
        "dividend": dividends(block.values).reshape(-1),
    }


def _model_columns(model: ModelGames, rows: int) -> Columns:
    return {"model": [model.model] * rows, "score": [model.score] * rows}


def _write_parquet(path: Path, tables: list[Columns]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if tables:
        pq.write_table(pa.concat_tables([_to_arrow(table) for table in tables]), arrow_path(path))


def _to_arrow(columns: Columns) -> Any:
    """Arrow table in which NaN is null."""
    import pyarrow as pa

    return pa.table({name: pa.array(column, from_pandas=True) for name, column in columns.items()})
