"""Results of score tables: metrics with intervals, comparisons, and run folders."""

from contrapose.results.compare import compare, compare_runs
from contrapose.results.measures import DerivedMetric, Measure, Measurements, describe_aggregation
from contrapose.results.runs import (
    build_evaluation,
    is_run,
    read_run,
    require_run_target,
    write_run,
)
from contrapose.results.schema import (
    AlphaReport,
    AlphaValue,
    Comparison,
    Difference,
    Evaluation,
    MetricValue,
    Results,
    SkipReport,
)
from contrapose.results.score_files import MetricsRequest, RunRecord, measure_score_file
from contrapose.results.shapes import MeasureInput, measure
from contrapose.results.summary import summarize, summarize_headline, summarize_subsets

__all__ = [
    "AlphaReport",
    "AlphaValue",
    "Comparison",
    "DerivedMetric",
    "Difference",
    "Evaluation",
    "Measure",
    "MeasureInput",
    "Measurements",
    "MetricValue",
    "MetricsRequest",
    "Results",
    "RunRecord",
    "SkipReport",
    "build_evaluation",
    "compare",
    "compare_runs",
    "describe_aggregation",
    "is_run",
    "measure",
    "measure_score_file",
    "read_run",
    "require_run_target",
    "summarize",
    "summarize_headline",
    "summarize_subsets",
    "write_run",
]
