"""Runs to rank: read from folders and score files, named by model, on the same examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from contrapose.errors import InputError, option
from contrapose.results.compare import align_units, measure_side, score_file_request
from contrapose.results.measures import Measurements
from contrapose.results.runs import is_run, read_measured, split_choice
from contrapose.results.shapes import Protocol
from contrapose.results.tables import RunRecord
from contrapose.scores.files import list_columns
from contrapose.scores.rating_layouts import split_column


@dataclass(frozen=True, slots=True, eq=False)
class RankEntry:
    """One run to rank.

    Attributes:
        name: that the user gave the model; empty for its own.
        model: name of the model or of the score file.
        score: name of the score; empty where it is not known.
        source: path of the run or score file; empty for runs in memory.
        benchmark: name of the benchmark.
        protocol: of ties.
        measured: the outcomes.
    """

    name: str
    model: str
    score: str
    source: str
    benchmark: str
    protocol: str
    measured: Measurements


def read_entries(
    runs: Iterable[tuple[str, Path | RunRecord]],
    *,
    benchmark: str | None = None,
    root: Path | None = None,
    protocol: Protocol = "strict",
    threshold: float | None = None,
    partial: bool = False,
) -> list[RankEntry]:
    """Read runs to rank: of a folder all runs, or those that `FOLDER@words` names.

    Args:
        runs: the name that a model is given, or an empty one, and a run, run folder or score file;
            of a file with several scores, each is a model.
        benchmark: of score files, as the rest; see `MetricsRequest`.
        root: folder of the benchmark.
        protocol: of ties.
        threshold: of VALSE's metrics.
        partial: take a score file that lacks examples.

    Raises:
        InputError: one of them cannot be read.
    """
    entries = []
    for name, run in runs:
        path = "" if isinstance(run, RunRecord) else str(run)
        if isinstance(run, RunRecord):
            pairs = [(run.results, run.measured)]
        elif is_run((choice := split_choice(run))[0]):
            pairs = read_measured(*choice)
        else:
            columns = list_columns(run)
            for file in [Path(f"{run}@{column}") for column in columns] or [run]:
                request = score_file_request(
                    file, benchmark, root, protocol=protocol, threshold=threshold, partial=partial
                )
                side = measure_side(request)
                model = split_column(file)[1] or run.stem
                given = f"{name} {model}" if name and columns else name
                named = (given, model, "", str(file), side.benchmark, protocol)
                entries.append(RankEntry(*named, side.measured))
            continue
        entries += [
            RankEntry(
                name,
                result.model or Path(result.scores or "scores").stem,
                result.score or "",
                path,
                result.benchmark,
                result.protocol,
                measured,
            )
            for result, measured in pairs
        ]
    return entries


def name_models(entries: Sequence[RankEntry]) -> dict[str, dict[str, Measurements]]:
    """Names of the models, and for each its measures by benchmark.

    A model that has several scores is one model for each of them. Runs of equal names on one
    benchmark are told apart by their paths, then by numbers.
    """

    def group(labels: list[str]) -> Counter[tuple[str, str]]:
        return Counter(
            (label, entry.benchmark) for label, entry in zip(labels, entries, strict=True)
        )

    labels = [entry.name or entry.model for entry in entries]
    scores: dict[str, set[str]] = {}
    for label, entry in zip(labels, entries, strict=True):
        scores.setdefault(label, set()).add(entry.score)
    labels = [
        f"{label} · {entry.score}"
        if entry.score and not entry.name and len(scores[label]) > 1
        else label
        for label, entry in zip(labels, entries, strict=True)
    ]
    doubled = {label for (label, _), count in group(labels).items() if count > 1}
    labels = [
        f"{label} ({entry.source})" if label in doubled and entry.source else label
        for label, entry in zip(labels, entries, strict=True)
    ]
    models: dict[str, dict[str, Measurements]] = {}
    for label, entry in zip(labels, entries, strict=True):
        name, number = label, 1
        while entry.benchmark in models.get(name, {}):
            number += 1
            name = f"{label} #{number}"
        models.setdefault(name, {})[entry.benchmark] = entry.measured
    return models


def share_examples(
    models: Mapping[str, Mapping[str, Measurements]], *, common: bool
) -> tuple[dict[str, dict[str, Measurements]], list[str]]:
    """Measures by benchmark and model, on the same examples in the same order; and notes.

    Args:
        models: by name, the measures by benchmark.
        common: leave out benchmarks and examples that a model lacks.

    Raises:
        InputError: there are fewer than two models, they share nothing, or their benchmarks or
            examples differ and `common` is off.
    """
    if len(models) < 2:
        raise InputError(f"a ranking needs at least two models, and here is {len(models)}.")
    every = dict.fromkeys(name for runs in models.values() for name in runs)
    shared = [name for name in every if all(name in runs for runs in models.values())]
    if not shared:
        raise InputError("the models have no benchmark in common.")
    notes = []
    if len(shared) < len(every):
        lacking = next(name for name in every if name not in shared)
        model = next(name for name, runs in models.items() if lacking not in runs)
        if not common:
            raise InputError(
                f"{model} has no run on {lacking}, and others have; "
                f"pass {option('common', True)} to rank on what all have."
            )
        left = ", ".join(name for name in every if name not in shared)
        notes.append(f"not all models have runs on {left}, which are left out")
    chosen: dict[str, dict[str, Measurements]] = {}
    for benchmark in sorted(shared):
        runs = {name: by[benchmark] for name, by in models.items()}
        ids = set.intersection(*(set(run.ids) for run in runs.values()))
        most = max(len(run) for run in runs.values())
        if not ids:
            raise InputError(f"the runs on {benchmark} have no example in common.")
        if len(ids) < most:
            if not common:
                raise InputError(
                    f"the runs on {benchmark} are of different examples, of which {len(ids):,} are "
                    f"in all; pass {option('common', True)} to rank on those."
                )
            notes.append(f"{benchmark}: ranked on the {len(ids):,} examples that all models have")
            runs = {
                name: run.take(np.flatnonzero([unit in ids for unit in run.ids]))
                for name, run in runs.items()
            }
        first = runs[min(runs)]
        ordered = {name: align_units(first, run, partial=False)[1] for name, run in runs.items()}
        chosen[benchmark] = _share_clusters(ordered)
    return chosen, notes


def _share_clusters(runs: Mapping[str, Measurements]) -> dict[str, Measurements]:
    """Give all runs the clusters that one of them knows; they have the same examples."""
    known = [name for name, run in runs.items() if run.clusters is not None]
    if not known or len(known) == len(runs):
        return dict(runs)
    clusters = runs[min(known)].clusters
    return {
        name: replace(run, clusters=clusters) if run.clusters is None else run
        for name, run in runs.items()
    }
