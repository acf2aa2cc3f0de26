"""What answers mean: pure functions from arrays of scores to outcomes, numbers and tests.

Nothing here knows a model, a file or a benchmark. An `Outcome` is one metric's answer for each
example; a `Statistic` is a number of the whole set that can be resampled; `alpha` tunes the one
parameter of debiasing.
"""

from contrapose.metrics.alpha import (
    Best,
    CrossValidated,
    Curve,
    HeldOut,
    Intervals,
    augmented_intervals,
    brittle_intervals,
    cross_validate,
    first_intervals,
    group_intervals,
    original_intervals,
    refuse_own_images,
    sweep,
    text_intervals,
)
from contrapose.metrics.audit import Audit, Histogram, audit, histogram, solvable_blind
from contrapose.metrics.boundaries import (
    THRESHOLDS,
    boundary_grounding,
    boundary_scores,
    predict_boundary,
)
from contrapose.metrics.chance import (
    diagonal_group_chance,
    group_chance,
    image_chance,
    text_chance,
)
from contrapose.metrics.chat import UNPARSABLE, Choices, joint_choice, multiple_choice
from contrapose.metrics.classify import top_k
from contrapose.metrics.edits import best_of, rank_edits, simat_score
from contrapose.metrics.equivariance import Equivariance, equivariance
from contrapose.metrics.foils import acc, kept_officially, min_precision, p_c, p_f, pairwise
from contrapose.metrics.likelihood import (
    debias,
    log_prior,
    token_mean,
    token_sum,
    visual_gpt_score,
)
from contrapose.metrics.ngram import NGram, fit_ngram
from contrapose.metrics.outcome import Outcome
from contrapose.metrics.pairs import accuracy, group_score, image_score, text_score
from contrapose.metrics.retrieval import mean_recall, recall_chance, recalls
from contrapose.metrics.statistics import (
    McNemar,
    PairedDifference,
    Statistic,
    are_repeated,
    auroc,
    auroc_interval,
    clusters_of,
    combine,
    correlation_of,
    holm,
    interval,
    intervals,
    macro_mean,
    mcnemar,
    mean_of,
    minimum_of_means,
    paired_bootstrap,
    percentile_interval,
    replicates,
    standard_deviation,
)
from contrapose.metrics.triples import augmented, brittle, mean_score, original
from contrapose.metrics.types import BoolArray, FloatArray, IntArray

__all__ = [
    "THRESHOLDS",
    "UNPARSABLE",
    "Audit",
    "Best",
    "BoolArray",
    "Choices",
    "CrossValidated",
    "Curve",
    "Equivariance",
    "FloatArray",
    "HeldOut",
    "Histogram",
    "IntArray",
    "Intervals",
    "McNemar",
    "NGram",
    "Outcome",
    "PairedDifference",
    "Statistic",
    "acc",
    "accuracy",
    "are_repeated",
    "audit",
    "augmented",
    "augmented_intervals",
    "auroc",
    "auroc_interval",
    "best_of",
    "boundary_grounding",
    "boundary_scores",
    "brittle",
    "brittle_intervals",
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
    "histogram",
    "holm",
    "image_chance",
    "image_score",
    "interval",
    "intervals",
    "joint_choice",
    "kept_officially",
    "log_prior",
    "macro_mean",
    "mcnemar",
    "mean_of",
    "mean_recall",
    "mean_score",
    "min_precision",
    "minimum_of_means",
    "multiple_choice",
    "original",
    "original_intervals",
    "p_c",
    "p_f",
    "paired_bootstrap",
    "pairwise",
    "percentile_interval",
    "predict_boundary",
    "rank_edits",
    "recall_chance",
    "recalls",
    "refuse_own_images",
    "replicates",
    "simat_score",
    "solvable_blind",
    "standard_deviation",
    "sweep",
    "text_chance",
    "text_intervals",
    "text_score",
    "token_mean",
    "token_sum",
    "top_k",
    "visual_gpt_score",
]
