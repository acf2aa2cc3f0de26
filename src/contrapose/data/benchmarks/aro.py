"""ARO's Visual Genome sets, relation and attribution: a caption, and one with its parts swapped.

The authors' notebook drops a list of relations, which it calls symmetric, before it averages. By
meaning not all of them are (“drinking”, say), but a published number can only be matched with the
list as it is.

The authors' notebook calls them symmetric and drops them before it averages. By meaning not all of
them are (“drinking”, say), but a published number can only be matched with the list as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from contrapose.data.benchmarks.common import find_file, find_folder, read_box
from contrapose.data.cards import Benchmark, Card, Macro
from contrapose.data.downloads import Manual
from contrapose.data.examples import Example, single_match
from contrapose.data.images import ImageRef
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    parse_records,
    read_json_records,
    safe_join,
)

SYMMETRIC_RELATIONS = frozenset(
    {
        "adjusting",
        "around",
        "attached to",
        "beside",
        "between",
        "bigger than",
        "biting",
        "boarding",
        "brushing",
        "by",
        "chewing",
        "cleaning",
        "climbing",
        "close to",
        "coming from",
        "coming out of",
        "contain",
        "crossing",
        "dragging",
        "draped over",
        "drinking",
        "drinking from",
        "driving",
        "driving down",
        "driving on",
        "eating from",
        "eating in",
        "enclosing",
        "exiting",
        "facing",
        "filled with",
        "floating in",
        "floating on",
        "flying",
        "flying above",
        "flying in",
        "flying over",
        "flying through",
        "full of",
        "going down",
        "going into",
        "going through",
        "grazing in",
        "growing in",
        "growing on",
        "guiding",
        "hanging from",
        "hanging in",
        "hanging off",
        "hanging over",
        "higher than",
        "holding onto",
        "hugging",
        "in between",
        "jumping off",
        "jumping on",
        "jumping over",
        "kept in",
        "larger than",
        "leading",
        "leaning over",
        "leaving",
        "licking",
        "longer than",
        "looking in",
        "looking into",
        "looking out",
        "looking over",
        "looking through",
        "lying next to",
        "lying on top of",
        "making",
        "mixed with",
        "mounted on",
        "moving",
        "near",
        "next to",
        "of",
        "on the back of",
        "on the edge of",
        "on the front of",
        "on the other side of",
        "on the side of",
        "opening",
        "painted on",
        "parked at",
        "parked beside",
        "parked by",
        "parked in",
        "parked in front of",
        "parked near",
        "parked next to",
        "perched on",
        "petting",
        "piled on",
        "playing",
        "playing in",
        "playing on",
        "playing with",
        "pouring",
        "reaching for",
        "reading",
        "reflected on",
        "riding on",
        "running in",
        "running on",
        "running through",
        "seen through",
        "sitting behind",
        "sitting beside",
        "sitting by",
        "sitting in front of",
        "sitting near",
        "sitting next to",
        "sitting under",
        "skiing down",
        "skiing on",
        "sleeping in",
        "sleeping on",
        "smiling at",
        "sniffing",
        "splashing",
        "sprinkled on",
        "stacked on",
        "standing against",
        "standing around",
        "standing behind",
        "standing beside",
        "standing in front of",
        "standing near",
        "standing next to",
        "staring at",
        "stuck in",
        "surrounding",
        "swimming in",
        "swinging",
        "talking to",
        "topped with",
        "touching",
        "traveling down",
        "traveling on",
        "tying",
        "typing on",
        "underneath",
        "wading in",
        "waiting for",
        "walking across",
        "walking by",
        "walking down",
        "walking next to",
        "walking through",
        "with",
        "working in",
        "working on",
        "worn on",
        "wrapped around",
        "wrapped in",
    }
)


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
    license=LICENCE,
    source=SOURCE,
    layout="visual_genome_relation.json, here or in annotations/\n"
    "images/*.jpg (vgr_vga_images.zip)",
    download=Manual(
        "https://github.com/mertyg/vision-language-models-are-bows",
        "fetch visual_genome_relation.json and vgr_vga_images.zip from its Google Drive",
    ),
    shape="1 × 2",
    family="choice",
    counts={"relation": 23937},
    aggregation=Macro("relation", drop=SYMMETRIC_RELATIONS),
    chance={"accuracy": 1 / 2},
    tags={"relation": "the relation between the two objects"},
    by=("relation",),
    match=single_match(2, 1),
    scores="subset arrays",
)

ATTRIBUTION = Card(
    name="aro-attribution",
    title="ARO VG-Attribution: two attributes change places",
    paper=PAPER,
    license=LICENCE,
    source=SOURCE,
    layout="visual_genome_attribution.json, here or in annotations/\n"
    "images/*.jpg (vgr_vga_images.zip)",
    download=Manual(
        "https://github.com/mertyg/vision-language-models-are-bows",
        "fetch visual_genome_attribution.json and vgr_vga_images.zip from its Google Drive",
    ),
    shape="1 × 2",
    family="choice",
    counts={"attribution": 28748},
    aggregation=Macro("attributes", least=25),
    chance={"accuracy": 1 / 2},
    tags={"attributes": "the two attributes, joined by _"},
    by=("attributes",),
    match=single_match(2, 1),
    scores="subset arrays",
)


def read_relation(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the relation examples in file order."""
    return _read(root, "visual_genome_relation.json", _relation_tags, problems)


def read_attribution(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the attribution examples in file order."""
    return _read(root, "visual_genome_attribution.json", _attribute_tags, problems)


def _read(
    root: Path, name: str, tags: Callable[[Record], dict[str, str]], problems: Problems
) -> Iterator[Example]:
    """Read examples; the false caption comes first, as in the official score arrays."""
    path = find_file(root, name, f"annotations/{name}")
    images = find_folder(root, "images")

    def build(record: Record) -> Example:
        file = record.text("image_path")
        crop = read_box(record, "bbox_x", "bbox_y", "bbox_w", "bbox_h")
        return Example(
            id=record.key,
            images=(ImageRef(file, safe_join(images, file), crop=crop),),
            texts=(record.text("false_caption"), record.text("true_caption")),
            match=single_match(2, 1),
            tags=tags(record),
        )

    yield from parse_records(read_json_records(path, problems), build, problems)


def _relation_tags(record: Record) -> dict[str, str]:
    return {"relation": record.text("relation_name")}


def _attribute_tags(record: Record) -> dict[str, str]:
    match record.field("attributes"):
        case [str(first), str(second)]:
            return {"attributes": f"{first}_{second}"}
    raise MalformedError(f"record {record.key}: 'attributes' must be a list of two texts.")


BENCHMARKS = {
    "aro-relation": Benchmark(RELATION, read_relation),
    "aro-attribution": Benchmark(ATTRIBUTION, read_attribution),
}
