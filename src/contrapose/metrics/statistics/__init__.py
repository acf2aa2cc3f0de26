"""Statistics of column totals: bootstrap intervals, paired tests and corrections."""

from contrapose.metrics.statistics.auroc import auroc, auroc_interval
from contrapose.metrics.statistics.bootstrap import (
    interval,
    intervals,
    percentile_interval,
    replicates,
)
from contrapose.metrics.statistics.resampling import clusters_of, has_repeats
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
    correlation_of,
    macro_mean,
    mean_of,
    minimum_of_means,
    standard_deviation,
)

__all__ = [
    "McNemar",
    "PairedDifference",
    "Statistic",
    "auroc",
    "auroc_interval",
    "clusters_of",
    "combine",
    "correlation_of",
    "has_repeats",
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
