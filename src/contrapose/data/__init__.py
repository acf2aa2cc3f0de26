"""What is compared: examples, galleries and edit queries, and the benchmarks they come from."""

from contrapose.data.card import Aggregation, Card, Family, Macro, Micro
from contrapose.data.example import Example, TagValue
from contrapose.data.gallery import EditQuery, EditSet, Gallery
from contrapose.data.images import ImageRef, content_id, open_image, text_id
from contrapose.data.registry import Benchmark, Data, benchmark_names, find_benchmark, is_own

__all__ = [
    "Aggregation",
    "Benchmark",
    "Card",
    "Data",
    "EditQuery",
    "EditSet",
    "Example",
    "Family",
    "Gallery",
    "ImageRef",
    "Macro",
    "Micro",
    "TagValue",
    "benchmark_names",
    "content_id",
    "find_benchmark",
    "is_own",
    "open_image",
    "text_id",
]
