"""Metrics: pure functions from arrays of scores to outcomes, statistics and tests.

Nothing here knows a model, a file or a benchmark. An `Outcome` is one metric's answer for each
example; a `Statistic` is a number of the whole set that can be resampled; `alpha` tunes the one
parameter of debiasing.
"""

from contrapose.metrics.alpha.intervals import (
    AlphaIntervals,
    augmented_intervals,
    brittle_intervals,
    first_intervals,
    group_intervals,
    original_intervals,
    text_intervals,
)
from contrapose.metrics.alpha.own_images import refuse_own_images
from contrapose.metrics.alpha.selection import (
    AlphaCurve,
    AlphaOptimum,
    CrossValidation,
    HeldOutMeans,
    cross_validate,
    sweep,
)
from contrapose.metrics.audit import Audit, Histogram, audit, histogram, solvable_blind
from contrapose.metrics.boundaries import (
    THRESHOLDS,
    boundary_grounding,
    boundary_scores,
    predict_boundary,
)
from contrapose.metrics.chance import (
    chance_levels,
    diagonal_group_chance,
    group_chance,
    image_chance,
    text_chance,
)
from contrapose.metrics.chat import UNPARSABLE, Choices, joint_choice, multiple_choice
from contrapose.metrics.foils import (
    acc,
    augmented_accuracy,
    brittleness,
    mean_score,
    min_precision,
    official_mask,
    original_accuracy,
    original_only,
    p_c,
    p_f,
    pairwise_accuracy,
    positive_only,
)
from contrapose.metrics.likelihood import debias, log_prior, token_mean, token_sum, visual_gpt_score
from contrapose.metrics.ngram import NGram, fit_ngram
from contrapose.metrics.pairs import (
    Equivariance,
    accuracy,
    equivariance,
    group_score,
    image_score,
    pair_wins,
    standardized_spread,
    text_score,
)
from contrapose.metrics.retrieval import (
    best_of,
    mean_recall,
    rank_edits,
    recall_chance,
    recalls,
    simat_score,
    top_k,
)
from contrapose.metrics.statistics.bootstrap import (
    auroc,
    auroc_interval,
    interval,
    intervals,
    percentile_interval,
    replicates,
)
from contrapose.metrics.statistics.correlation import correlation_of
from contrapose.metrics.statistics.resampling import clusters_of, has_repeats
from contrapose.metrics.statistics.shares import FEWEST_UNITS, clopper_pearson
from contrapose.metrics.statistics.significance import (
    McNemar,
    PairedDifference,
    holm,
    mcnemar,
    paired_bootstrap,
)
from contrapose.metrics.statistics.statistic import (
    Statistic,
    combine,
    macro_mean,
    mean_of,
    minimum_of_means,
    standard_deviation,
)
from contrapose.metrics.types import BoolArray, FloatArray, IntArray, Outcome

__all__ = [
    "FEWEST_UNITS",
    "THRESHOLDS",
    "UNPARSABLE",
    "AlphaCurve",
    "AlphaIntervals",
    "AlphaOptimum",
    "Audit",
    "BoolArray",
    "Choices",
    "CrossValidation",
    "Equivariance",
    "FloatArray",
    "HeldOutMeans",
    "Histogram",
    "IntArray",
    "McNemar",
    "NGram",
    "Outcome",
    "PairedDifference",
    "Statistic",
    "acc",
    "accuracy",
    "audit",
    "augmented_accuracy",
    "augmented_intervals",
    "auroc",
    "auroc_interval",
    "best_of",
    "boundary_grounding",
    "boundary_scores",
    "brittle_intervals",
    "brittleness",
    "chance_levels",
    "clopper_pearson",
    "clusters_of",
    "combine",
    "correlation_of",
    "cross_validate",
    "debias",
    "diagonal_group_chance",
    "equivariance",
    "first_intervals",
    "fit_ngram",
    "group_chance",
    "group_intervals",
    "group_score",
    "has_repeats",
    "histogram",
    "holm",
    "image_chance",
    "image_score",
    "interval",
    "intervals",
    "joint_choice",
    "log_prior",
    "macro_mean",
    "mcnemar",
    "mean_of",
    "mean_recall",
    "mean_score",
    "min_precision",
    "minimum_of_means",
    "multiple_choice",
    "official_mask",
    "original_accuracy",
    "original_intervals",
    "original_only",
    "p_c",
    "p_f",
    "pair_wins",
    "paired_bootstrap",
    "pairwise_accuracy",
    "percentile_interval",
    "positive_only",
    "predict_boundary",
    "rank_edits",
    "recall_chance",
    "recalls",
    "refuse_own_images",
    "replicates",
    "simat_score",
    "solvable_blind",
    "standard_deviation",
    "standardized_spread",
    "sweep",
    "text_chance",
    "text_intervals",
    "text_score",
    "token_mean",
    "token_sum",
    "top_k",
    "visual_gpt_score",
]
