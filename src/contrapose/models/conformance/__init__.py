"""A public suite of checks: does a model do what the scoring engine relies on?

In the manner of scikit-learn's `check_estimator`: `check_model(model)` gives a report,
`model_checks(MyModel)` a test for each check, and `contrapose check model` the same at the prompt.
"""

from contrapose.models.conformance.check import ConformanceError, Finding, Report
from contrapose.models.conformance.run import CHECKS, ModelCheck, check_model, model_checks

__all__ = [
    "CHECKS",
    "ConformanceError",
    "Finding",
    "ModelCheck",
    "Report",
    "check_model",
    "model_checks",
]
