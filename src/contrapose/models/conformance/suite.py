"""Run of the conformance checks, as one report or one test per check."""

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

CHECKS: tuple[Check, ...] = (
    *outputs.IDENTITY_CHECKS,
    *outputs.OUTPUT_CHECKS,
    *batches.BATCH_CHECKS,
    *texts.CAPTION_CHECKS,
    *images.IMAGE_CHECKS,
    *texts.CHAT_CHECKS,
    *texts.MASK_CHECKS,
)
"""All checks, in the order in which they are asked."""


def check_model(
    model: Any, *, load: Callable[[], Model] | None = None, dtype: str | None = None
) -> ConformanceReport:
    """Run all checks on a model and report the results.

    Args:
        model: the model; of any type.
        load: loads the same model anew, for the checks that need it twice.
        dtype: what it computes in, `fp32`, `bf16` or `fp16`: decides how far answers may be
            apart. Left out: as its card says, or float32.

    Returns:
        What each check found; `report.ok` when none failed.
    """
    subject = Subject(model, find_dtype(model, dtype), load)
    findings: list[CheckResult] = []
    broken = ""
    for check in CHECKS:
        finding = run_check(check, subject, broken)
        findings.append(finding)
        if check.base and finding.outcome == "failed" and not broken:
            broken = check.name
    name = getattr(model, "name", None)
    shown = name if isinstance(name, str) else type(model).__name__
    return ConformanceReport(shown, subject.dtype, subject.tolerance, tuple(findings))


def run_check(check: Check, subject: Subject, broken: str = "") -> CheckResult:
    """Run one check.

    Args:
        check: the check.
        subject: the model.
        broken: the base check that failed before; most others then mean nothing.
    """
    if check.leans and broken:
        return CheckResult(check.name, check.sentence, "not checked", f"{broken} failed")
    try:
        why = check.unfit(subject)
        if why:
            return CheckResult(check.name, check.sentence, "not applicable", why)
        check.run(subject)
    except ConformanceError as failed:
        return CheckResult(check.name, check.sentence, "failed", f"{failed}")
    except Exception as error:
        said = f"it raised {type(error).__name__}: {error}"
        return CheckResult(check.name, check.sentence, "failed", said)
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
            ConformanceError: the model does not do what it must; an AssertionError.
            SkipTest: the check does not apply; test runners count it as skipped.
        """
        finding = run_check(self.check, self.loaded.subject)
        if finding.outcome == "failed":
            raise ConformanceError(f"{finding.sentence} But: {finding.detail}.")
        if finding.outcome != "passed":
            raise SkipTest(finding.detail)


def model_checks(load: Callable[[], Model], *, dtype: str | None = None) -> list[ModelCheck]:
    """The checks of a model, for a test runner.

    Example:
        @pytest.mark.parametrize("check", model_checks(MyModel), ids=str)
        def test_conforms(check):
            check()

    Args:
        load: gives the model, such as its class; called when the first check needs it.
        dtype: as for `check_model`.
    """
    loaded = _LazySubject(load, dtype)
    return [ModelCheck(check, loaded) for check in CHECKS]
