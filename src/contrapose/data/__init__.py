"""Examples, galleries, edit and composed queries, and the benchmarks they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.lazy import lazy_exports

if TYPE_CHECKING:
    from contrapose.data.cards import (
        Aggregation as Aggregation,
        Benchmark as Benchmark,
        BenchmarkData as BenchmarkData,
        Card as Card,
        Family as Family,
        Macro as Macro,
        Micro as Micro,
        Suite as Suite,
        in_memory_benchmark as in_memory_benchmark,
    )
    from contrapose.data.examples import (
        DEV as DEV,
        ComposedQuery as ComposedQuery,
        ComposedSet as ComposedSet,
        EditQuery as EditQuery,
        EditSet as EditSet,
        Example as Example,
        Gallery as Gallery,
        TagValue as TagValue,
    )
    from contrapose.data.images import (
        ImageRef as ImageRef,
        ImageSource as ImageSource,
        content_id as content_id,
        content_ids as content_ids,
        open_image as open_image,
        open_images as open_images,
        text_id as text_id,
    )
    from contrapose.data.registry import (
        benchmark_names as benchmark_names,
        find_benchmark as find_benchmark,
        find_single_benchmark as find_single_benchmark,
        is_user_file as is_user_file,
        register_benchmark as register_benchmark,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "cards": "Aggregation Benchmark BenchmarkData Card Family Macro Micro Suite "
            "in_memory_benchmark",
            "examples": "DEV ComposedQuery ComposedSet EditQuery EditSet Example Gallery TagValue",
            "images": "ImageRef ImageSource content_id content_ids open_image open_images text_id",
            "registry": "benchmark_names find_benchmark find_single_benchmark is_user_file "
            "register_benchmark",
        },
    )
