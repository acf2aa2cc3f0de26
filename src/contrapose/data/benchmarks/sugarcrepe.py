"""SugarCrepe: hard negatives that read as well as the caption they change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contrapose.data.benchmarks.common import find_annotation_files, find_folder
from contrapose.data.cards import Benchmark, Card, Macro
from contrapose.data.downloads import Download, coco_images, github_files
from contrapose.data.examples import Example, single_match
from contrapose.data.images import ImageRef
from contrapose.files import Problems, Record, parse_records, read_json_records, safe_join

SUBSETS = {
    "add_att": 692,
    "add_obj": 2062,
    "replace_att": 788,
    "replace_obj": 1652,
    "replace_rel": 1406,
    "swap_att": 666,
    "swap_obj": 245,
}

COMMIT = "c58a1fce695ee4f9d42ca15b6eeaacd84809416a"

DOWNLOAD = Download(
    COMMIT,
    github_files(
        "RAIVNLab/sugar-crepe",
        COMMIT,
        {
            "add_att.json": (
                "data/add_att.json",
                158863,
                "012d88d729693d193760e6f3393b06a1cf874380a9db0062e937201199fe044d",
            ),
            "add_obj.json": (
                "data/add_obj.json",
                484593,
                "1b9d76b93139a937b8dc1ada92a4f05ecc821bb3c291d752428bafadd4bb0682",
            ),
            "replace_att.json": (
                "data/replace_att.json",
                176843,
                "9fe55fd4c0a9ad1f85d486d9f6d0215b41f867eb025026e7f7b5ce44352545ee",
            ),
            "replace_obj.json": (
                "data/replace_obj.json",
                361126,
                "9d299600639947e9d15281a9ded1382b376cf4ea088a8d08a1314bfe76e81898",
            ),
            "replace_rel.json": (
                "data/replace_rel.json",
                312629,
                "356bcc2fc4c6aed3f4d9fd50acc58489bb1fe70c28791f9368d4cbf9ea39cdc9",
            ),
            "swap_att.json": (
                "data/swap_att.json",
                154665,
                "7a7ce04e5c4c80412b48c6f0c1347fb1a2f5d54c0be6aa429b64d390e442f8d0",
            ),
            "swap_obj.json": (
                "data/swap_obj.json",
                57569,
                "073cdb8e253d053614e80710834d9773b09dbc1dd0a412f6f9492262caa1dcad",
            ),
        },
    ),
    (coco_images("val2017", "val2017", count=1560),),
)

CARD = Card(
    name="sugarcrepe",
    title="SugarCrepe: replace, swap and add, with fluent hard negatives",
    paper="Hsieh et al., SugarCrepe: Fixing Hackable Benchmarks for Vision-Language "
    "Compositionality, NeurIPS 2023 (arXiv:2306.14610)",
    license="annotations MIT; images COCO 2017 (CC BY 4.0 annotations, Flickr terms)",
    source="github.com/RAIVNLab/sugar-crepe (data/*.json) and COCO val2017",
    layout="{add,replace,swap}_{att,obj,rel}.json, or the same under data/\n"
    "val2017/*.jpg, or images/, or coco/val2017/",
    download=DOWNLOAD,
    shape="1 × 2",
    family="choice",
    counts=SUBSETS,
    aggregation=Macro("subset"),
    chance={"accuracy": 1 / 2},
    tags={"subset": "what was changed, and how", "change": "add, replace or swap"},
    match=single_match(2, 0),
    scores="subset arrays",
    errata="572 pairs of swap_att and swap_obj have the same words in both captions: a model that "
    "ignores word order ties there, which an argmax with the right caption first prints as right",
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the examples of every existing subset file: the caption and its negative."""
    images = find_folder(root, "val2017", "images", "coco/val2017", "coco/images/val2017")
    for subset, path in find_annotation_files(root, SUBSETS, "data"):

        def build(record: Record, subset: str = subset) -> Example:
            name = record.text("filename")
            return Example(
                id=f"{subset}/{record.key}",
                images=(ImageRef(name, safe_join(images, name)),),
                texts=(record.text("caption"), record.text("negative_caption")),
                match=single_match(2, 0),
                tags={"subset": subset, "change": subset.split("_", maxsplit=1)[0]},
            )

        yield from parse_records(read_json_records(path, problems), build, problems)


BENCHMARK = Benchmark(CARD, read)
