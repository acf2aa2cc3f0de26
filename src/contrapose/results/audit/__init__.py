"""How much of a benchmark can be solved without looking (methods, section 2)."""

from contrapose.results.audit.request import AuditRequest
from contrapose.results.audit.run import audit_benchmark
from contrapose.results.audit.schema import AuditPart, AuditReport, BlindResult, LikelihoodPart

__all__ = [
    "AuditPart",
    "AuditReport",
    "AuditRequest",
    "BlindResult",
    "LikelihoodPart",
    "audit_benchmark",
]
