"""Conformance suite: checks that a model does what the scoring engine relies on.

As in scikit-learn's `check_estimator`: `check_model(model)` returns a report,
`model_checks(MyModel)` one test per check, and `contrapose check model` prints the report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest import SkipTest

from contrapose.models.capabilities import Model
from contrapose.models.conformance import batches, images, outputs, texts
from contrapose.models.conformance.check import (
    Check,
    CheckResult,
    ConformanceError,
    ConformanceReport,
    Subject,
    find_dtype,
)

__all__ = [
    "CHECKS",
    "CheckResult",
    "ConformanceError",
    "ConformanceReport",
    "ModelCheck",
    "check_model",
    "model_checks",
]

CHECKS: tuple[Check, ...] = (
    *outputs.IDENTITY_CHECKS,
    *outputs.OUTPUT_CHECKS,
    *batches.BATCH_CHECKS,
    *texts.CAPTION_CHECKS,
    *images.IMAGE_CHECKS,
    *texts.CHAT_CHECKS,
    *texts.MASK_CHECKS,
)
"""All checks, in the order in which they run."""


def check_model(
    model: Any, *, load: Callable[[], Model] | None = None, dtype: str | None = None
) -> ConformanceReport:
    """Run all checks on a model and report the results.

    Args:
        model: the model; of any type.
        load: loads the same model again, for the checks that need it twice.
        dtype: of its computation, `fp32`, `bf16` or `fp16`: decides the tolerance. Default: that of
            its card, or float32.

    Returns:
        The result of each check; `report.ok` when none failed.
    """
    subject = Subject(model, find_dtype(model, dtype), load)
    results: list[CheckResult] = []
    broken = ""
    for check in CHECKS:
        result = run_check(check, subject, broken)
        results.append(result)
        if check.base and result.outcome == "failed" and not broken:
            broken = check.name
    name = getattr(model, "name", None)
    title = name if isinstance(name, str) else type(model).__name__
    return ConformanceReport(title, subject.dtype, subject.tolerance, tuple(results))


def run_check(check: Check, subject: Subject, broken: str = "") -> CheckResult:
    """Run one check.

    Args:
        check: the check.
        subject: the model.
        broken: the base check that failed before, if any.
    """
    if check.depends and broken:
        return CheckResult(check.name, check.sentence, "not checked", f"{broken} failed")
    try:
        reason = check.condition(subject)
        if reason:
            return CheckResult(check.name, check.sentence, "not applicable", reason)
        check.run(subject)
    except ConformanceError as failed:
        return CheckResult(check.name, check.sentence, "failed", f"{failed}")
    except Exception as error:
        detail = f"it raised {type(error).__name__}: {error}"
        return CheckResult(check.name, check.sentence, "failed", detail)
    return CheckResult(check.name, check.sentence, "passed")


@dataclass
class _LazySubject:
    """Model under test that is loaded when the first test needs it."""

    load: Callable[[], Model]
    dtype: str | None

    @cached_property
    def subject(self) -> Subject:
        model = self.load()
        return Subject(model, find_dtype(model, self.dtype), self.load)


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """A check of one model as a test: call it; `str` of it is its name."""

    check: Check
    loaded: _LazySubject

    def __str__(self) -> str:
        return self.check.name

    def __call__(self) -> None:
        """Run the check.

        Raises:
            ConformanceError: the model fails the check; an AssertionError.
            SkipTest: the check does not apply; test runners count it as skipped.
        """
        result = run_check(self.check, self.loaded.subject)
        if result.outcome == "failed":
            raise ConformanceError(f"{result.sentence} But: {result.detail}.")
        if result.outcome != "passed":
            raise SkipTest(result.detail)


def model_checks(load: Callable[[], Model], *, dtype: str | None = None) -> list[ModelCheck]:
    """The checks of a model, for a test runner.

    Example:
        @pytest.mark.parametrize("check", model_checks(MyModel), ids=str)
        def test_conforms(check):
            check()

    Args:
        load: returns the model, such as its class; called when the first check needs it.
        dtype: as for `check_model`.
    """
    loaded = _LazySubject(load, dtype)
    return [ModelCheck(check, loaded) for check in CHECKS]
