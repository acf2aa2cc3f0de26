"""Every score that never looks, of the captions of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contrapose.errors import ContraposeError, InputError
from contrapose.metrics import FloatArray
from contrapose.models import Model, load_model
from contrapose.results.audit.baselines import (
    FOLDS,
    lengths,
    ngram_scores,
    own_ngram,
    read_corpus,
)
from contrapose.results.audit.captions import Captions
from contrapose.results.audit.request import AuditRequest
from contrapose.scoring import Asking, OtherImages, Progress, Store, prior_words, require_score
from contrapose.scoring.ask import asked, blind_question
from contrapose.scoring.prior_values import prior_values


@dataclass(frozen=True, slots=True, eq=False)
class BlindScore:
    """One score of all captions.

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
    captions: Captions, request: AuditRequest, progress: Progress | None = None
) -> tuple[list[BlindScore], list[str]]:
    """Every blind score that was asked for, and what a reader should know of them.

    Raises:
        InputError: a model cannot be loaded or gives no likelihoods, or the corpus is none.
        MissingExtraError: a library is not installed.
    """
    if isinstance(request.prior, OtherImages):
        raise InputError(
            "an audit looks at none of the benchmark's images: take --prior noise:3 or images:DIR."
        )
    store = Store(request.cache)
    found: list[BlindScore] = []
    notes: list[str] = []

    def asking(model: Model) -> Asking:
        return Asking(
            model,
            store,
            batch_size=request.batch_size,
            prior=request.prior,
            progress=progress,
            policy=request.ask,
        )

    # What needs no model comes first, so that what is wrong with it costs no time.
    plain = [*_ngram(captions, request, notes), _length(captions)]
    loaded = {name: _loaded(name, request) for name in dict.fromkeys(request.models)}
    for name, model in loaded.items():
        _require(model, "prior", f"--model {name}")
    if request.lm is not None:
        try:
            model = _loaded(request.lm, request)
        except ContraposeError as error:
            if request.lm_needed:
                raise
            notes.append(f"no language model was asked: {str(error).rstrip('.')}")
        else:
            _require(model, "blind", f"--lm {request.lm}")
            found += _language(captions, asking(model))
    found += [_prior(captions, asking(model)) for model in loaded.values()]
    return [*found, *plain], notes


def _loaded(name: str, request: AuditRequest) -> Model:
    return load_model(
        name,
        device=request.device,
        dtype=request.dtype,
        trust_remote_code=request.trust_remote_code,
    )


def _require(model: Model, score: str, option: str) -> None:
    try:
        require_score(model, score)
    except InputError as error:
        raise InputError(f"{option}: {error.message}") from None


def _language(captions: Captions, asking: Asking) -> list[BlindScore]:
    question = blind_question(asking, captions.distinct)
    (rows,) = asked(question)
    tokens = getattr(asking.model, "lm_tokens", "caption")
    words = "log P of a caption's tokens without any image"
    return [
        BlindScore(name, asking.model.name, f"{how} {words}; counted: {tokens}", laid)
        for name, how, laid in (
            ("blind", "mean", captions.lay(question.shelf.values(rows))),
            ("blind-sum", "sum of", captions.lay(question.shelf.values(rows, "sum"))),
        )
    ]


def _prior(captions: Captions, asking: Asking) -> BlindScore:
    meaning = f"log of the mean probability under {prior_words(asking.prior, asking.model)}"
    values = prior_values(asking, captions.distinct)
    return BlindScore("prior", asking.model.name, meaning, captions.lay(values))


def _length(captions: Captions) -> BlindScore:
    meaning = "number of words, the shorter caption preferred; equal lengths tie and never win"
    return BlindScore("length", "fewer words", meaning, captions.lay(lengths(captions.distinct)))


def _ngram(captions: Captions, request: AuditRequest, notes: list[str]) -> list[BlindScore]:
    kind = "mean log P of a word under a Kneser–Ney trigram model"
    if request.ngram_corpus is not None:
        corpus = read_corpus(request.ngram_corpus)
        laid: Mapping[str, FloatArray] = captions.lay(ngram_scores(corpus, captions.distinct))
        meaning = f"{kind} fitted to {len(corpus):,} lines of {request.ngram_corpus.name}"
        return [BlindScore("ngram", request.ngram_corpus.name, meaning, laid)]
    own: dict[str, FloatArray] = {}
    for name, frame in captions.frames.items():
        scores = own_ngram(frame, request.seed)
        if scores is None:
            notes.append(
                f"{name or request.benchmark} has too few examples for an n-gram model of its own"
            )
            return []
        own[name] = scores
    meaning = (
        f"{kind} fitted to the benchmark's own captions, right and wrong alike, cross-fitted in "
        f"{FOLDS} folds of images"
    )
    return [BlindScore("ngram", f"own captions, {FOLDS}-fold", meaning, own)]
