"""ARO's Visual Genome sets: who does what to whom, and which of two things is which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from contrapose.data.benchmarks.aro_symmetric import SYMMETRIC
from contrapose.data.benchmarks.fields import box
from contrapose.data.benchmarks.folders import find_file, first_folder
from contrapose.data.card import Card, Macro
from contrapose.data.example import Example, one_right
from contrapose.data.images import ImageRef
from contrapose.data.registry import Benchmark
from contrapose.files import Malformed, Problems, Record, inside, json_records, parse

PAPER = (
    "Yuksekgonul et al., When and Why Vision-Language Models Behave like Bags-of-Words, and What "
    "to Do About It?, ICLR 2023 (arXiv:2210.01936)"
)
LICENCE = "annotations MIT; images Visual Genome (CC BY 4.0)"
SOURCE = "github.com/mertyg/vision-language-models-are-bows (dataset_zoo names the downloads)"

RELATION = Card(
    name="aro-relation",
    title="ARO VG-Relation: subject and object change places",
    paper=PAPER,
    licence=LICENCE,
    source=SOURCE,
    layout="visual_genome_relation.json, here or in annotations/\n"
    "images/*.jpg (vgr_vga_images.zip)",
    shape="1 × 2",
    family="choice",
    counts={"relation": 23937},
    aggregation=Macro("relation", drop=SYMMETRIC),
    chance={"accuracy": 1 / 2},
    tags={"relation": "the relation between the two objects"},
    by=("relation",),
    match=one_right(2, 1),
    scores="subset arrays",
)

ATTRIBUTION = Card(
    name="aro-attribution",
    title="ARO VG-Attribution: two attributes change places",
    paper=PAPER,
    licence=LICENCE,
    source=SOURCE,
    layout="visual_genome_attribution.json, here or in annotations/\n"
    "images/*.jpg (vgr_vga_images.zip)",
    shape="1 × 2",
    family="choice",
    counts={"attribution": 28748},
    aggregation=Macro("attributes", least=25),
    chance={"accuracy": 1 / 2},
    tags={"attributes": "the two attributes, joined by _"},
    by=("attributes",),
    match=one_right(2, 1),
    scores="subset arrays",
)


def read_relation(root: Path, problems: Problems) -> Iterator[Example]:
    """Examples in file order."""
    return _read(root, "visual_genome_relation.json", _relation, problems)


def read_attribution(root: Path, problems: Problems) -> Iterator[Example]:
    """Examples in file order."""
    return _read(root, "visual_genome_attribution.json", _attributes, problems)


def _read(
    root: Path, name: str, tags: Callable[[Record], dict[str, str]], problems: Problems
) -> Iterator[Example]:
    """The false caption comes first, as in the official score arrays."""
    path = find_file(root, name, f"annotations/{name}")
    images = first_folder(root, "images")

    def build(record: Record) -> Example:
        file = record.text("image_path")
        crop = box(record, "bbox_x", "bbox_y", "bbox_w", "bbox_h")
        return Example(
            id=record.key,
            images=(ImageRef(file, inside(images, file), crop=crop),),
            texts=(record.text("false_caption"), record.text("true_caption")),
            match=one_right(2, 1),
            tags=tags(record),
        )

    yield from parse(json_records(path, problems), build, problems)


def _relation(record: Record) -> dict[str, str]:
    return {"relation": record.text("relation_name")}


def _attributes(record: Record) -> dict[str, str]:
    match record.field("attributes"):
        case [str(first), str(second)]:
            return {"attributes": f"{first}_{second}"}
    raise Malformed(f"record {record.key}: 'attributes' must be a list of two texts.")


BENCHMARKS = {
    "aro-relation": Benchmark(RELATION, read_relation),
    "aro-attribution": Benchmark(ATTRIBUTION, read_attribution),
}
