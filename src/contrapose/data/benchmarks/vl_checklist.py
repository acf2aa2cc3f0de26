"""VL-CheckList: one word of a short caption changed, by object, attribute and relation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from contrapose.data.benchmarks.common import find_folder, read_first_text, require_folder
from contrapose.data.cards import Benchmark, Card, Macro
from contrapose.data.downloads import Manual
from contrapose.data.examples import Example, single_match
from contrapose.data.images import ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Problem,
    Problems,
    Record,
    parse_records,
    read_json_records,
    safe_join,
)

SUBSETS = ("Attribute", "Object", "Relation")
IMAGE_FOLDERS = {"vg": "vg", "vaw": "vg", "swig": "swig", "hake": "hake"}
"""Source → folder of its images: VAW describes images of Visual Genome."""

CARD = Card(
    name="vl-checklist",
    title="VL-CheckList: objects, attributes and relations, one word changed",
    paper="Zhao et al., VL-CheckList: Evaluating Pre-trained Vision-Language Models with Objects, "
    "Attributes and Relations, 2022 (arXiv:2207.00221)",
    license="annotations free for non-commercial use; images under the terms of Visual Genome, "
    "SWiG and HAKE",
    source="github.com/om-ai-lab/VL-CheckList (data/, and DATASETS.md for the images)",
    layout="Attribute/{vg,vaw}/*.json, Object/{Location,Size}/**/*.json, Relation/**/*.json, here "
    "or in data/\n"
    "vg/VG_100K/, vg/VG_100K_2/, swig/, hake/, here or in images/",
    download=Manual(
        "https://github.com/om-ai-lab/VL-CheckList/blob/main/DATASETS.md",
        "take data/ of the repository, and the images of Visual Genome, SWiG and HAKE by the links",
    ),
    shape="1 × 2",
    family="choice",
    counts={},  # about 440,000 in 59 files
    # The authors make one accuracy a file, average the files of a source, then the sources of an
    # aspect, and stop there. A number for all can only be an average over files that keeps the
    # large ones (swig, hake) from drowning the small ones.
    aggregation=Macro("file"),
    chance={"accuracy": 1 / 2},
    tags={
        "subset": "object, attribute or relation",
        "aspect": "object/size, object/location, attribute/color, …, relation/action, …",
        "part": "the aspects of the authors' chart: as aspect, objects also by small, center, …",
        "source": "vg, vaw, swig or hake",
        "file": "the annotation file",
    },
    by=("subset", "aspect"),
    match=single_match(2, 0),
    official_limit=("file", 1000),
    official="takes the first 1,000 examples of a file (MAX_NUM 2000 counts both captions) whose "
    "images are there, and skips the others silently",
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the examples of every existing file: the first right and the first wrong text."""
    require_folder(root)
    base = root if any((root / name).is_dir() for name in SUBSETS) else root / "data"
    files = [path for name in SUBSETS for path in sorted((base / name).rglob("*.json"))]
    if not files:
        raise InputError(
            f"holds none of {', '.join(f'{s}/**/*.json' for s in SUBSETS)}.", file=root
        )
    folders = {
        folder: find_folder(root, folder, f"images/{folder}", "images")
        for folder in IMAGE_FOLDERS.values()
    }

    @cache
    def refer(folder: str, image: str) -> tuple[ImageRef]:
        return (ImageRef(f"{folder}/{image}", safe_join(folders[folder], image)),)

    for path in files:
        name = path.relative_to(base).as_posix()
        tags = parse_file_tags(name)
        if tags is None:
            message = "is not named after one of vg, vaw, swig and hake."
            problems.report(Problem("unknown file", message, path))
            continue
        folder = IMAGE_FOLDERS[tags["source"]]
        start = name.removesuffix(".json")

        def build(
            record: Record,
            start: str = start,
            tags: dict[str, str] = tags,
            folder: str = folder,
        ) -> Example:
            entry = record.value
            if not isinstance(entry, list) or list(map(type, entry)) != [str, dict]:
                raise MalformedError(f"record {record.key}: expected an image path and its texts.")
            captions = record.inner(entry[1])
            return Example(
                id=f"{start}/{record.key}",
                images=refer(folder, entry[0]),
                texts=(read_first_text(captions, "POS"), read_first_text(captions, "NEG")),
                match=single_match(2, 0),
                tags=tags,
            )

        yield from parse_records(read_json_records(path, problems), build, problems)


def parse_file_tags(name: str) -> dict[str, str] | None:
    """Parse the tags that a file's path gives its examples; None if it names no source.

    The layouts are Attribute/<source>/<aspect>.json, Object/<aspect>/…/<source>_…_<part>.json,
    Relation/<source>/<aspect>.json and Relation/<source>_<aspect>.json.
    """
    path = PurePosixPath(name)
    words = name.lower().removesuffix(".json").replace("/", "_").split("_")
    source = next((word for word in words if word in IMAGE_FOLDERS), None)
    if source is None:
        return None
    subset, last = path.parts[0].lower(), words[-1]
    if subset == "object":
        aspect = f"object/{path.parts[1].lower()}"
        part = f"{aspect}/{last}"
    else:
        aspect = part = f"{subset}/{last}"
    return {"subset": subset, "aspect": aspect, "part": part, "source": source, "file": name}


BENCHMARK = Benchmark(CARD, read)
