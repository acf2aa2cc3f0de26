"""A captioner's likelihood beside what never looks: where does it win by its prior alone?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from contrapose.data import Card, Micro
from contrapose.errors import InputError
from contrapose.metrics import IntArray, holm
from contrapose.results.audit.measuring import Achieved, measure_captions, shown
from contrapose.results.audit.request import AuditRequest
from contrapose.results.audit.schema import WHOLE, LikelihoodPart, LikelihoodVerdict
from contrapose.results.compare import aligned, compare
from contrapose.results.evaluate import summarise
from contrapose.results.groups import parts
from contrapose.results.measured import Measured
from contrapose.results.schema import MetricValue
from contrapose.results.selection import select
from contrapose.scoring import Frame, frame_of, read_scores

LEVEL = 0.05


def read_likelihoods(request: AuditRequest, card: Card, frame: Frame) -> tuple[Measured, list[str]]:
    """The outcomes of a file of likelihoods on the audited examples that it has.

    Raises:
        InputError: the file is not one of this benchmark, or has none of the examples.
    """
    path = request.likelihoods
    if path is None or frame.match.shape[1] != 1:
        raise InputError(f"--likelihoods compares captions of one image, which {card.name} is not.")
    whole = select(request.benchmark, root=request.root).parts[""][1]
    if not isinstance(whole, list):
        raise InputError(f"{card.name} takes no --likelihoods.")
    answers = read_scores(path, card, frame_of(whole), partial=True)
    place = {name: i for i, name in enumerate(answers.frame.ids)}
    at = [(k, place[name]) for k, name in enumerate(frame.ids) if name in place]
    if not at:
        raise InputError("holds none of the examples that are audited.", file=path)
    mine, theirs = np.array(at, dtype=np.int64).T
    values = answers.scores[theirs][:, 0, : frame.match.shape[2]]
    if len(at) == len(frame):
        return measure_captions(values, frame, card), []
    note = f"likelihoods are there for {len(at):,} of {len(frame):,} examples"
    return measure_captions(values, frame.take(mine), card), [note]


def compare_likelihoods(
    likelihood: Measured, blind: Sequence[Achieved], card: Card, *, resamples: int, seed: int
) -> list[LikelihoodPart]:
    """The likelihood and the best blind score, part by part; means over examples.

    Every part is compared with the blind score that does best there; p-values are corrected for
    the number of parts (Holm).
    """
    metric = shown(card)[0]
    likelihood = _only(likelihood, metric)
    by = tuple(tag for tag in card.by if any(likelihood.tags.get(tag, ())))
    places = _distinct({WHOLE: np.arange(len(likelihood)), **parts(likelihood, by)})
    sides = [
        (each.result.label, *aligned(_only(each.measured[""], metric), likelihood, partial=True))
        for each in blind
        if "" in each.measured
    ]
    found: list[LikelihoodPart] = []
    for name, positions in places.items():
        wanted = {likelihood.ids[i] for i in positions.tolist()}
        rows = []
        for label, a, b in sides:
            inside = np.array([i for i, unit in enumerate(a.ids) if unit in wanted], dtype=np.int64)
            if inside.size:
                rows.append((label, a.take(inside), b.take(inside)))
        if not rows:
            continue
        label, a, b = max(rows, key=lambda row: row[1].measures[metric].values.mean())
        wrong = b.take(np.flatnonzero(a.measures[metric].values == 0))
        change = compare(a, b, Micro(), names=(metric,), resamples=resamples, seed=seed)[0][metric]
        found.append(
            LikelihoodPart(
                part=name,
                metric=metric,
                likelihood=summarise(b, resamples=resamples, seed=seed)[metric],
                blind=summarise(a, resamples=resamples, seed=seed)[metric],
                by=label,
                difference=change.difference,
                ci95=change.ci95,
                test=change.test,
                p=change.p,
                p_holm=change.p,
                where_wrong=summarise(wrong, resamples=resamples, seed=seed)[metric]
                if len(wrong)
                else None,
                verdict="undecided",
            )
        )
    adjusted = holm([each.p for each in found])
    return [
        each.model_copy(update={"p_holm": float(p), "verdict": _verdict(each, float(p))})
        for each, p in zip(found, adjusted, strict=True)
    ]


def _distinct(places: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Without parts that hold what an earlier one holds under another name."""
    seen = {positions.tobytes(): name for name, positions in reversed(list(places.items()))}
    return {name: places[name] for name in places if seen[places[name].tobytes()] == name}


def _verdict(part: LikelihoodPart, p_holm: float) -> LikelihoodVerdict:
    if not _above_chance(part.likelihood):
        return "not above chance"
    better = part.difference > 0 and p_holm < LEVEL
    follows = part.where_wrong is not None and not _above_chance(part.where_wrong)
    if _above_chance(part.blind) and (not better or follows):
        return "won by prior alone"
    return "beyond blind" if better and not follows else "undecided"


def _above_chance(value: MetricValue) -> bool:
    return value.chance is not None and value.ci95[0] > value.chance


def _only(measured: Measured, metric: str) -> Measured:
    return replace(measured, measures={metric: measured.measures[metric]}, derived={})
