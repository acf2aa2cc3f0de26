"""The benchmark `scenes`: made by seed, no files needed.

    from contrapose.world.benchmark import scenes
    suite = scenes(examples=200, seed=0)        # `.parts`: a benchmark each, by name

Two forms, two names: `scenes` is balanced, `scenes-skewed` has the same parts in the skewed world
of the training set. Word groups and region masks of every example can be had again exactly.
"""

from contrapose.world.benchmark.groups import groups_of, scene_groups
from contrapose.world.benchmark.image import SIZE, SceneImage, index_maps, regions, scene_of
from contrapose.world.benchmark.parts import EXAMPLES, PARTS
from contrapose.world.benchmark.read import mentioned, read_caption, spans_of, word_groups
from contrapose.world.benchmark.suite import BENCHMARKS, scenes

__all__ = [
    "BENCHMARKS",
    "EXAMPLES",
    "PARTS",
    "SIZE",
    "SceneImage",
    "groups_of",
    "index_maps",
    "mentioned",
    "read_caption",
    "regions",
    "scene_groups",
    "scene_of",
    "scenes",
    "spans_of",
    "word_groups",
]
