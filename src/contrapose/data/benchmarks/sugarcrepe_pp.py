"""SugarCrepe++: two captions that mean the same, and a third that does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contrapose.data.benchmarks.common import find_annotation_files, find_folder
from contrapose.data.cards import Benchmark, Card, Macro
from contrapose.data.examples import Example
from contrapose.data.images import ImageRef
from contrapose.files import Problems, Record, parse_records, read_json_records, safe_join

SUBSETS = {
    "replace_att": 788,
    "replace_obj": 1652,
    "replace_rel": 1406,
    "swap_att": 666,
    "swap_obj": 245,
}

MATCH = ((True, False, True),)
"""Caption, negative caption, second caption."""

CARD = Card(
    name="sugarcrepe-pp",
    title="SugarCrepe++: two right captions in other words, and a wrong one in almost the same",
    paper="Dumpala et al., SUGARCREPE++ Dataset: Vision-Language Model Sensitivity to Semantic "
    "and Lexical Alterations, NeurIPS 2024 (arXiv:2406.11171)",
    license="annotations CC BY 4.0; images COCO 2017 (CC BY 4.0 annotations, Flickr terms)",
    source="github.com/Sri-Harsha/scpp (data/*.json) and COCO val2017",
    layout="{replace,swap}_{att,obj,rel}.json, or the same under data/\n"
    "val2017/*.jpg, or images/, or coco/val2017/",
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


BENCHMARK = Benchmark(CARD, read)
