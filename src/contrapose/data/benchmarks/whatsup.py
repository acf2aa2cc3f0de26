"""What'sUp: where one thing lies from another, in photographs that differ in nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from contrapose.data.benchmarks.common import find_file, find_image
from contrapose.data.cards import Benchmark, Card, Micro, Suite
from contrapose.data.downloads import Manual
from contrapose.data.examples import Example, TagValue, single_match
from contrapose.data.images import ImageRef
from contrapose.files import MalformedError, Problems, Record, parse_records, read_json_records

PAPER = (
    "Kamath et al., What's “up” with vision-language models? Investigating their struggle with "
    "spatial reasoning, EMNLP 2023 (arXiv:2310.19785)"
)
SOURCE = "github.com/amitakamath/whatsup_vlms, which links to the files on Google Drive"
DOWNLOAD = Manual(
    "https://github.com/amitakamath/whatsup_vlms",
    "fetch the annotations and images from its Google Drive, and unpack",
)

ERRATA = (
    "the released script takes the first of equal scores, which is the right caption: a constant "
    "scorer gets 100 %. Papers quote it with or without pair and set accuracy. The files were not "
    "seen: their fields are those that the released script reads"
)
HORIZONTAL = ("left", "right")
RELATIONS = {
    "controlled_images": (*HORIZONTAL, "on", "under"),
    "controlled_clevr": (*HORIZONTAL, "in-front", "behind"),
}
"""Folder of photographs → the second word of a photograph's name."""

QUESTIONS = {
    "coco-one": ("coco_qa_one_obj.json", 2247, "val2017", "COCO: where in the photograph is it?"),
    "coco-two": ("coco_qa_two_obj.json", 440, "val2017", "COCO: where is one from the other?"),
    "vg-one": ("vg_qa_one_obj.json", 1160, "vg_images", "VG: where in the photograph is it?"),
    "vg-two": ("vg_qa_two_obj.json", 291, "vg_images", "VG: where is one from the other?"),
}
"""Part → file, number of rows, folder of images, title."""


def _controlled_card(name: str, title: str, file: str, folder: str, count: int) -> Card:
    return Card(
        name=f"whatsup/{name}",
        title=f"What'sUp {title}",
        paper=PAPER,
        license="MIT",
        source=SOURCE,
        layout=f"{file}, here or in data/\n{folder}/<thing>_<relation>_<thing>.jpeg",
        download=DOWNLOAD,
        shape="1 × 4",
        family="sets",
        counts={name: count},
        aggregation=Micro(),
        chance={"accuracy": 1 / 4},
        tags={
            "relation": "of the photograph",
            "pair": "two photographs of the same things in opposite relations",
            "set": "four photographs of the same things",
        },
        by=("relation",),
        match=single_match(4, 0),
        official_ties="right",
        official="argmax: a tie goes to the right caption, which stands first",
        errata=ERRATA,
    )


def _read_controlled(file: str, folder: str) -> Callable[[Path, Problems], Iterator[Example]]:
    def read(root: Path, problems: Problems) -> Iterator[Example]:
        def build(record: Record) -> Example:
            return _build_controlled(record, root, folder)

        path = find_file(root, file, f"data/{file}")
        yield from parse_records(read_json_records(path, problems), build, problems)

    return read


def _build_controlled(record: Record, root: Path, folder: str) -> Example:
    name = PurePosixPath(record.text("image_path")).name
    words = name.rpartition(".")[0].split("_")
    if len(words) < 3 or words[1] not in RELATIONS[folder]:
        raise MalformedError(
            f"record {record.key}: the image {name!r} is not named <thing>_<relation>_<thing>."
        )
    captions = record.field("caption_options")
    if not isinstance(captions, list) or len(captions) != 4:
        raise MalformedError(f"record {record.key}: 'caption_options' must be four captions.")
    things = f"{words[0]}, {words[-1]}"
    axis = "left or right" if words[1] in HORIZONTAL else " or ".join(RELATIONS[folder][2:])
    image = ImageRef(name, find_image(root, name, folder, f"data/{folder}", "images"))
    tags: dict[str, TagValue] = {
        "relation": words[1],
        "pair": f"{things}: {axis}",
        "set": things,
    }
    return Example(record.key, (image,), tuple(captions), single_match(4, 0), tags)


def _question_card(name: str) -> Card:
    file, count, folder, title = QUESTIONS[name]
    return Card(
        name=f"whatsup/{name}",
        title=f"What'sUp {title}",
        paper=PAPER,
        license="annotations MIT; images COCO 2017 (Flickr terms) and Visual Genome (CC BY 4.0)",
        source=SOURCE,
        layout=f"{file}, here or in data/: rows [image id, right caption, wrong caption]\n"
        f"{folder}/*.jpg",
        download=DOWNLOAD,
        shape="1 × 2",
        family="choice",
        counts={name: count},
        aggregation=Micro(),
        chance={"accuracy": 1 / 2},
        by=(),
        match=single_match(2, 0),
        official_ties="right",
        official="argmax: a tie goes to the right caption, which stands first",
        errata=ERRATA,
    )


def _read_questions(part: str) -> Callable[[Path, Problems], Iterator[Example]]:
    file, _, folder, _ = QUESTIONS[part]

    def build(record: Record, root: Path) -> Example:
        row = record.value
        if not isinstance(row, list) or len(row) < 3:
            raise MalformedError(
                f"record {record.key}: expected [image id, right caption, wrong caption]."
            )
        number = record.inner({"image id": row[0]}).integer("image id")
        name = f"{number:012}.jpg" if folder == "val2017" else f"{number}.jpg"
        image = ImageRef(name, find_image(root, name, folder, f"data/{folder}", "images"))
        return Example(record.key, (image,), (row[1], row[2]), single_match(2, 0))

    def read(root: Path, problems: Problems) -> Iterator[Example]:
        path = find_file(root, file, f"data/{file}")
        records = read_json_records(path, problems)
        yield from parse_records(records, lambda record: build(record, root), problems)

    return read


CONTROLLED = {
    "a": ("A: on, under, left or right of a thing", "controlled_images_dataset.json",
          "controlled_images", 412),
    "b": ("B: before, behind, left or right of a thing", "controlled_clevr_dataset.json",
          "controlled_clevr", 408),
}  # fmt: skip

BENCHMARK = Suite(
    "whatsup",
    "What'sUp: left, right, on, under, before, behind, in photographs that differ in nothing else",
    {
        **{
            name: Benchmark(
                _controlled_card(name, title, file, folder, count), _read_controlled(file, folder)
            )
            for name, (title, file, folder, count) in CONTROLLED.items()
        },
        **{name: Benchmark(_question_card(name), _read_questions(name)) for name in QUESTIONS},
    },
)
