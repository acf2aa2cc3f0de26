"""One part of a benchmark and one score: asked, measured, or the reason why not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from contrapose.data import Benchmark, EditSet, Example, Gallery
from contrapose.errors import InputError
from contrapose.metrics import IntArray
from contrapose.models import Model, QuestionTemplate
from contrapose.results.chat import Said, measure_chat
from contrapose.results.debias import Alpha, take_out_gallery_prior, take_out_prior
from contrapose.results.evaluate import RESAMPLES
from contrapose.results.families import Question, measure
from contrapose.results.galleries import measure_edits, measure_gallery
from contrapose.results.measured import Measured
from contrapose.results.schema import AlphaReport
from contrapose.results.selection import Chosen, Selection
from contrapose.results.skipping import NothingLeftError, Skipping, seen_edits, seen_gallery
from contrapose.results.suites import Part
from contrapose.results.tables import ScoreTable, answers_table, grid_table
from contrapose.scoring import (
    LIKELIHOODS,
    UNSEEING,
    Answers,
    Asking,
    Lists,
    Policy,
    Prior,
    Skip,
    ask_ahead,
    ask_edits,
    ask_examples,
    ask_gallery,
    ask_prior,
    ask_tokens,
    gallery_prior,
    gallery_prior_words,
    pools,
    prior_words,
)
from contrapose.scoring.chat import is_chat, template_for, unfit_for_chat

DEBIASED: Mapping[str, str] = {f"{score}-alpha": score for score in LIKELIHOODS}
"""Likelihoods with the prior taken out of choices among captions, and what they are made of."""

TOKENS = ("lm", "blind")
"""Scores that are made of token log-probabilities."""

HALF = math.log(0.5)
"""Above it a yes is likelier than not."""

CHOICES = ("choice", "pairs", "triple", "foil")
"""Families in which captions are chosen among, so that a prior has something to decide."""


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What the user asked; the options of `contrapose eval` by the same names.

    Attributes:
        benchmarks: names as `find_benchmark` knows them.
        scores: none means all that a model can do.
        root: the benchmark's folder, or one that holds a folder of each benchmark's name.
        subsets: parts of a suite or values of the tag `subset`; none means all.
        limit: at most so many examples of each subset.
        device: where models compute; `auto` takes CUDA where there is some.
        dtype: what they compute in; None is as the model's name says.
        batch_size: None begins with each model's suggestion, and finds what memory allows.
        workers: threads that decode images; None takes one a core.
        cache: where answers are kept, a folder or a URL; None keeps them in memory alone.
        ask: what to do with what the cache knows.
        strict: refuse to skip anything.
        long: skip captions that are longer than a model reads, or cut them.
        rerank: how many of each query of a gallery `itm` and `lm` are asked, 0 for all; None
            decides by its size.
        trust_remote_code: run code that comes with a model's weights.
        prior: also report `lm` and `vqa` with this prior taken out, as `lm-alpha`, `vqa-alpha`.
        alpha: how much of it.
        question: what `vqa` asks.
        tokens: also put the token log-probabilities of `lm` and `blind` into the score tables.
        resamples: of the bootstrap.
        seed: of everything random.
    """

    benchmarks: tuple[str, ...]
    scores: tuple[str, ...] = ()
    root: Path | None = None
    subsets: tuple[str, ...] = ()
    limit: int | None = None
    device: str = "auto"
    dtype: str | None = None
    batch_size: int | None = None
    workers: int | None = None
    cache: Path | str | None = None
    ask: Policy = "missing"
    strict: bool = False
    long: Literal["skip", "cut"] = "skip"
    rerank: int | None = None
    trust_remote_code: bool = False
    prior: Prior | None = None
    alpha: Alpha = "auto"
    question: QuestionTemplate = field(default_factory=QuestionTemplate)
    tokens: bool = False
    resamples: int = RESAMPLES
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One part's answers and what they say.

    Attributes:
        part: what was measured.
        table: the scores, pair by pair; None when they are too many.
        alpha: what the prior's share decides.
        skipped: what could not be asked, and is left out.
        rerank: how many of each query of a gallery were asked; 0 when it was all.
        said: what was asked in words, of `chat`.
    """

    part: Part
    table: ScoreTable | None
    alpha: AlphaReport | None = None
    skipped: Skipping = field(default_factory=dict)
    rerank: int = 0
    said: Said | None = None


def answers_ahead(asking: Asking, selection: Selection, score: str, names: Sequence[str]) -> None:
    """Ask about the examples of all parts together; the parts then find their answers."""
    if len(names) < 2 or is_chat(score):
        return
    data = [selection.parts[name][1] for name in names]
    examples = [example for each in data if isinstance(each, list) for example in each]
    ask_ahead(asking, DEBIASED.get(score, score), examples)
    if score == "lm-alpha":
        ask_ahead(asking, "prior", examples)


def unfit_for(benchmark: Benchmark, data: Chosen, model: Model, score: str, *, named: bool) -> str:
    """Why a part is not asked for a score; empty when it is."""
    if is_chat(score):
        family = benchmark.card.family
        return unfit_for_chat(score, template_for(score, family), family)
    if isinstance(data, EditSet) and score != "itc":
        return "edit queries need vectors, which only itc has"
    if isinstance(data, EditSet) and pools(model):
        return f"edit queries add one vector an image, and {model.name} gives several"
    if score in UNSEEING and isinstance(data, Gallery):
        return "there is no choice among a few captions"
    chooses = isinstance(data, Gallery) or benchmark.card.family in CHOICES
    if (score in UNSEEING or score in DEBIASED) and not chooses:
        return "there is no choice among captions"
    whole = isinstance(data, Gallery) and score != "itc" and not named
    why = "a gallery needs every image with every caption; name the subset to ask all the same"
    return why if whole else ""


def outcome_of(
    asking: Asking, selection: Selection, name: str, score: str, request: EvalRequest
) -> Outcome:
    """Ask about one part, and measure what could be asked.

    Raises:
        NothingLeftError: nothing could.
    """
    benchmark, data = selection.parts[name]
    card, prefix = benchmark.card, f"{name}/" if name else ""
    if isinstance(data, Gallery):
        return _gallery_outcome(asking, benchmark, data, score, request, prefix)
    if isinstance(data, EditSet):
        grid = ask_edits(asking, score, data)
        table = grid_table(grid, data, prefix)
        data, seen, skipped = seen_edits(data, grid)
        measured = measure_edits(seen.scores, data, selection.root)
        return Outcome(Part(card, _noted(measured, grid.notes)), table, skipped=skipped)
    if is_chat(score):
        measured, said, skipped = measure_chat(asking, card, data, score, prefix)
        return Outcome(Part(card, measured), None, skipped=skipped, said=said)
    base = DEBIASED.get(score, score)
    answers = ask_examples(asking, base, data)
    kept = _left(answers, card.name)
    if score not in DEBIASED:
        table = answers_table(kept, prefix, tokens=_tokens(asking, score, data, answers, request))
        question = Question(kept, card, threshold=HALF if score == "vqa" else None)
        return Outcome(Part(card, measure(question)), table, skipped=answers.skipped)
    prior = ask_prior(asking, kept.frame, base, data)
    blank = np.isnan(prior) & kept.frame.present.any(axis=1)
    if blank.any():  # captions that the model reads under an image, and not under noise
        unread = Skip("the caption has no prior", "the model gives a caption no prior")
        more = {kept.frame.ids[k]: unread for k in np.flatnonzero(blank.any(axis=1)).tolist()}
        answers = replace(answers, skipped={**answers.skipped, **more})
        kept, prior = _left(answers, card.name), prior[~blank.any(axis=1)]
    measured, alpha = take_out_prior(
        Question(kept, card),
        prior,
        alpha=request.alpha,
        seed=request.seed,
        words=prior_words(asking.prior, asking.model),
    )
    table = answers_table(kept, prefix, prior=prior)
    return Outcome(Part(card, measured), table, alpha, answers.skipped)


def _gallery_outcome(
    asking: Asking,
    benchmark: Benchmark,
    data: Gallery,
    score: str,
    request: EvalRequest,
    prefix: str,
) -> Outcome:
    card, base = benchmark.card, DEBIASED.get(score, score)
    if score in DEBIASED and request.rerank:
        raise InputError(f"{score} needs every pair of a gallery; leave out --rerank.")
    grid = ask_gallery(asking, base, data, rerank=request.rerank)
    table = grid_table(grid, data, prefix)
    data, seen, skipped = seen_gallery(data, grid)
    alpha = None
    if score in DEBIASED:
        measured, alpha = take_out_gallery_prior(
            seen.scores,
            gallery_prior(asking, base, data, seen),
            data,
            card,
            alpha=request.alpha,
            seed=request.seed,
            words=gallery_prior_words(asking.prior, asking.model, data),
        )
    else:
        measured = measure_gallery(seen.scores, data, card, from_text=seen.from_text)
    return Outcome(Part(card, _noted(measured, grid.notes)), table, alpha, skipped, grid.rerank)


def _tokens(
    asking: Asking, score: str, data: list[Example], answers: Answers, request: EvalRequest
) -> tuple[Lists, IntArray] | None:
    """Token log-probabilities of the examples that could be asked, when the user wants them."""
    if not request.tokens or score not in TOKENS:
        return None
    lists, places = ask_tokens(asking, score, data)
    kept = [name not in answers.skipped for name in answers.frame.ids]
    return lists, places[np.array(kept, dtype=np.bool_)]


def _left(answers: Answers, name: str) -> Answers:
    """The answers to the examples that could be asked."""
    kept = answers.answered()
    if not len(kept.frame):
        raise NothingLeftError(name, answers.skipped)
    return kept


def _noted(measured: Measured, notes: tuple[str, ...]) -> Measured:
    return replace(measured, notes=(*measured.notes, *notes))
