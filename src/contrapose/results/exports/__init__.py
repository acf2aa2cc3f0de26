"""A run folder in the shapes that other programs read: lm-eval and mteb."""

from contrapose.results.exports.lm_eval import LmEval, lm_eval_exports
from contrapose.results.exports.mteb import mteb_exports
from contrapose.results.exports.source import Exported, Source, parse_time, read_source
from contrapose.results.exports.write import FORMATS, ExportFormat, export_run, parse_format

__all__ = [
    "FORMATS",
    "ExportFormat",
    "Exported",
    "LmEval",
    "Source",
    "export_run",
    "lm_eval_exports",
    "mteb_exports",
    "parse_format",
    "parse_time",
    "read_source",
]
