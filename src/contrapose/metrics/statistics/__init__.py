"""Intervals and paired tests, for numbers that are functions of sums over examples."""

from contrapose.metrics.statistics.auroc import auroc, auroc_interval
from contrapose.metrics.statistics.bootstrap import (
    interval,
    intervals,
    percentile_interval,
    replicates,
)
from contrapose.metrics.statistics.clusters import are_repeated, clusters_of
from contrapose.metrics.statistics.correlation import correlation_of
from contrapose.metrics.statistics.holm import holm
from contrapose.metrics.statistics.joint import combine
from contrapose.metrics.statistics.paired import (
    McNemar,
    PairedDifference,
    mcnemar,
    paired_bootstrap,
)
from contrapose.metrics.statistics.statistic import (
    Statistic,
    macro_mean,
    mean_of,
    minimum_of_means,
    standard_deviation,
)

__all__ = [
    "McNemar",
    "PairedDifference",
    "Statistic",
    "are_repeated",
    "auroc",
    "auroc_interval",
    "clusters_of",
    "combine",
    "correlation_of",
    "holm",
    "interval",
    "intervals",
    "macro_mean",
    "mcnemar",
    "mean_of",
    "minimum_of_means",
    "paired_bootstrap",
    "percentile_interval",
    "replicates",
    "standard_deviation",
]
