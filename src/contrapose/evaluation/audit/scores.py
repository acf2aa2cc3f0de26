"""Blind scores of captions: language model, prior, n-gram model and length."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrapose.arrays import Ragged, find_distinct
from contrapose.engine import (
    AnswerStore,
    OtherImages,
    Progress,
    ScoringContext,
    build_blind_request,
    compute_priors,
    describe_prior,
    require_score,
    score_missing,
)
from contrapose.engine.pace import PLAN, name_progress, report_phase, report_sentence
from contrapose.errors import ContraposeError, InputError, option
from contrapose.evaluation.audit.captions import AuditCaptions, AuditRequest, read_unselected
from contrapose.files import require_regular
from contrapose.metrics import FloatArray, IntArray, fit_ngram
from contrapose.metrics.types import merge_ties
from contrapose.models import Model, load_model
from contrapose.scores import Frame

FOLDS = 10
"""Parts into which the benchmark's own captions are cut, to fit on nine and score on the tenth."""

_WORD = re.compile(r"\w+(?:'\w+)*")
UNKNOWN_WORD = 0
"""The number of every word that the model was not fitted to."""


def length_scores(texts: Sequence[str]) -> FloatArray:
    """Length score: the negative number of words. Equal lengths are ties."""
    return np.array([-len(text.split()) for text in texts], dtype=np.float64)


def split_words(text: str) -> list[str]:
    """Split a caption into words, without case and punctuation."""
    return _WORD.findall(text.lower())


