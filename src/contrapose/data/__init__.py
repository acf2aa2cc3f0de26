"""What is compared: examples, galleries and edit queries, and the benchmarks they come from."""

from contrapose.data.card import Aggregation, Card, Family, Macro, Micro
from contrapose.data.example import Example, TagValue
from contrapose.data.gallery import EditQuery, EditSet, Gallery
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
    Benchmark,
    Data,
    Suite,
    benchmark_names,
    find_benchmark,
    is_own,
    one_benchmark,
    register_benchmark,
)
from contrapose.files.near import did_you_mean

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
    "is_own",
    "one_benchmark",
    "open_image",
    "open_images",
    "register_benchmark",
    "text_id",
]
