"""Caption likelihoods: token log-probabilities to scores, priors and debiased scores.

Lin et al., Revisiting the Role of Language Priors in Vision-Language Models (2024): VisualGPTScore
and α-debiasing (equation 7), log s_α = log P(t | i) − α·log P(t).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError, option
from contrapose.metrics.types import FloatArray, IntArray, merge_ties, require_finite, widen

LikelihoodScale = Literal["log", "probability", "inverse-nll"]
"""log: mean log P per token. probability: its exp (VisualGPTScore). inverse-nll: 1 / mean NLL."""


def token_sum(logprobs: ArrayLike, offsets: ArrayLike) -> FloatArray:
    """(k,) Σ over a caption's tokens of log P(t_k | t_<k, I), in float64.

    Args:
        logprobs: all captions' token log-probabilities, one caption after the other.
        offsets: (k + 1,) where each caption's tokens begin, and the end.

    Raises:
        InputError: the offsets do not fit, or a caption has no tokens.
    """
    flat, bounds = _check_ragged(logprobs, offsets)
    if len(bounds) == 1:
        return np.zeros(0)
    return np.asarray(np.add.reduceat(flat, bounds[:-1]))


def token_mean(logprobs: ArrayLike, offsets: ArrayLike) -> FloatArray:
    """(k,) the mean over a caption's tokens, `lm`; arguments as in `token_sum`."""
    return np.asarray(token_sum(logprobs, offsets) / np.diff(np.asarray(offsets)))


def visual_gpt_score(logprobs: ArrayLike, offsets: ArrayLike) -> FloatArray:
    """(k,) exp of the mean token log-probability; arguments as in `token_sum`."""
    return np.asarray(np.exp(token_mean(logprobs, offsets)))


def log_prior(lm: ArrayLike) -> FloatArray:
    """Log prior log P(T) = log mean_k exp(lm(T | I_k)) over K images, without overflow.

    Args:
        lm: (K, …) log-likelihoods of the same captions under K images.
    """
    array = np.asarray(widen(lm), dtype=np.float64)
    if not array.ndim or not len(array):
        raise InputError("a prior needs log-likelihoods under at least one image.")
    top = array.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(array - shift).mean(axis=0)) + shift)


def debias(lm: ArrayLike, log_prior: ArrayLike, alpha: float) -> FloatArray:
    """Debiased log s_α = lm − α·log P(T): raw at α = 0, pointwise mutual information at 1.

    Args:
        lm: (…, m, n) log-likelihoods of n captions under m images.
        log_prior: (…, n) the captions' log priors, the same for every image; or shaped as `lm`.
        alpha: how much of the prior to take away.

    Raises:
        InputError: shapes do not fit, or a prior is not finite.
    """
    scores = np.asarray(widen(lm), dtype=np.float64)
    prior = require_finite(log_prior, "log priors")
    if prior.shape == (*scores.shape[:-2], scores.shape[-1]) and prior.ndim < scores.ndim:
        prior = prior[..., None, :]
    elif prior.shape != scores.shape:
        raise InputError(f"priors of shape {prior.shape} do not fit scores of {scores.shape}.")
    return subtract_prior(scores, alpha, prior)


GRID_BITS = 34
"""Binary digits that debiased scores of a gallery keep: ten more than a model's float32 has."""


def subtract_prior(
    lm: FloatArray, alpha: float, prior: FloatArray, *, grid: bool = False
) -> FloatArray:
    """Debiased lm − α·prior in which captions that tie on paper tie exactly; as it is at α = 0.

    Args:
        lm: (…, n) log-likelihoods of n captions; NaN stays.
        alpha: how much of the prior to take away.
        prior: of a shape that broadcasts to the log-likelihoods.
        grid: round to a grid instead of comparing all captions, for galleries of very many.
    """
    if alpha == 0 or not lm.size:
        return lm
    removed = alpha * prior
    scores = np.asarray(lm - removed, dtype=np.float64)
    if grid:
        largest = max(
            float(np.abs(part).max(where=np.isfinite(part), initial=0)) for part in (lm, removed)
        )
        step = 2.0 ** (np.ceil(np.log2(largest)) - GRID_BITS) if largest else 1.0
        scores /= step
        np.rint(scores, out=scores)
        scores *= step
        return scores
    sizes = np.abs(lm) + np.abs(removed)
    sizes = np.where(np.isfinite(sizes), sizes, 0.0)
    return merge_ties(scores, sizes.max(axis=-1, keepdims=True))


def to_log_likelihood(values: FloatArray, scale: LikelihoodScale) -> FloatArray:
    """Convert likelihoods of any scale to mean log-likelihoods per token.

    Raises:
        InputError: a value cannot be a likelihood on that scale.
    """
    wide = np.asarray(values, dtype=np.float64)
    known = wide[np.isfinite(wide)]
    if scale == "log":
        if (known > 0).any():
            raise InputError(
                f"a log-likelihood is never above 0, and {known.max():g} is; say what the scores "
                f"are with {option('likelihood_as', 'probability')} or inverse-nll."
            )
        return wide
    if (known <= 0).any() or (scale == "probability" and (known > 1).any()):
        bad = known[(known <= 0) | (known > 1)][0]
        raise InputError(f"{bad:g} cannot be a caption's {scale}; see {option('likelihood_as')}.")
    if scale == "inverse-nll":
        return -1.0 / wide
    with np.errstate(invalid="ignore"):  # padding stays NaN
        return np.log(wide)


def _check_ragged(logprobs: ArrayLike, offsets: ArrayLike) -> tuple[FloatArray, IntArray]:
    flat = np.asarray(widen(logprobs), dtype=np.float64)
    bounds = np.asarray(offsets, dtype=np.int64)
    if flat.ndim != 1 or bounds.ndim != 1 or not bounds.size:
        raise InputError("token log-probabilities and offsets must be one-dimensional.")
    if bounds[0] != 0 or bounds[-1] != len(flat):
        raise InputError(f"offsets must run from 0 to {len(flat)}, the number of tokens.")
    empty = np.diff(bounds) < 1
    if empty.any():
        raise InputError(f"caption {int(empty.argmax())} has no tokens.")
    return flat, bounds
