"""Writer of SIMAT's files: regions, captions, queries, crops, and a manifest of all counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose import __version__
from contrapose.build.triplets.construction import (
    Region,
    Triplet,
    TripletRecipe,
    annotated_fits,
    choose_test,
    filter_regions,
    propose_queries,
    select_queries,
)
from contrapose.build.triplets.sources import (
    SCENE_RELATION_WORDS,
    SCENE_SUBJECTS,
    SCENES,
    read_relationships,
    scene_fits,
    scene_regions,
)
from contrapose.data import EditQuery, EditSet, open_images
from contrapose.data.benchmarks.simat import ORACLE
from contrapose.engine import ScoringContext
from contrapose.evaluation.oracle import judge_edits
from contrapose.files import StrictProblems, new_folder, require_free
from contrapose.models import Model
from contrapose.world.benchmark.export import (
    MANIFEST,
    csv_text,
    encode_png,
    join_lines,
    write_file,
)

BATCH = 64
"""Images that are opened at a time."""


@dataclass(frozen=True, slots=True)
class TripletSource:
    """Source of annotated regions.

    Attributes:
        path: `relationships.json`; None takes scenes of the built-in world.
        images: folder of the photographs; None writes no crops.
        scenes: number of scenes.
        size: width and height of their images.
    """

    path: Path | None = None
    images: Path | None = None
    scenes: int = 2000
    size: int = 96


@dataclass(frozen=True, slots=True, eq=False)
class _Material:
    """Filtered regions and proposed queries, with the probabilities that select among them.

    `exact` says that the probabilities are the truth, which the folder then holds.
    """

    regions: list[Region]
    counts: dict[str, int]
    data: EditSet
    oracle: NDArray[np.float64]
    judge: str
    exact: bool = False


def build_triplets(
    source: TripletSource,
    out: Path | None,
    recipe: TripletRecipe,
    *,
    oracle: Model | None = None,
    context: Callable[[Model], ScoringContext] = ScoringContext,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Build edit queries and write them as SIMAT's four files, atomically.

    Args:
        source: the annotations.
        out: the folder to write; None writes nothing and only counts.
        recipe: lists, thresholds and seed.
        oracle: a model with `itm`, `vqa` or `itc` that looks at every region; None takes the
            annotations: a target must not be annotated in the same photograph.
        context: context of scoring for the oracle.
        overwrite: replace a folder that is there.

    Returns:
        The manifest: parameters, and the counts after every filter.

    Raises:
        InputError: the annotations cannot be read, nothing is left, or the folder cannot be used.
    """
    if out is not None:
        require_free(out, overwrite=overwrite)
    if source.path is None:
        recipe = replace(recipe, subjects=SCENE_SUBJECTS, relations=SCENE_RELATION_WORDS)
    material = _gather_scenes(source, recipe) if source.path is None else _gather(source, recipe)
    if oracle is not None:
        needed = {c for q in material.data.queries for c in (q.caption, q.target_caption)}
        judged = judge_edits(material.data, context(oracle), sorted(needed))
        assert judged.oracle is not None  # noqa: S101 - a judge gives probabilities
        material = replace(material, oracle=judged.oracle, judge=judged.judge, exact=False)
    queries, query_counts = select_queries(material.data, material.oracle, recipe)
    test = choose_test((region.photograph for region in material.regions), recipe.seed)
    splits = Counter(material.regions[query.image].photograph in test for query in queries)
    manifest: dict[str, Any] = {
        "source": f"contrapose {__version__}, {source.path.name if source.path else SCENES}",
        "read_with": "simat",
        "parameters": {**asdict(recipe), **_describe_source(source), "oracle": material.judge},
        "regions": material.counts,
        "queries": query_counts,
        "written": {
            "images": len(material.regions),
            "photographs": len({region.photograph for region in material.regions}),
            "captions": len(material.data.captions),
            "queries": len(queries),
            "dev": splits[False],
            "test": splits[True],
        },
    }
    if out is None:
        return manifest
    with new_folder(out, overwrite=overwrite) as folder:
        for name, text in _annotation_files(material, queries, test):
            write_file(folder / name, text.encode())
        if material.exact:
            np.save(folder / ORACLE, material.oracle)
        if source.path is None or source.images is not None:
            _write_crops(folder, material.regions)
        write_file(folder / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    return manifest


def _gather(source: TripletSource, recipe: TripletRecipe) -> _Material:
    assert source.path is not None  # noqa: S101 - a file is the source here
    listed = read_relationships(source.path, source.images, StrictProblems())
    regions, counts = filter_regions(listed, recipe)
    data = propose_queries(regions, describe_triplet)
    judge = "the annotations: the target is not annotated in the same photograph"
    return _Material(regions, counts, data, annotated_fits(regions, data), judge)


def _gather_scenes(source: TripletSource, recipe: TripletRecipe) -> _Material:
    listed, captions, scenes = scene_regions(source.scenes, seed=recipe.seed, size=source.size)
    regions, counts = filter_regions(listed, recipe)
    data = propose_queries(regions, lambda triplet: captions[triplet].text)
    triplets = list(dict.fromkeys(region.triplet for region in regions))
    fits = scene_fits(regions, triplets, captions, scenes)
    return _Material(regions, counts, data, fits, "the exact truth of the scenes", exact=True)


def describe_triplet(triplet: Triplet) -> str:
    """Caption of a triplet, such as "A man sitting on a chair"."""
    subject, relation, thing = triplet
    words = f"{_article(subject)}{subject} {relation} {_article(thing)}{thing}."
    return words[0].upper() + words[1:]


def _article(noun: str) -> str:
    if noun in ("people", "grass", "water", "snow", "sand", "dirt", "hay", "mud"):
        return ""
    return "an " if noun[:1] in "aeiou" else "a "


def _describe_source(source: TripletSource) -> dict[str, Any]:
    if source.path is None:
        return {"scenes": source.scenes, "size": source.size}
    return {"crops": source.images is not None}


def _annotation_files(
    material: _Material, queries: Sequence[EditQuery], test: set[int]
) -> Iterator[tuple[str, str]]:
    """Names and texts of the four files."""
    regions = material.regions
    often = Counter(query.source for query in queries)
    both = Counter((query.source, query.target) for query in queries)
    yield "captions.txt", join_lines(material.data.captions)
    yield (
        "triplets.csv",
        csv_text(
            ("region_id", "subj", "rel", "obj", "dataset_id"),
            [(region.id, *region.triplet, row) for row, region in enumerate(regions)],
        ),
    )
    yield (
        "retrieval_db.tsv",
        csv_text(
            ("region_id", "image_id", "bbox"),
            [(r.id, r.photograph, ",".join(map(str, r.box))) for r in regions],
            "\t",
        ),
    )
    yield (
        "transfos.csv",
        csv_text(
            (
                "transfo_id", "region_id", "field", "value", "target", "norm", "query_ids",
                "target_ids", "norm2", "is_test",
            ),
            [
                (
                    i, regions[q.image].id, q.tags["field"], q.source, q.target,
                    both[q.source, q.target], q.caption, q.target_caption, often[q.source],
                    regions[q.image].photograph in test,
                )
                for i, q in enumerate(queries)
            ],
        ),
    )  # fmt: skip


def _write_crops(folder: Path, regions: Sequence[Region]) -> None:
    """Write the images of regions as the official script cuts them.

    Raises:
        InputError: an image cannot be read.
    """
    for start in range(0, len(regions), BATCH):
        some = regions[start : start + BATCH]
        for region, image in zip(some, open_images([r.image for r in some]), strict=True):
            write_file(folder / "images" / "images" / f"{region.id}.png", encode_png(image))
