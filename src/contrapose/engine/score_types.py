"""Score types by name: definition, required capability, store key, and the checked model call.

What a model returns is checked for shape, finiteness and sign before it is stored; a fault is a
`ModelError` of one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from contrapose.engine.parts import ListColumn
from contrapose.errors import InputError
from contrapose.files.suggest import did_you_mean
from contrapose.metrics import FloatArray, token_sum
from contrapose.models import (
    Answerer,
    Captioner,
    Chat,
    Encoder,
    Language,
    Matcher,
    Model,
    QuestionTemplate,
)

if TYPE_CHECKING:
    from PIL.Image import Image

    from contrapose.models import Ragged

SCORES: Mapping[str, str] = {
    "itc": "cosine of the dual encoder's image and text vectors; the largest where an image has "
    "several",
    "itm": "match logit of the fusion encoder",
    "lm": "mean over caption tokens of log P(token | tokens before, image); VisualGPTScore is its "
    "exp, which orders captions alike",
    "vqa": "log P(Yes | image, a question about the caption); VQAScore is its exp, which orders "
    "captions alike",
    "prior": "log of the mean over noise images of exp(lm): what the model thinks of a caption "
    "without seeing anything",
    "blind": "mean over caption tokens of log P(token | tokens before) of a language model that "
    "sees no image",
    "chat": "multiple choice asked in words, options in every order: chat:eqben for 2 × 2, else "
    "chat:sugarcrepe",
    "chat:eqben": "two images side by side, two captions: which belongs to which? Both caption "
    "orders and both image orders",
    "chat:sugarcrepe": "one image: which of its captions describes it best? Every cyclic order",
}
"""Every score that a model can be asked for, and what the number is (methods, section 2)."""

REQUIRED_CAPABILITY: Mapping[str, type] = {
    "itc": Encoder,
    "itm": Matcher,
    "lm": Captioner,
    "vqa": Answerer,
    "prior": Captioner,
    "blind": Language,
    "chat": Chat,
    "chat:eqben": Chat,
    "chat:sugarcrepe": Chat,
}

TEXT_ONLY_SCORES = ("prior", "blind")
"""Scores of a caption alone: one number, whatever the image."""

LIKELIHOOD_SCORES = ("lm", "vqa")
"""Log-probabilities under an image, from which a prior can be taken out."""

Progress = Callable[[str, int, int], None]
"""Told after each batch: what is being asked, how many are done, and how many there are."""


def has_pooling(model: Model) -> bool:
    """Whether a model gives an image several vectors, of which the nearest to a caption counts.

    Raises:
        InputError: it pools them in a way that is not known here.
    """
    pool = getattr(model, "pool", None)
    if pool not in (None, "max"):
        raise InputError(f"{model.name} has the pool {pool!r}; 'max' is the only one there is.")
    return pool is not None


def default_scores(model: Model) -> tuple[str, ...]:
    """Return the default scores of a model: all it can give that see the image.

    A model that gives none of those is asked for what it gives. To be asked in words takes long and
    may cost money: it is for those that say so in `default_scores`, or can do nothing else.
    """
    own: tuple[str, ...] | None = getattr(model, "default_scores", None)
    if own:
        return own
    able = tuple(
        name
        for name, needed in REQUIRED_CAPABILITY.items()
        if isinstance(model, needed) and ":" not in name
    )
    return tuple(name for name in able if name not in (*TEXT_ONLY_SCORES, "chat")) or able


def parse_question_template(text: str | None, answer: str | None) -> QuestionTemplate:
    """Parse the question template and answer of `vqa`.

    Raises:
        InputError: it has no place, or several, for the caption, or the answer is empty.
    """
    usual = QuestionTemplate()
    asked = usual.text if text is None else text
    if asked.count("{}") != 1:
        raise InputError(
            f"--question must hold {{}} once, where the caption goes; found {asked!r}."
        )
    wanted = usual.answer if answer is None else answer.strip()
    if not wanted:
        raise InputError("--answer must not be empty; left out it is Yes.")
    return QuestionTemplate(asked, wanted)


def require_score(model: Model, score: str) -> None:
    """Require that a model can give a score.

    Raises:
        InputError: there is no such score, or the model cannot give it.
    """
    if score not in SCORES:
        raise InputError(f"there is no score {score!r}: {did_you_mean(score, SCORES)}")
    if not isinstance(model, REQUIRED_CAPABILITY[score]):
        able = [name for name, needed in REQUIRED_CAPABILITY.items() if isinstance(model, needed)]
        raise InputError(
            f"{model.name} cannot give {score!r}; it gives {', '.join(able) or 'no score'}."
        )


def store_key(model: Model, score: str, question: QuestionTemplate | None = None) -> str:
    """Return the score's key in the store, with everything that would change its value."""
    if score in ("lm", "blind"):
        if not isinstance(model, Captioner if score == "lm" else Language):
            raise InputError(f"{model.name} gives no likelihoods.")
        return f"{score}:mean:{model.lm_tokens}"
    if score == "vqa":
        asked = question or QuestionTemplate()
        return f"vqa:log:{json.dumps([asked.text, asked.answer], ensure_ascii=False)}"
    if score.partition(":")[0] == "chat":
        return "chat:reply"
    if score == "itc":
        return "itc:max-cosine" if has_pooling(model) else "itc:cosine"
    return "itm:logit"


