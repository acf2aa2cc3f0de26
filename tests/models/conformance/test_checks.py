"""The suite passes models that are right, and each check catches a fault of its own."""

from __future__ import annotations

import unittest
from collections import Counter

import pytest

from contrapose.models.conformance import (
    CHECKS,
    ConformanceError,
    ModelCheck,
    check_model,
    model_checks,
)
from tests.models.conformance.broken import BROKEN, Cuts, Incapable, Several
from tests.models.conformance.good import Good


@pytest.mark.parametrize("kind", [Good, Cuts, Several])
def test_a_right_model_passes_every_check_that_applies(kind: type[Good]) -> None:
    report = check_model(kind(), load=kind)
    assert report.ok, report.failed
    left = {finding.name for finding in report.findings if finding.outcome != "passed"}
    assert left == {"long-caption" if kind is Cuts else "cut-caption"}


def test_every_check_has_a_broken_model() -> None:
    assert set(BROKEN) == {check.name for check in CHECKS}
    assert Counter(check.name for check in CHECKS).most_common(1)[0][1] == 1
    assert all(check.sentence.endswith(".") for check in CHECKS)


@pytest.mark.parametrize(
    ("check", "kind"),
    [(check, kind) for check, kinds in BROKEN.items() for kind in kinds],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_broken_model_fails_its_check_and_no_other(check: str, kind: type[Good]) -> None:
    report = check_model(kind(), load=kind)
    assert not report.ok
    assert [finding.name for finding in report.failed] == [check], report.failed
    (finding,) = report.failed
    assert finding.detail


def test_what_leans_on_a_failed_check_is_not_checked() -> None:
    report = check_model(BROKEN["logits"][0]())
    outcomes = {finding.name: finding for finding in report.findings}
    assert outcomes["logits"].outcome == "failed"
    assert outcomes["pairing"].outcome == "not checked"
    assert outcomes["pairing"].detail == "logits failed"
    assert outcomes["batch-size"].outcome == "passed"


@pytest.mark.parametrize("thing", [Incapable(), object(), None, "tiny"])
def test_what_is_no_model_fails_without_an_exception(thing: object) -> None:
    report = check_model(thing)
    assert "capability" in {finding.name for finding in report.failed}


def test_an_exception_is_a_failure_with_its_message() -> None:
    class Raises(Good):
        def match(self, images: object, texts: object) -> object:  # type: ignore[override]
            raise RuntimeError("mat1 and mat2")

    (finding,) = check_model(Raises()).failed
    assert finding.name == "logits"
    assert finding.detail == "it raised RuntimeError: mat1 and mat2"


def test_half_precision_is_given_more_room() -> None:
    class Rough(Good):
        def match(self, images, texts):  # type: ignore[no-untyped-def]
            return super().match(images, texts) * (1 + 0.002 * (len(texts) == 1))

    assert [finding.name for finding in check_model(Rough()).failed] == ["alone"]
    assert check_model(Rough(), dtype="fp16").ok
    assert check_model(Rough(), dtype="bf16").tolerance == 5e-2


@pytest.mark.parametrize("check", model_checks(Good), ids=str)
def test_as_tests_of_ones_own(check: ModelCheck) -> None:
    check()


def test_a_failing_check_fails_the_test() -> None:
    checks = {str(check): check for check in model_checks(BROKEN["lengths"][0])}
    with pytest.raises(ConformanceError, match=r"Unequal numbers .* But: match took"):
        checks["lengths"]()
    with pytest.raises(unittest.SkipTest, match="refuses"):
        checks["cut-caption"]()


def test_models_are_loaded_when_a_test_needs_them() -> None:
    loads: list[Good] = []

    def load() -> Good:
        loads.append(Good())
        return loads[-1]

    checks = {str(check): check for check in model_checks(load)}
    assert not loads
    checks["name"]()
    checks["alone"]()
    assert len(loads) == 1
