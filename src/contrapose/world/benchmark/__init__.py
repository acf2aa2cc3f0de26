"""The benchmark `scenes`: generated from a seed, no files needed.

    from contrapose.world.benchmark import scenes
    suite = scenes(examples=200, seed=0)        # `.parts`: a benchmark each, by name

Two forms, two names: `scenes` is balanced, `scenes-skewed` has the same parts in the skewed world
of the training set. Word groups and region masks of every example can be had again exactly.
"""

from contrapose.world.benchmark.annotations import (
    SIZE,
    SceneImage,
    find_mentioned_things,
    index_maps,
    parse_caption,
    regions,
    scene_groups,
    scene_of,
    text_groups,
    word_groups,
    word_spans,
)
from contrapose.world.benchmark.suite import BENCHMARKS, EXAMPLES, PARTS, scenes, simat_scenes

__all__ = [
    "BENCHMARKS",
    "EXAMPLES",
    "PARTS",
    "SIZE",
    "SceneImage",
    "find_mentioned_things",
    "index_maps",
    "parse_caption",
    "regions",
    "scene_groups",
    "scene_of",
    "scenes",
    "simat_scenes",
    "text_groups",
    "word_groups",
    "word_spans",
]
