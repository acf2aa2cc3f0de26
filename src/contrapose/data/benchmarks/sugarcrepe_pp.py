"""SugarCrepe++ and VISLA: two captions that mean the same, and a third that does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contrapose.data.benchmarks.common import (
    find_annotation_files,
    find_folder,
    find_image,
    require_folder,
)
from contrapose.data.cards import Benchmark, Card, Macro
from contrapose.data.downloads import Download, RemoteFile, coco_images, github_files
from contrapose.data.examples import Example
from contrapose.data.images import ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    Problems,
    Record,
    parse_records,
    read_csv_records,
    read_json_records,
    safe_join,
)

SUBSETS = {
    "replace_att": 788,
    "replace_obj": 1652,
    "replace_rel": 1406,
    "swap_att": 666,
    "swap_obj": 245,
}

MATCH = ((True, False, True),)
"""Caption, negative caption, second caption."""

COMMIT = "cfdcd827e2725427752fdc582f82d1695d983417"

DOWNLOAD = Download(
    COMMIT,
    github_files(
        "Sri-Harsha/scpp",
        COMMIT,
        {
            "replace_att.json": (
                "data/replace_att.json",
                226275,
                "6826413592894754eeca02aeebbcbbc8b95a7456998abcc714e71c033ce6fe87",
            ),
            "replace_obj.json": (
                "data/replace_obj.json",
                456601,
                "5c6dc499ec8f511a8aa4ec1b7b5eb0eca90317488abe36ec39573355e2d361ab",
            ),
            "replace_rel.json": (
                "data/replace_rel.json",
                392738,
                "040fb95d3f0619bf515db60879e99709a87a5e9b4f524ec3403b127243480fd4",
            ),
            "swap_att.json": (
                "data/swap_att.json",
                198206,
                "450d0fd9fcad3e6f44950dc634e7f901ab1c6d9c60a569ade5ae8ffb3d203ad8",
            ),
            "swap_obj.json": (
                "data/swap_obj.json",
                74611,
                "5f33cae824de431a7ecd3c5de6301f689815f9497aa36d96b154bbaf117b201b",
            ),
        },
    ),
    (coco_images("val2017", "val2017", count=1542),),
)

CARD = Card(
    name="sugarcrepe-pp",
    title="SugarCrepe++: two right captions in other words, and a wrong one in almost the same",
    paper="Dumpala et al., SUGARCREPE++ Dataset: Vision-Language Model Sensitivity to Semantic "
    "and Lexical Alterations, NeurIPS 2024 (arXiv:2406.11171)",
    license="annotations CC BY 4.0; images COCO 2017 (CC BY 4.0 annotations, Flickr terms)",
    source="github.com/Sri-Harsha/scpp (data/*.json) and COCO val2017",
    layout="{replace,swap}_{att,obj,rel}.json, or the same under data/\n"
    "val2017/*.jpg, or images/, or coco/val2017/",
    download=DOWNLOAD,
    shape="1 × 3",
    family="triple",
    counts=SUBSETS,
    aggregation=Macro("subset"),
    chance={"original_accuracy": 1 / 2, "augmented_accuracy": 1 / 3, "brittleness": 1 / 3},
    tags={"subset": "what was changed, and how", "change": "replace or swap"},
    match=MATCH,
    scores="subset arrays",
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the examples of every existing subset file: caption, negative, second caption.

    Ids are those of these files. They are not SugarCrepe's: its `swap_obj` leaves out 108, this
    one counts on.
    """
    images = find_folder(root, "val2017", "images", "coco/val2017", "coco/images/val2017")
    for subset, path in find_annotation_files(root, SUBSETS, "data"):

        def build(record: Record, subset: str = subset) -> Example:
            name = record.text("filename")
            return Example(
                id=f"{subset}/{record.name('id')}",
                images=(ImageRef(name, safe_join(images, name)),),
                texts=tuple(map(record.text, ("caption", "negative_caption", "caption2"))),
                match=MATCH,
                tags={"subset": subset, "change": subset.split("_", maxsplit=1)[0]},
            )

        yield from parse_records(read_json_records(path, problems), build, problems)


VISLA_COLUMNS = {
    "generic": ("filename", "caption", "negative_caption", "second positive"),
    "spatial": ("image", "sent1", "Best reference (Semantically close)", "sent2"),
}
"""Subset → columns of the image, caption, negative and second caption."""

VISLA_CARD = Card(
    name="visla",
    title="VISLA: two right captions in other words, and a wrong one in almost the same",
    paper="Dumpala et al., VISLA Benchmark: Evaluating Embedding Sensitivity to Semantic and "
    "Lexical Alterations, 2024 (arXiv:2404.16365)",
    license="none stated; images COCO (Flickr terms)",
    source="github.com/Sri-Harsha/visla_benchmark (data/*.tsv) and COCO",
    layout="Generic_VISLA.tsv and Spatial_VISLA.tsv, here or in data/\n"
    "val2017/*.jpg or train2017/*.jpg, also below images/ or coco/",
    shape="1 × 3",
    family="triple",
    counts={"generic": 973, "spatial": 640},
    aggregation=Macro("subset"),
    chance=CARD.chance,
    tags={"subset": "generic: any change; spatial: the relation of two things"},
    match=MATCH,
    scores="subset arrays",
    errata="12 of the 652 rows of the spatial file have no negative caption, and are left out; in "
    "2 the negative caption is one of the right ones",
    download=Download(
        None,
        tuple(
            RemoteFile(
                f"{name.title()}_VISLA.tsv",
                "https://raw.githubusercontent.com/Sri-Harsha/visla_benchmark/HEAD/data/"
                f"{name.title()}_VISLA.tsv",
            )
            for name in VISLA_COLUMNS
        ),
        (coco_images("val2017", "val2017", "train2017"),),
    ),
)

VISLA_FOLDERS = tuple(
    f"{above}{split}" for split in ("val2017", "train2017") for above in ("", "coco/", "images/")
)


def read_visla(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the rows of both files that have a negative caption; ids are their positions."""
    require_folder(root)
    files = [
        (subset, path)
        for subset in VISLA_COLUMNS
        for folder in ("", "data")
        if (path := root / folder / f"{subset.title()}_VISLA.tsv").is_file()
    ]
    if not files:
        raise InputError("holds neither Generic_VISLA.tsv nor Spatial_VISLA.tsv.", file=root)
    for subset, path in files:

        def build(record: Record, subset: str = subset) -> Example | None:
            image, *columns = VISLA_COLUMNS[subset]
            if record.field(columns[1]) == "":
                return None
            name = record.text(image)
            return Example(
                id=f"{subset}/{record.key}",
                images=(ImageRef(name, find_image(root, name, *VISLA_FOLDERS, "images")),),
                texts=tuple(map(record.text, columns)),
                match=MATCH,
                tags={"subset": subset},
            )

        yield from filter(
            None, parse_records(read_csv_records(path, problems, "\t"), build, problems)
        )


BENCHMARKS = {
    "sugarcrepe-pp": Benchmark(CARD, read),
    "visla": Benchmark(VISLA_CARD, read_visla),
}
