"""α-debiasing: intervals of α, the exact optimum, and its cross-validated estimate."""

from contrapose.metrics.alpha.intervals import (
    AlphaIntervals,
    augmented_intervals,
    brittle_intervals,
    first_intervals,
    group_intervals,
    original_intervals,
    refuse_own_images,
    text_intervals,
)
from contrapose.metrics.alpha.selection import (
    AlphaCurve,
    AlphaOptimum,
    CrossValidation,
    HeldOutMeans,
    cross_validate,
    sweep,
)

__all__ = [
    "AlphaCurve",
    "AlphaIntervals",
    "AlphaOptimum",
    "CrossValidation",
    "HeldOutMeans",
    "augmented_intervals",
    "brittle_intervals",
    "cross_validate",
    "first_intervals",
    "group_intervals",
    "original_intervals",
    "refuse_own_images",
    "sweep",
    "text_intervals",
]
