"""VisMin: minimal changes of an object, an attribute, a number or a relation, in image and text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contrapose.data.benchmarks.pair_tables import PairColumns, read_pair_tables
from contrapose.data.cards import Benchmark, Card, Macro
from contrapose.data.downloads import Download, HubFiles
from contrapose.data.examples import Example
from contrapose.files import Problems

CARD = Card(
    name="vismin",
    title="VisMin: one minimal change, of object, attribute, number or relation",
    paper="Awal et al., VisMin: Visual Minimal-Change Understanding, NeurIPS 2024 "
    "(arXiv:2407.16772)",
    license="no license given; images COCO (Flickr terms) and edits by diffusion models",
    source="the dataset mair-lab/vismin-bench on the Hugging Face hub; "
    "github.com/rabiulcste/vismin",
    layout="*.parquet of the hub, or .json(l) with image names below this folder; here or "
    "in data/; columns id, image_0, image_1, text_0, text_1, category",
    download=Download(None, (HubFiles("mair-lab/vismin-bench", ("*.parquet",)),)),
    shape="2 × 2",
    family="pairs",
    counts={"vismin": 2084},
    aggregation=Macro("category"),
    chance={"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    tags={"category": "object, attribute, counting or relation"},
    by=("category",),
    errata="its files were not seen: the columns are those of the released script",
)

COLUMNS = PairColumns(
    ("image_0", "image_1"), ("text_0", "text_1"), id="id", tags={"category": "category"}
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the examples of all four categories."""
    return read_pair_tables(root, problems, COLUMNS)


BENCHMARK = Benchmark(CARD, read)
