"""Reports for people: tables in a terminal, plain text in a pipe, HTML pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.lazy import lazy_exports

if TYPE_CHECKING:
    from contrapose.report.comparison import comparison_table as comparison_table
    from contrapose.report.evaluation import evaluation_tables as evaluation_tables
    from contrapose.report.formats import result_rows as result_rows
    from contrapose.report.results import (
        parts_table as parts_table,
        results_tables as results_tables,
    )
    from contrapose.report.tables import Table as Table
    from contrapose.report.terminal import show as show
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "comparison": "comparison_table",
            "evaluation": "evaluation_tables",
            "formats": "result_rows",
            "results": "parts_table results_tables",
            "tables": "Table",
            "terminal": "show",
        },
    )
