"""Safe file input and output.

Records come with their line number, problems are either raised or collected, paths from an
annotation file cannot leave their root, and what is written appears complete or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.lazy import lazy_exports

if TYPE_CHECKING:
    from contrapose.files.atomic import (
        atomic_file as atomic_file,
        digest as digest,
        new_folder as new_folder,
        publish_folder as publish_folder,
        remove_leftovers as remove_leftovers,
        replace_folder as replace_folder,
        require_free as require_free,
        restore_folder as restore_folder,
        temporary_folder as temporary_folder,
        write_bytes as write_bytes,
        write_text as write_text,
    )
    from contrapose.files.npy import parse_npy as parse_npy, read_npy as read_npy
    from contrapose.files.paths import (
        IMAGE_SUFFIXES as IMAGE_SUFFIXES,
        arrow_path as arrow_path,
        cache_folder as cache_folder,
        include as include,
        local_path as local_path,
        require_no_link as require_no_link,
        resolve_name as resolve_name,
        safe_join as safe_join,
    )
    from contrapose.files.records import (
        Record as Record,
        gc_frozen as gc_frozen,
        gc_paused as gc_paused,
        parse_records as parse_records,
        read_csv_records as read_csv_records,
        read_json as read_json,
        read_json_records as read_json_records,
        read_jsonl_records as read_jsonl_records,
        read_parquet_records as read_parquet_records,
        read_table_records as read_table_records,
        require_integer as require_integer,
        require_number as require_number,
        require_parquet_size as require_parquet_size,
    )
    from contrapose.files.text import (
        DoubledKeyError as DoubledKeyError,
        MalformedError as MalformedError,
        Problem as Problem,
        ProblemList as ProblemList,
        Problems as Problems,
        StrictProblems as StrictProblems,
        SurrogateError as SurrogateError,
        did_you_mean as did_you_mean,
        is_valid_unicode as is_valid_unicode,
        may_hold_surrogates as may_hold_surrogates,
        parse_count as parse_count,
        parse_json as parse_json,
        read_bytes as read_bytes,
        read_lines as read_lines,
        read_text as read_text,
        require_regular as require_regular,
        require_text as require_text,
        require_unicode as require_unicode,
        unique_keys as unique_keys,
    )
    from contrapose.files.work_folder import (
        WorkFolder as WorkFolder,
        hold_folder as hold_folder,
        open_lock as open_lock,
        open_work_folder as open_work_folder,
        try_lock as try_lock,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "atomic": "atomic_file digest new_folder publish_folder remove_leftovers "
            "replace_folder require_free restore_folder temporary_folder write_bytes write_text",
            "npy": "parse_npy read_npy",
            "paths": "IMAGE_SUFFIXES arrow_path cache_folder include local_path require_no_link "
            "resolve_name safe_join",
            "records": "Record gc_frozen gc_paused parse_records read_csv_records read_json "
            "read_json_records read_jsonl_records read_parquet_records read_table_records "
            "require_integer require_number require_parquet_size",
            "text": "DoubledKeyError MalformedError Problem ProblemList Problems StrictProblems "
            "SurrogateError did_you_mean is_valid_unicode may_hold_surrogates parse_count "
            "parse_json read_bytes read_lines read_text require_regular require_unicode "
            "require_text unique_keys",
            "work_folder": "WorkFolder hold_folder open_lock open_work_folder try_lock",
        },
    )
