"""Asking the checks of a model, all at once or one a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest import SkipTest

from contrapose.models.capabilities import Model
from contrapose.models.conformance import (
    answers,
    batches,
    captions,
    identity,
    masks,
    pictures,
    words,
)
from contrapose.models.conformance.check import (
    Check,
    ConformanceError,
    Finding,
    Report,
    Subject,
    dtype_of,
)

CHECKS: tuple[Check, ...] = (
    *identity.CHECKS,
    *answers.CHECKS,
    *batches.CHECKS,
    *captions.CHECKS,
    *pictures.CHECKS,
    *words.CHECKS,
    *masks.CHECKS,
)
"""All checks, in the order in which they are asked."""


def check_model(
    model: Any, *, load: Callable[[], Model] | None = None, dtype: str | None = None
) -> Report:
    """Ask all checks of a model.

    Args:
        model: the model; of any type.
        load: loads the same model anew, for the checks that need it twice.
        dtype: what it computes in, `fp32`, `bf16` or `fp16`: decides how far answers may be
            apart. Left out: as its card says, or float32.

    Returns:
        What each check found; `report.ok` when none failed.
    """
    subject = Subject(model, dtype_of(model, dtype), load)
    findings: list[Finding] = []
    broken = ""
    for check in CHECKS:
        finding = find(check, subject, broken)
        findings.append(finding)
        if check.base and finding.outcome == "failed" and not broken:
            broken = check.name
    name = getattr(model, "name", None)
    shown = name if isinstance(name, str) else type(model).__name__
    return Report(shown, subject.dtype, subject.tolerance, tuple(findings))


def find(check: Check, subject: Subject, broken: str = "") -> Finding:
    """Ask one check.

    Args:
        check: the check.
        subject: the model.
        broken: the base check that failed before; most others then mean nothing.
    """
    if check.leans and broken:
        return Finding(check.name, check.sentence, "not checked", f"{broken} failed")
    try:
        why = check.unfit(subject)
        if why:
            return Finding(check.name, check.sentence, "not applicable", why)
        check.run(subject)
    except ConformanceError as failed:
        return Finding(check.name, check.sentence, "failed", f"{failed}")
    except Exception as error:
        said = f"it raised {type(error).__name__}: {error}"
        return Finding(check.name, check.sentence, "failed", said)
    return Finding(check.name, check.sentence, "passed")


@dataclass
class _Loaded:
    """A model that is loaded when the first test needs it."""

    load: Callable[[], Model]
    dtype: str | None

    @cached_property
    def subject(self) -> Subject:
        model = self.load()
        return Subject(model, dtype_of(model, self.dtype), self.load)


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """A check of one model as a test: call it; `str` of it is its name."""

    check: Check
    loaded: _Loaded

    def __str__(self) -> str:
        return self.check.name

    def __call__(self) -> None:
        """Ask it.

        Raises:
            ConformanceError: the model does not do what it must; an AssertionError.
            SkipTest: the check does not apply; test runners count it as skipped.
        """
        finding = find(self.check, self.loaded.subject)
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
    loaded = _Loaded(load, dtype)
    return [ModelCheck(check, loaded) for check in CHECKS]
