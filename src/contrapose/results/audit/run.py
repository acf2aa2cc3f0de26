"""From a benchmark's captions to its audit."""

from __future__ import annotations

from contrapose import __version__
from contrapose.errors import InputError
from contrapose.files.paused import collection_paused
from contrapose.results.audit.captions import Captions, captions_of, sizes_of
from contrapose.results.audit.likelihoods import compare_likelihoods, read_likelihoods
from contrapose.results.audit.measuring import Achieved, achieve
from contrapose.results.audit.request import AuditRequest
from contrapose.results.audit.sampling import sampled
from contrapose.results.audit.schema import AuditReport, LikelihoodPart
from contrapose.results.audit.scores import blind_scores
from contrapose.results.audit.verdict import parts_of, value_of, verdict
from contrapose.results.groups import aggregation_words
from contrapose.results.selection import Selection, select
from contrapose.scoring import Progress


def audit_benchmark(request: AuditRequest, *, progress: Progress | None = None) -> AuditReport:
    """How much of a benchmark can be solved without looking; no image of it is opened.

    Args:
        request: what to audit, and by which scores.
        progress: told after each batch of a model's answers.

    Raises:
        InputError: an unknown name, no choice among captions, or a file that cannot be used.
        MissingExtraError: a library that a model needs is not installed.
    """
    with collection_paused():
        selection = select(
            request.benchmark, root=request.root, subsets=request.subsets, limit=request.limit
        )
        if request.sample is not None:
            selection = sampled(selection, request.sample, request.seed)
        captions, balanced = captions_of(selection)
    likelihood, notes = None, _left_out(selection, captions, balanced)
    if request.likelihoods is not None:
        if list(captions.frames) != [""]:
            raise InputError(f"{selection.name} takes no --likelihoods: it is no set of one kind.")
        likelihood, more = read_likelihoods(request, captions.cards[""], captions.frames[""])
        notes += more
    if not captions.frames:
        return _report(request, selection, captions, balanced, [], [], notes)
    scores, more = blind_scores(captions, request, progress)
    achieved = [
        achieve(score, captions, resamples=request.resamples, seed=request.seed) for score in scores
    ]
    notes += more
    for each in achieved:
        if each.result.left_out:
            notes.append(
                f"{each.result.left_out:,} examples have a caption without {each.result.label}, "
                "and are left out of it"
            )
    achieved = [each for each in achieved if each.result.metrics]
    compared: list[LikelihoodPart] = []
    if likelihood is not None:
        compared = compare_likelihoods(
            likelihood,
            achieved,
            captions.cards[""],
            resamples=request.resamples,
            seed=request.seed,
        )
    return _report(request, selection, captions, balanced, achieved, compared, notes)


def _report(
    request: AuditRequest,
    selection: Selection,
    captions: Captions,
    balanced: tuple[str, ...],
    achieved: list[Achieved],
    compared: list[LikelihoodPart],
    notes: list[str],
) -> AuditReport:
    results = tuple(each.result for each in achieved)
    parts = parts_of(results) if results else []
    data = [each for _, each in selection.parts.values() if isinstance(each, list)]
    examples, clusters = sizes_of(list(captions.frames.values()))
    cards = list(captions.cards.values())
    words = "mean over parts of their main metric"
    if not selection.suite:
        words = aggregation_words(cards[0].aggregation) if cards else "none"
    cells = sum(value_of(result, part.name) is not None for result in results for part in parts)
    if cells > 1:
        notes = [
            *notes,
            f"{cells} accuracies were looked at: about {max(1, round(cells * 0.025))} of them "
            "would lie above chance by luck where nothing can be solved",
        ]
    return AuditReport(
        contrapose=__version__,
        benchmark=selection.name,
        aggregation=words,
        examples=examples or sum(map(len, data)),
        clusters=clusters,
        resamples=request.resamples,
        seed=request.seed,
        balanced=balanced,
        scores=results,
        parts=tuple(parts),
        likelihoods_from=None if request.likelihoods is None else str(request.likelihoods),
        likelihoods=tuple(compared),
        verdict=tuple(verdict(selection.name, results, parts, balanced, compared)),
        notes=tuple(notes),
    )


def _left_out(selection: Selection, captions: Captions, balanced: tuple[str, ...]) -> list[str]:
    """Parts of a suite in which no captions are chosen among."""
    audited = {*captions.frames, *balanced, selection.name}
    return [
        f"{name} is not audited: there is no choice among a few captions"
        for name in selection.parts
        if name and name not in audited
    ]
