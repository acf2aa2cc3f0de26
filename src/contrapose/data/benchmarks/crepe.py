"""CREPE productivity: captions that grow more complex, each among hard negatives."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from contrapose.data.benchmarks.common import find_image, read_box, require_folder
from contrapose.data.cards import Benchmark, Card, Macro
from contrapose.data.downloads import Download, genome_images, github_files
from contrapose.data.examples import Example, single_match
from contrapose.data.images import ImageRef
from contrapose.errors import InputError
from contrapose.files import MalformedError, Problems, Record, parse_records, read_csv_records

SUBSETS = ("atom", "swap", "negate")
COMPLEXITIES = range(4, 13)
ANNOTATION_FOLDERS = (
    "",
    "prod_hard_negatives",
    "crepe/prod_hard_negatives",
    "data/prod_hard_negatives",
)
IMAGE_FOLDERS = ("VG_100K", "VG_100K_2", "images/VG_100K", "images/VG_100K_2", "images")

DOWNLOAD = Download(
    None,
    github_files(
        "RAIVNLab/CREPE",
        "HEAD",
        {
            f"{kind}/{name}": (f"crepe/prod_hard_negatives/{kind}/{name}", None, None)
            for kind in SUBSETS
            for n in COMPLEXITIES
            if (name := f"prod_vg_hard_negs_{kind}_complexity_{n}.csv")
        },
    ),
    (genome_images("VG_100K"),),
)

CARD = Card(
    name="crepe",
    title="CREPE productivity: hard negatives for captions of 4 to 12 atoms",
    paper="Ma et al., CREPE: Can Vision-Language Foundation Models Reason Compositionally?, "
    "CVPR 2023 (arXiv:2212.07796)",
    license="annotations: none stated; images Visual Genome (CC BY 4.0)",
    source="github.com/RAIVNLab/CREPE (crepe/prod_hard_negatives) and Visual Genome's two image "
    "parts",
    layout="{atom,swap,negate}/prod_vg_hard_negs_<atom|swap|negate>_complexity_<4…12>.csv, here or "
    "in prod_hard_negatives/, with or without the folder a kind\n"
    "VG_100K/<id>.jpg and VG_100K_2/<id>.jpg, here or in images/",
    download=DOWNLOAD,
    shape="1 × 6",
    family="choice",
    counts={},  # about 17,000 captions; the files' own numbers are not published
    # The paper plots R@1 by complexity for each kind of negative and gives no number for all;
    # those who quote one give a number a kind, so the kinds count alike here.
    aggregation=Macro("subset"),
    chance={"accuracy": 1 / 6},
    tags={
        "subset": "how the negatives were made: atom, swap or negate",
        "complexity": "atoms in the caption's scene graph: 4 to 12",
    },
    by=("subset", "complexity"),
    official="ranks by argsort, so a tie falls either way; R@1 for each kind and complexity",
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the examples of every existing file: the caption and its hard negatives."""
    require_folder(root)
    files = [
        (subset, complexity, path)
        for subset in SUBSETS
        for complexity in COMPLEXITIES
        if (path := _find_file(root, subset, complexity)) is not None
    ]
    if not files:
        wanted = "prod_vg_hard_negs_<atom|swap|negate>_complexity_<4…12>.csv"
        raise InputError(f"holds none of {wanted}.", file=root)
    for subset, complexity, path in files:

        def build(record: Record, subset: str = subset, complexity: int = complexity) -> Example:
            image = f"{record.name('image_id')}.jpg"
            texts = (record.text("caption"), *_parse_negatives(record))
            return Example(
                id=f"{subset}/{complexity}/{record.key}",
                images=(
                    ImageRef(
                        image,
                        find_image(root, image, *IMAGE_FOLDERS),
                        crop=read_box(record, "x", "y", "width", "height"),
                    ),
                ),
                texts=texts,
                match=single_match(len(texts), 0),
                tags={"subset": subset, "complexity": str(complexity)},
            )

        yield from parse_records(read_csv_records(path, problems), build, problems)


def _find_file(root: Path, subset: str, complexity: int) -> Path | None:
    name = f"prod_vg_hard_negs_{subset}_complexity_{complexity}.csv"
    paths = (root / folder / kind / name for folder in ANNOTATION_FOLDERS for kind in (subset, ""))
    return next((path for path in paths if path.is_file()), None)


def _parse_negatives(record: Record) -> list[str]:
    """Parse the hard negatives, which the files hold as a Python list of texts."""
    try:
        negatives = ast.literal_eval(record.text("hard_negs").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        negatives = None
    if (
        not isinstance(negatives, list)
        or not negatives
        or not all(isinstance(t, str) for t in negatives)
    ):
        raise MalformedError(f"record {record.key}: 'hard_negs' must be a list of texts.")
    return negatives


BENCHMARK = Benchmark(CARD, read)
