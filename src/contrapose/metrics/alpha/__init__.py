"""α-debiasing: where each example is right, the exact optimum, and its honest estimate."""

from contrapose.metrics.alpha.crossval import CrossValidated, HeldOut, cross_validate
from contrapose.metrics.alpha.intervals import (
    Intervals,
    augmented_intervals,
    brittle_intervals,
    group_intervals,
    original_intervals,
    text_intervals,
)
from contrapose.metrics.alpha.prior import refuse_own_images
from contrapose.metrics.alpha.rankings import first_intervals
from contrapose.metrics.alpha.sweep import Best, Curve, sweep

__all__ = [
    "Best",
    "CrossValidated",
    "Curve",
    "HeldOut",
    "Intervals",
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
