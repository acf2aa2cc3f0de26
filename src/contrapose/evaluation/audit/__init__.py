"""Audit of a benchmark by scores that see no image (methods, section 2)."""

from contrapose.evaluation.audit.captions import AuditRequest
from contrapose.evaluation.audit.report import audit_benchmark, audit_examples

__all__ = [
    "AuditRequest",
    "audit_benchmark",
    "audit_examples",
]
