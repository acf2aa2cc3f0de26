"""What was measured, in the shape that is written."""

from __future__ import annotations

from contrapose.diagnose.differences import Difference
from contrapose.diagnose.findings import Finding
from contrapose.diagnose.games import Side
from contrapose.diagnose.paired import Paired
from contrapose.diagnose.schema import (
    DifferenceValue,
    FindingValue,
    PairedValue,
    SensitivityValue,
)
from contrapose.diagnose.sensitivity import Diagnosis


def metrics_value(diagnosis: Diagnosis, side: Side) -> dict[str, SensitivityValue]:
    """The metrics of the asked side, by key."""
    return {
        key: SensitivityValue(
            side=one.side,
            value=one.mean,
            ci95=one.ci95,
            rho=one.rho,
            rho_ci95=one.rho_ci95,
            n=one.count,
            examples=one.examples,
            accuracy=one.accuracy,
            accuracy_ci95=one.accuracy_ci95,
            notes=one.notes,
        )
        for key, one in diagnosis.metrics.items()
        if side in (one.side, "all")
    }


def finding_value(found: Finding) -> FindingValue:
    """A finding."""
    return FindingValue(
        side=found.side,
        interaction=found.interaction,
        verdict=found.verdict,
        share=found.share,
        n=found.count,
        examples=found.examples,
        tests=tuple(map(_paired, found.tests)),
        sentence=found.sentence,
    )


def difference_value(found: Difference) -> DifferenceValue:
    """Where two models differ."""
    return DifferenceValue(
        models=found.names,
        n=found.count,
        tests=tuple(map(_paired, found.tests)),
        sentence=found.sentence,
    )


def _paired(test: Paired) -> PairedValue:
    return PairedValue(
        metric=test.key,
        first=test.first,
        second=test.second,
        difference=test.difference,
        ci95=test.ci95,
        p_holm=test.p,
    )
