"""Conformance suite: checks that a model does what the scoring engine relies on.

In the manner of scikit-learn's `check_estimator`: `check_model(model)` gives a report,
`model_checks(MyModel)` a test for each check, and `contrapose check model` the same at the prompt.
"""

from contrapose.models.conformance.check import CheckResult, ConformanceError, ConformanceReport
from contrapose.models.conformance.suite import CHECKS, ModelCheck, check_model, model_checks

__all__ = [
    "CHECKS",
    "CheckResult",
    "ConformanceError",
    "ConformanceReport",
    "ModelCheck",
    "check_model",
    "model_checks",
]
