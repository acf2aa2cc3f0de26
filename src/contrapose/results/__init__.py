"""What a table of scores says: values with intervals, comparisons, and runs on disk."""

from contrapose.results.compare import compare, compare_paths
from contrapose.results.evaluate import breakdown, headline, summarise
from contrapose.results.evaluation import evaluate_models
from contrapose.results.families import Question, measure
from contrapose.results.groups import aggregation_words
from contrapose.results.measured import Derived, Measure, Measured
from contrapose.results.outcomes import EvalRequest
from contrapose.results.pipeline import Request, Run, run
from contrapose.results.runs import evaluation, is_run, read_run, require_run_place, write_run
from contrapose.results.schema import (
    AlphaReport,
    AlphaValue,
    Comparison,
    Difference,
    Evaluation,
    MetricValue,
    Results,
    Skipped,
)

__all__ = [
    "AlphaReport",
    "AlphaValue",
    "Comparison",
    "Derived",
    "Difference",
    "EvalRequest",
    "Evaluation",
    "Measure",
    "Measured",
    "MetricValue",
    "Question",
    "Request",
    "Results",
    "Run",
    "Skipped",
    "aggregation_words",
    "breakdown",
    "compare",
    "compare_paths",
    "evaluate_models",
    "evaluation",
    "headline",
    "is_run",
    "measure",
    "read_run",
    "require_run_place",
    "run",
    "summarise",
    "write_run",
]
