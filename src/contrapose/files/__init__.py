"""Reading and writing files without surprises.

Records come with the line they stand on, problems are either raised or collected, paths from an
annotation file cannot leave their root, and what is written appears whole or not at all.
"""

from contrapose.files.atomic import new_folder, require_free, write_bytes, write_text
from contrapose.files.paths import IMAGE_SUFFIXES, inside, resolve_name
from contrapose.files.problems import Collected, Malformed, Problem, Problems, Strict
from contrapose.files.records import (
    Record,
    csv_records,
    json_records,
    jsonl_records,
    parquet_records,
    parse,
    read_json,
    table_records,
)
from contrapose.files.text import is_whole, read_lines, read_text

__all__ = [
    "IMAGE_SUFFIXES",
    "Collected",
    "Malformed",
    "Problem",
    "Problems",
    "Record",
    "Strict",
    "csv_records",
    "inside",
    "is_whole",
    "json_records",
    "jsonl_records",
    "new_folder",
    "parquet_records",
    "parse",
    "read_json",
    "read_lines",
    "read_text",
    "require_free",
    "resolve_name",
    "table_records",
    "write_bytes",
    "write_text",
]
