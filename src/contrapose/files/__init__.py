"""Safe file input and output.

Records come with their line number, problems are either raised or collected, paths from an
annotation file cannot leave their root, and what is written appears complete or not at all.
"""

from contrapose.files.atomic import (
    atomic_file,
    digest,
    new_folder,
    remove_leftovers,
    replace_folder,
    require_free,
    restore_folder,
    temporary_folder,
    write_bytes,
    write_text,
)
from contrapose.files.npy import parse_npy, read_npy
from contrapose.files.paths import (
    IMAGE_SUFFIXES,
    include,
    local_path,
    resolve_name,
    safe_join,
)
from contrapose.files.records import (
    Record,
    gc_paused,
    parse_records,
    read_csv_records,
    read_json,
    read_json_records,
    read_jsonl_records,
    read_parquet_records,
    read_table_records,
)
from contrapose.files.text import (
    DoubledKeyError,
    MalformedError,
    Problem,
    ProblemList,
    Problems,
    StrictProblems,
    did_you_mean,
    is_valid_unicode,
    parse_json,
    read_lines,
    read_text,
    require_regular,
)

__all__ = [
    "IMAGE_SUFFIXES",
    "DoubledKeyError",
    "MalformedError",
    "Problem",
    "ProblemList",
    "Problems",
    "Record",
    "StrictProblems",
    "atomic_file",
    "did_you_mean",
    "digest",
    "gc_paused",
    "include",
    "is_valid_unicode",
    "local_path",
    "new_folder",
    "parse_json",
    "parse_npy",
    "parse_records",
    "read_csv_records",
    "read_json",
    "read_json_records",
    "read_jsonl_records",
    "read_lines",
    "read_npy",
    "read_parquet_records",
    "read_table_records",
    "read_text",
    "remove_leftovers",
    "replace_folder",
    "require_free",
    "require_regular",
    "resolve_name",
    "restore_folder",
    "safe_join",
    "temporary_folder",
    "write_bytes",
    "write_text",
]
