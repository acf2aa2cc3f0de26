"""Results of score tables: metrics with intervals, comparisons, and run folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.lazy import lazy_exports

if TYPE_CHECKING:
    from contrapose.results.compare import compare_runs as compare_runs
    from contrapose.results.measures import (
        DerivedMetric as DerivedMetric,
        Measure as Measure,
        Measurements as Measurements,
        describe_aggregation as describe_aggregation,
    )
    from contrapose.results.runs import (
        build_evaluation as build_evaluation,
        is_run as is_run,
        read_run as read_run,
        require_run_target as require_run_target,
        write_run as write_run,
    )
    from contrapose.results.schema import (
        AlphaReport as AlphaReport,
        AlphaValue as AlphaValue,
        Comparison as Comparison,
        Difference as Difference,
        Evaluation as Evaluation,
        MetricValue as MetricValue,
        Results as Results,
        SkipReport as SkipReport,
    )
    from contrapose.results.score_files import (
        MetricsRequest as MetricsRequest,
        measure_score_file as measure_score_file,
    )
    from contrapose.results.shapes import MeasureInput as MeasureInput, measure as measure
    from contrapose.results.summary import (
        summarize as summarize,
        summarize_headline as summarize_headline,
        summarize_subsets as summarize_subsets,
    )
    from contrapose.results.tables import RunRecord as RunRecord
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "compare": "compare_runs",
            "measures": "DerivedMetric Measure Measurements describe_aggregation",
            "runs": "build_evaluation is_run read_run require_run_target write_run",
            "schema": "AlphaReport AlphaValue Comparison Difference Evaluation MetricValue "
            "Results SkipReport",
            "score_files": "MetricsRequest measure_score_file",
            "shapes": "MeasureInput measure",
            "summary": "summarize summarize_headline summarize_subsets",
            "tables": "RunRecord",
        },
    )
