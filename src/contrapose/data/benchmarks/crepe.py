"""CREPE productivity: captions that grow more complex, each among hard negatives."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from contrapose.data.benchmarks.fields import box
from contrapose.data.benchmarks.folders import find_image, require_folder
from contrapose.data.card import Card, Macro
from contrapose.data.example import Example, one_right
from contrapose.data.images import ImageRef
from contrapose.data.registry import Benchmark
from contrapose.errors import InputError
from contrapose.files import Malformed, Problems, Record, csv_records, parse

SUBSETS = ("atom", "swap", "negate")
COMPLEXITIES = range(4, 13)
PLACES = ("", "prod_hard_negatives", "crepe/prod_hard_negatives", "data/prod_hard_negatives")
IMAGES = ("VG_100K", "VG_100K_2", "images/VG_100K", "images/VG_100K_2", "images")

CARD = Card(
    name="crepe",
    title="CREPE productivity: hard negatives for captions of 4 to 12 atoms",
    paper="Ma et al., CREPE: Can Vision-Language Foundation Models Reason Compositionally?, "
    "CVPR 2023 (arXiv:2212.07796)",
    licence="annotations: none stated; images Visual Genome (CC BY 4.0)",
    source="github.com/RAIVNLab/CREPE (crepe/prod_hard_negatives) and Visual Genome's two image "
    "parts",
    layout="{atom,swap,negate}/prod_vg_hard_negs_<atom|swap|negate>_complexity_<4…12>.csv, here or "
    "in prod_hard_negatives/, with or without the folder a kind\n"
    "VG_100K/<id>.jpg and VG_100K_2/<id>.jpg, here or in images/",
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
    """Examples of every file that is there; texts are the caption and its hard negatives."""
    require_folder(root)
    files = [
        (subset, complexity, path)
        for subset in SUBSETS
        for complexity in COMPLEXITIES
        if (path := _file(root, subset, complexity)) is not None
    ]
    if not files:
        wanted = "prod_vg_hard_negs_<atom|swap|negate>_complexity_<4…12>.csv"
        raise InputError(f"holds none of {wanted}.", file=root)
    for subset, complexity, path in files:

        def build(record: Record, subset: str = subset, complexity: int = complexity) -> Example:
            image = f"{record.name('image_id')}.jpg"
            texts = (record.text("caption"), *_negatives(record))
            return Example(
                id=f"{subset}/{complexity}/{record.key}",
                images=(
                    ImageRef(
                        image,
                        find_image(root, image, *IMAGES),
                        crop=box(record, "x", "y", "width", "height"),
                    ),
                ),
                texts=texts,
                match=one_right(len(texts), 0),
                tags={"subset": subset, "complexity": str(complexity)},
            )

        yield from parse(csv_records(path, problems), build, problems)


def _file(root: Path, subset: str, complexity: int) -> Path | None:
    name = f"prod_vg_hard_negs_{subset}_complexity_{complexity}.csv"
    paths = (root / place / kind / name for place in PLACES for kind in (subset, ""))
    return next((path for path in paths if path.is_file()), None)


def _negatives(record: Record) -> list[str]:
    """The hard negatives, which the files hold as a Python list of texts."""
    try:
        found = ast.literal_eval(record.text("hard_negs").strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(t, str) for t in found):
        raise Malformed(f"record {record.key}: 'hard_negs' must be a list of texts.")
    return found


BENCHMARK = Benchmark(CARD, read)
