"""SugarCrepe: hard negatives that read as well as the caption they change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contrapose.data.benchmarks.common import find_annotation_files, find_folder
from contrapose.data.cards import Benchmark, Card, Macro
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

CARD = Card(
    name="sugarcrepe",
    title="SugarCrepe: replace, swap and add, with fluent hard negatives",
    paper="Hsieh et al., SugarCrepe: Fixing Hackable Benchmarks for Vision-Language "
    "Compositionality, NeurIPS 2023 (arXiv:2306.14610)",
    license="annotations MIT; images COCO 2017 (CC BY 4.0 annotations, Flickr terms)",
    source="github.com/RAIVNLab/sugar-crepe (data/*.json) and COCO val2017",
    layout="{add,replace,swap}_{att,obj,rel}.json, or the same under data/\n"
    "val2017/*.jpg, or images/, or coco/val2017/",
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
