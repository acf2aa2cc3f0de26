"""Examples, galleries and edit queries, and the benchmarks they come from."""

from contrapose.data.examples import EditQuery, EditSet, Example, Gallery, TagValue
from contrapose.data.images import (
    ImageRef,
    ImageSource,
    content_id,
    content_ids,
    open_image,
    open_images,
    text_id,
)
from contrapose.data.registry import (
    Aggregation,
    Benchmark,
    BenchmarkData,
    Card,
    Family,
    Macro,
    Micro,
    Suite,
    benchmark_names,
    find_benchmark,
    find_single_benchmark,
    in_memory_benchmark,
    is_user_file,
    register_benchmark,
)
from contrapose.files.suggest import did_you_mean

__all__ = [
    "Aggregation",
    "Benchmark",
    "BenchmarkData",
    "Card",
    "EditQuery",
    "EditSet",
    "Example",
    "Family",
    "Gallery",
    "ImageRef",
    "ImageSource",
    "Macro",
    "Micro",
    "Suite",
    "TagValue",
    "benchmark_names",
    "content_id",
    "content_ids",
    "did_you_mean",
    "find_benchmark",
    "find_single_benchmark",
    "in_memory_benchmark",
    "is_user_file",
    "open_image",
    "open_images",
    "register_benchmark",
    "text_id",
]
