"""BiVLC: SugarCrepe's hard negatives with an image of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contrapose.data.benchmarks.pair_tables import PairColumns, read_pair_tables
from contrapose.data.cards import Benchmark, Card, Micro
from contrapose.data.downloads import Download, HubFiles
from contrapose.data.examples import Example, diagonal_match
from contrapose.files import Problems

CARD = Card(
    name="bivlc",
    title="BiVLC: a photograph and a generated image of its hard negative caption",
    paper="Miranda et al., BiVLC: Extending Vision-Language Compositionality Evaluation with "
    "Text-to-Image Retrieval, NeurIPS 2024 (arXiv:2406.09952)",
    license="annotations MIT; images COCO 2017 (Flickr terms) and SDXL",
    source="the dataset imirandam/BiVLC on the Hugging Face hub; outcomes of four models in "
    "github.com/IMirandaM/BiVLC (results/)",
    layout="*.parquet of the hub, here or in data/, with the columns image, negative_image, "
    "caption, negative_caption, type, subtype",
    download=Download(None, (HubFiles("imirandam/BiVLC", ("*.parquet",)),)),
    shape="2 × 2",
    family="pairs",
    counts={"bivlc": 2933},
    aggregation=Micro(),
    chance={"text": 1 / 4, "image": 1 / 4, "group": 1 / 6},
    tags={"type": "replace, swap or add", "subtype": "object, attribute or relation"},
    by=("type", "subtype"),
    match=diagonal_match(2),
    scores="bivlc",
    single_choices="apart",
    official="I2T and T2I are text and image; Ipos, Ineg, Tpos and Tneg are text_image_0, "
    "text_image_1, image_caption_0 and image_caption_1",
    errata="the released results hold outcomes, not scores, and the images' names are lost in "
    "them. The hub's Parquet files were not seen: their columns are those of the released script",
)

COLUMNS = PairColumns(
    ("image", "negative_image"),
    ("caption", "negative_caption"),
    tags={"type": "type", "subtype": "subtype"},
)


def read(root: Path, problems: Problems) -> Iterator[Example]:
    """Read the examples; ids are their positions."""
    return read_pair_tables(root, problems, COLUMNS)


BENCHMARK = Benchmark(CARD, read)