class ModelError(InputError):
    """A model returned invalid output or cannot run at all: the run ends."""


Columns = dict[str, FloatArray | ListColumn]
"""What is stored of each answer, by name: `value` is the score."""

LOGPROB_TOLERANCE = 1e-3
"""How far above 0 rounding can leave a log-probability."""


def compute_match_logits(model: Model, images: Sequence[Image], texts: Sequence[str]) -> Columns:
    """Compute the match logits of pairs."""
    logits = cast(Matcher, model).match(images, texts)
    return {"value": check_shape(logits, (len(texts),), model, "match")}


def compute_likelihoods(model: Model, images: Sequence[Any], texts: Sequence[str]) -> Columns:
    """Compute mean, sum, count and list of each caption's token log-probabilities."""
    ragged = cast(Captioner, model).token_logprobs(images, texts)
    return _build_token_columns(ragged, model, texts, "lm")


def compute_blind_likelihoods(model: Model, texts: Sequence[str]) -> Columns:
    """Compute the token log-probabilities of a language model, which sees no image."""
    return _build_token_columns(cast(Language, model).text_logprobs(texts), model, texts, "blind")


def compute_answer_likelihoods(
    model: Model, images: Sequence[Any], texts: Sequence[str], question: QuestionTemplate
) -> Columns:
    """Compute the log-probability of the answer to the question about each caption."""
    given = cast(Answerer, model).answer_logprobs(images, texts, question)
    value = check_shape(given, (len(texts),), model, "answer_logprobs")
    return {"value": _clip_logprobs(value, model, "vqa")}


def _build_token_columns(ragged: Ragged, model: Model, texts: Sequence[str], score: str) -> Columns:
    offsets = np.asarray(to_array(ragged.offsets), dtype=np.int64)
    if len(offsets) != len(texts) + 1:
        raise ModelError(
            f"{model.name} gave token log-probabilities of {len(offsets) - 1} captions for "
            f"{len(texts)}."
        )
    flat: FloatArray = np.asarray(to_array(ragged.values), dtype=np.float64)
    if np.isnan(flat).any():  # the caller names the caption
        flat = np.where(np.isnan(flat), np.inf, flat)
    flat = _clip_logprobs(flat, model, score)
    tokens = np.diff(offsets)
    total = token_sum(flat, offsets)
    return {
        "value": total / tokens,
        "sum": total,
        "tokens": tokens.astype(np.float64),
        "logprobs": ListColumn(flat.astype(np.float32), offsets),
    }


def _clip_logprobs(values: FloatArray, model: Model, score: str) -> FloatArray:
    """Clip rounding above 0 in log-probabilities; refuse larger values, which are losses."""
    above = values[np.isfinite(values) & (values > LOGPROB_TOLERANCE)]
    if above.size:
        raise ModelError(
            f"{model.name} gave {above[0]:g} as a log-probability for score {score!r}; it is never "
            "above 0, and a loss has the other sign."
        )
    return np.where(np.isfinite(values), np.minimum(values, 0.0), values)


def normalize_vectors(
    vectors: object, count: int, model: Model, *, several: bool = False
) -> FloatArray:
    """Normalize (n, d) vectors to unit length, as float32.

    Of several vectors each, (n, q, d), every one has length one, and they lie end to end.
    """
    shape = (count, None, None) if several else (count, None)
    array = check_shape(vectors, shape, model, "embed")
    length = np.sqrt((array**2).sum(axis=-1, keepdims=True))
    if not np.isfinite(length).all() or not (length > 0).all():
        raise ModelError(
            f"{model.name} gave a vector of NaN, infinity or zeros for score 'itc'; "
            "its weights or its input are broken."
        )
    return np.asarray(array / length, dtype=np.float32).reshape(count, -1)


def check_shape(
    values: object, shape: tuple[int | None, ...], model: Model, method: str
) -> FloatArray:
    """Convert a model's output to float64 and check its shape; None is any length."""
    array = to_array(values)
    fits = array.ndim == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise ModelError(
            f"{model.name}: {method} gave an array of shape {array.shape} for {shape[0]} inputs."
        )
    return np.asarray(array, dtype=np.float64)


def require_finite(columns: Columns, texts: Sequence[str], model: Model, score: str) -> None:
    """Refuse NaN and infinite scores, naming the caption."""
    values = cast(FloatArray, columns["value"])
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ModelError(
            f"{model.name} gave a score {score!r} that is not a number for the caption "
            f"{texts[int(bad[0])]!r} ({bad.size} of {len(values)} in its batch)."
        )


def to_array(values: Any) -> np.ndarray[Any, Any]:
    """Convert a tensor of any device and type, or an array-like, to a NumPy array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (
            values.float() if values.is_floating_point() and values.element_size() < 4 else values
        )
        return np.asarray(values.numpy())
    return np.asarray(values)
