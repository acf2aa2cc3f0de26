"""Examples, galleries, edit and composed queries, and the benchmarks they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contrapose.lazy import lazy_exports

if TYPE_CHECKING:
    from contrapose.data.cards import (
        Aggregation as Aggregation,
    )
    from contrapose.data.cards import (
        Benchmark as Benchmark,
    )
    from contrapose.data.cards import (
        BenchmarkData as BenchmarkData,
    )
    from contrapose.data.cards import (
        Card as Card,
    )
    from contrapose.data.cards import (
        Family as Family,
    )
    from contrapose.data.cards import (
        Macro as Macro,
    )
    from contrapose.data.cards import (
        Micro as Micro,
    )
    from contrapose.data.cards import (
        Suite as Suite,
    )
    from contrapose.data.cards import (
        in_memory_benchmark as in_memory_benchmark,
    )
    from contrapose.data.examples import (
        DEV as DEV,
    )
    from contrapose.data.examples import (
        ComposedQuery as ComposedQuery,
    )
    from contrapose.data.examples import (
        ComposedSet as ComposedSet,
    )
    from contrapose.data.examples import (
        EditQuery as EditQuery,
    )
    from contrapose.data.examples import (
        EditSet as EditSet,
    )
    from contrapose.data.examples import (
        Example as Example,
    )
    from contrapose.data.examples import (
        Gallery as Gallery,
    )
    from contrapose.data.examples import (
        TagValue as TagValue,
    )
    from contrapose.data.images import (
        ImageRef as ImageRef,
    )
    from contrapose.data.images import (
        ImageSource as ImageSource,
    )
    from contrapose.data.images import (
        content_id as content_id,
    )
    from contrapose.data.images import (
        content_ids as content_ids,
    )
    from contrapose.data.images import (
        open_image as open_image,
    )
    from contrapose.data.images import (
        open_images as open_images,
    )
    from contrapose.data.images import (
        text_id as text_id,
    )
    from contrapose.data.registry import (
        benchmark_names as benchmark_names,
    )
    from contrapose.data.registry import (
        find_benchmark as find_benchmark,
    )
    from contrapose.data.registry import (
        find_single_benchmark as find_single_benchmark,
    )
    from contrapose.data.registry import (
        is_user_file as is_user_file,
    )
    from contrapose.data.registry import (
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