def read_corpus(path: Path) -> list[list[str]]:
    """Read the sentences of a text file, one per line.

    Raises:
        InputError: it cannot be read, or holds no word.
    """
    require_regular(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(
            f"cannot be read as a corpus ({why}); it must be text, a caption a line.", file=path
        ) from None
    sentences = [words for words in map(split_words, lines) if words]
    if not sentences:
        raise InputError("holds no captions to fit an n-gram model to.", file=path)
    return sentences


def ngram_scores(corpus: Sequence[Sequence[str]], texts: Sequence[str]) -> FloatArray:
    """(n,) mean log P of a word under a trigram model that was fitted to a corpus.

    Words that the corpus does not know are one word, of which it has seen none.
    """
    words = number_words([*corpus, *map(split_words, texts)])
    rows = np.arange(len(words))
    return _score_numbers(words, rows[: len(corpus)], rows[len(corpus) :])


def number_words(sentences: Sequence[Sequence[str]]) -> Ragged:
    """Number the words of sentences in alphabetical order."""
    numbers = {word: i for i, word in enumerate(sorted({w for line in sentences for w in line}))}
    return Ragged.of([[numbers[word] for word in line] for line in sentences])


def _score_numbers(words: Ragged, corpus: IntArray, scored: IntArray) -> FloatArray:
    """(n,) mean log P of a word of the rows `scored` under a model of the rows `corpus`."""
    fitted = words.take(corpus)
    known = np.unique(fitted.values)
    numbers = np.full(int(words.values.max(initial=0)) + 1, UNKNOWN_WORD)
    numbers[known] = np.arange(1, len(known) + 1)
    model = fit_ngram(np.split(numbers[fitted.values], fitted.offsets[1:-1]), len(known) + 1)
    sentences = [numbers[words[row]] for row in scored.tolist()]
    logprobs = model.corpus_logprobs([row if len(row) else [UNKNOWN_WORD] for row in sentences])
    # A sum that does not depend on the order of words: permuted words may tie.
    return np.array([math.fsum(row) / len(row) for row in logprobs])


def assign_folds(clusters: IntArray, seed: int, folds: int = FOLDS) -> IntArray:
    """Assign each example to a fold; examples that share an image are in one."""
    codes = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    count = int(codes.max()) + 1
    drawn = np.random.default_rng(seed).permutation(count)
    return np.asarray((drawn % min(folds, count))[codes])


def cross_fit_ngram(frame: Frame, seed: int, chosen: Sequence[str] = ()) -> FloatArray | None:
    """(k, n) cross-fitted trigram scores of the benchmark's own captions, right and wrong.

    Each example is scored by a model that was fitted to the examples of the other folds, every
    distinct caption once; which captions are right is never used. What such a model knows is
    which phrases come back: where wrong captions are made by a pattern, it tells them.

    Args:
        frame: all examples of the benchmark, which the model is fitted to.
        seed: of the folds.
        chosen: ids of the examples to score, in their order; none means all.

    Returns:
        None when all examples share one image, so that there is nothing to fit to.
    """
    texts = frame.texts or ()
    clusters = np.arange(len(frame)) if frame.clusters is None else frame.clusters
    fold = assign_folds(clusters, seed)
    if not fold.any():
        return None
    scored = np.ones(len(frame), dtype=np.bool_)
    if chosen:
        wanted = set(chosen)
        scored = np.array([name in wanted for name in frame.ids])
    distinct, at = find_distinct([text for some in texts for text in some])
    sizes = [len(some) for some in texts]
    of_example = np.repeat(np.arange(len(frame)), sizes)
    words = number_words([split_words(text) for text in distinct])
    spoken = np.diff(words.offsets) > 0
    scores = np.full((len(frame), frame.match.shape[2]), np.nan)
    flat = np.full(len(at), np.nan)
    for one in np.unique(fold[scored]).tolist():
        corpus = np.unique(at[fold[of_example] != one])
        corpus = corpus[spoken[corpus]]
        if not corpus.size:
            return None
        inside = np.flatnonzero((fold[of_example] == one) & scored[of_example])
        flat[inside] = _score_numbers(words, corpus, at[inside])
    scores[np.arange(scores.shape[1]) < np.array(sizes)[:, None]] = flat
    if not chosen:
        return scores
    position = {name: k for k, name in enumerate(frame.ids)}
    return scores[[position[name] for name in chosen]]


@dataclass(frozen=True, slots=True, eq=False)
class BlindScore:
    """Blind score of all captions.

    Attributes:
        score: its name.
        by: whose it is.
        meaning: what the number is.
        captions: for each part (k, n), NaN where there is none.
    """

    score: str
    by: str
    meaning: str
    captions: Mapping[str, FloatArray]


def blind_scores(
    captions: AuditCaptions, request: AuditRequest, progress: Progress | None = None
) -> tuple[list[BlindScore], list[str]]:
    """Compute every blind score of the request, and notes on them.

    Raises:
        InputError: a model cannot be loaded or gives no likelihoods, or the corpus is none.
        MissingExtraError: a library is not installed.
    """
    if isinstance(request.prior, OtherImages):
        raise InputError(
            f"an audit looks at none of the benchmark's images: take {option('prior', 'noise:3')} "
            "or images:DIR."
        )
    store = AnswerStore(request.cache, read_only=request.cache_use == "only")
    scores: list[BlindScore] = []
    notes: list[str] = []

    def context(model: Model) -> ScoringContext:
        return ScoringContext(
            model,
            store,
            batch_size=request.batch_size,
            prior=request.prior,
            progress=name_progress(progress, model.name),
            cache_use=request.cache_use,
        )

    models = [*([] if request.lm is None else [request.lm]), *dict.fromkeys(request.models)]
    asked = ", ".join(["n-grams", "length", *models])
    report_sentence(
        progress,
        f"{PLAN}blind scores of {sum(map(len, captions.frames.values())):,} examples: {asked}",
    )
    # What needs no model comes first, so that what is wrong with it costs no time.
    with report_phase(progress, "n-grams"):
        plain = [*_score_ngram(captions, request, notes), _score_length(captions)]
    with report_phase(progress, f"loading {', '.join(models)}"):
        loaded = {name: _load_audit_model(name, request) for name in dict.fromkeys(request.models)}
    for name, model in loaded.items():
        _require_option_score(model, "prior", option("model", name))
    if request.lm is not None:
        try:
            model = _load_audit_model(request.lm, request)
        except ContraposeError as error:
            if request.lm_needed:
                raise
            notes.append(f"no language model was asked: {str(error).rstrip('.')}")
        else:
            _require_option_score(model, "blind", option("lm", request.lm))
            scores += _score_language(captions, context(model))
    scores += [_score_prior(captions, context(model)) for model in loaded.values()]
    return [*scores, *plain], notes


def _load_audit_model(name: str, request: AuditRequest) -> Model:
    return load_model(
        name,
        device=request.device,
        dtype=request.dtype,
        trust_remote_code=request.trust_remote_code,
    )


def _require_option_score(model: Model, score: str, source: str) -> None:
    try:
        require_score(model, score)
    except InputError as error:
        raise InputError(f"{source}: {error.message}") from None


def _score_language(captions: AuditCaptions, context: ScoringContext) -> list[BlindScore]:
    question = build_blind_request(context, captions.distinct)
    (rows,) = score_missing(question)
    tokens = getattr(context.model, "lm_tokens", "caption")
    words = "log P of a caption's tokens without any image"
    return [
        BlindScore(name, context.model.name, f"{how} {words}; counted: {tokens}", laid)
        for name, how, laid in (
            ("blind", "mean", captions.by_part(question.table.values(rows))),
            ("blind-sum", "sum of", captions.by_part(question.table.values(rows, "sum"))),
        )
    ]


def _score_prior(captions: AuditCaptions, context: ScoringContext) -> BlindScore:
    meaning = f"log of the mean probability under {describe_prior(context.prior, context.model)}"
    values = compute_priors(context, captions.distinct)
    return BlindScore("prior", context.model.name, meaning, captions.by_part(values))


def _score_length(captions: AuditCaptions) -> BlindScore:
    meaning = "number of words, the shorter caption preferred; equal lengths tie and never win"
    return BlindScore(
        "length", "fewer words", meaning, captions.by_part(length_scores(captions.distinct))
    )


def _merge_ties(scores: FloatArray) -> FloatArray:
    """Make captions of an example tie where their likelihoods differ by rounding alone."""
    sizes = np.where(np.isnan(scores), 0.0, np.abs(scores))
    return merge_ties(scores, 1.0 + sizes.max(axis=-1, keepdims=True, initial=0.0))


def _score_ngram(
    captions: AuditCaptions, request: AuditRequest, notes: list[str]
) -> list[BlindScore]:
    kind = "mean log P of a word under a Kneser–Ney trigram model"
    if request.ngram_corpus is not None:
        corpus = read_corpus(request.ngram_corpus)
        values = captions.by_part(ngram_scores(corpus, captions.distinct))
        laid = {name: _merge_ties(scores) for name, scores in values.items()}
        meaning = f"{kind} fitted to {len(corpus):,} lines of {request.ngram_corpus.name}"
        return [BlindScore("ngram", request.ngram_corpus.name, meaning, laid)]
    by_part: dict[str, FloatArray] = {}
    unselected = read_unselected(request, captions)
    for name, frame in captions.frames.items():
        scores = cross_fit_ngram(unselected[name], request.seed, frame.ids)
        if scores is None:
            notes.append(
                f"{name or captions.cards[name].name} has too few examples for an n-gram model of "
                "its own"
            )
            return []
        by_part[name] = _merge_ties(scores[:, : frame.match.shape[2]])
    meaning = (
        f"{kind} fitted to all of the benchmark's own captions, right and wrong alike, "
        f"cross-fitted in {FOLDS} folds of images"
    )
    return [BlindScore("ngram", f"own captions, {FOLDS}-fold", meaning, by_part)]
