"""Edit queries built from (subject, relation, object) annotations, as SIMAT was."""

from contrapose.build.triplets.construction import (
    RELATIONS,
    SUBJECTS,
    Region,
    TripletRecipe,
)
from contrapose.build.triplets.sources import SCENES, read_relationships, scene_regions
from contrapose.build.triplets.writer import TripletSource, build_triplets

__all__ = [
    "RELATIONS",
    "SCENES",
    "SUBJECTS",
    "Region",
    "TripletRecipe",
    "TripletSource",
    "build_triplets",
    "read_relationships",
    "scene_regions",
]
