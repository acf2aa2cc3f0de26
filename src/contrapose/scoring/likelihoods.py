"""Captioners' scores come as log-likelihoods, probabilities or inverse losses: made one."""

from __future__ import annotations

from typing import Literal

import numpy as np

from contrapose.errors import InputError
from contrapose.metrics import FloatArray

LikelihoodScale = Literal["log", "probability", "inverse-nll"]
"""log: mean log P per token. probability: its exp (VisualGPTScore). inverse-nll: 1 / mean NLL."""


def to_log_likelihood(values: FloatArray, scale: LikelihoodScale) -> FloatArray:
    """Mean log-likelihoods per token, whatever form they were stored in.

    Raises:
        InputError: a value that cannot be a likelihood in that form.
    """
    wide = np.asarray(values, dtype=np.float64)
    known = wide[np.isfinite(wide)]
    if scale == "log":
        if (known > 0).any():
            raise InputError(
                f"a log-likelihood is never above 0, and {known.max():g} is; "
                "say what the scores are with --likelihood-as probability or inverse-nll."
            )
        return wide
    if (known <= 0).any() or (scale == "probability" and (known > 1).any()):
        bad = known[(known <= 0) | (known > 1)][0]
        raise InputError(f"{bad:g} cannot be a caption's {scale}; see --likelihood-as.")
    return to_log(wide) if scale == "probability" else -1.0 / wide


def to_log(values: FloatArray) -> FloatArray:
    """Natural logarithm; padding stays NaN."""
    with np.errstate(invalid="ignore"):
        return np.log(values)
